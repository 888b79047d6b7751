"""Reads a pickle without running it.

Every class and function that the file names becomes an inert stand-in that only remembers what it was given; arrays are
rebuilt here. So a file can be looked at (which classes, which scikit-learn) and a known model computed from its arrays,
while nothing of the file's choosing is ever imported or called. Covers `pickle` of every protocol and joblib's files,
compressed or not.
"""
import bz2
import gzip
import io
import lzma
import pickle
import zlib
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np

LARGEST = 4 << 30   # bytes after decompression; a model beyond this is better not read twice
_ARRAY_MODULES = ("numpy.core.multiarray", "numpy._core.multiarray")
_BUFFER_MODULES = ("numpy.core.numeric", "numpy._core.numeric")


class NotReadable(Exception):
    """This file cannot be looked at this way; whether it can be loaded at all is another question."""


class Inert:
    """What stands where the file had an object: its class's name, how it was built, its state."""

    module = ""
    name = ""
    args: tuple[Any, ...]
    state: Any
    items: list[Any]

    def __new__(cls, *args: Any, **kwargs: Any) -> "Inert":
        self = super().__new__(cls)
        self.args, self.state, self.items = args, None, []
        return self

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        self.state = state

    # A pickle may fill any object as a list, set or mapping.
    def append(self, item: Any) -> None:
        self.items.append(item)

    def extend(self, items: Any) -> None:
        self.items.extend(items)

    add = append

    def __setitem__(self, key: Any, value: Any) -> None:
        self.items.append((key, value))

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        return f"<{self.module}.{self.name}>"

    def get(self, attribute: str, default: Any = None) -> Any:
        return self.state.get(attribute, default) if isinstance(self.state, dict) else default


def inert_class(module: str, name: str) -> type[Inert]:
    return type(name, (Inert,), {"module": module, "name": name})


def read(path: Path) -> Any:
    """The file's object, made of plain values, arrays and `Inert`s."""
    try:
        with path.open("rb") as file:
            return _Reader(io.BytesIO(_decompressed(file.read()))).load()
    except NotReadable:
        raise
    except (OSError, MemoryError, RecursionError) as error:
        raise NotReadable(str(error)) from error
    except Exception as error:   # a broken or hostile pickle may fail anywhere in the machine
        raise NotReadable(f"not a readable pickle: {type(error).__name__}: {error}") from error


class _Reader(pickle._Unpickler):  # the Python one: joblib's arrays lie between its opcodes
    dispatch = pickle._Unpickler.dispatch.copy()

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self._file = file
        self._classes: dict[tuple[str, str], Any] = {}

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._classes:
            self._classes[module, name] = _known_builder(module, name) or inert_class(module, name)
        return self._classes[module, name]

    def get_extension(self, code: int) -> Any:
        raise NotReadable("uses the extension registry")

    def persistent_load(self, pid: Any) -> Any:
        raise NotReadable("refers to objects outside the file")

    def load_build(self) -> None:
        super().load_build()  # type: ignore[misc]
        top = self.stack[-1]  # type: ignore[attr-defined]
        if isinstance(top, Inert) and top.module == "joblib.numpy_pickle" and top.name == "NumpyArrayWrapper":
            self.stack[-1] = self._joblib_array(top)  # type: ignore[attr-defined]

    dispatch[pickle.BUILD[0]] = load_build  # type: ignore[assignment]

    def _joblib_array(self, wrapper: Inert) -> Any:
        dtype, shape, order = wrapper.get("dtype"), wrapper.get("shape"), wrapper.get("order")
        if not isinstance(dtype, np.dtype) or not isinstance(shape, tuple):
            raise NotReadable("an array without type or shape")
        if dtype.hasobject:
            return _Reader(self._file).load()
        if wrapper.get("numpy_array_alignment_bytes") is not None:
            self._file.read(self._file.read(1)[0])
        size = int(np.prod(shape, dtype=object)) * dtype.itemsize
        raw = self._file.read(size)
        if size < 0 or len(raw) != size:
            raise NotReadable("cut short within an array")
        return np.frombuffer(raw, dtype=dtype).reshape(shape, order="F" if order == "F" else "C")


def _known_builder(module: str, name: str) -> Any:
    if module in _ARRAY_MODULES and name == "_reconstruct":
        return _empty_array
    if module in _ARRAY_MODULES and name == "scalar":
        return _scalar
    if module in _BUFFER_MODULES and name == "_frombuffer":
        return _array_from_buffer
    return _PLAIN.get((module, name))


def _empty_array(kind: Any, shape: Any, typecode: Any) -> Any:
    return np.ndarray.__new__(np.ndarray, (0,), "b")   # its state follows


def _array_from_buffer(buffer: Any, dtype: Any, shape: Any, order: Any) -> Any:
    if not isinstance(dtype, np.dtype) or dtype.hasobject:
        raise NotReadable("an array of no plain type")
    return np.frombuffer(buffer, dtype=dtype).reshape(shape, order=order)


def _scalar(dtype: Any, raw: Any = b"") -> Any:
    if not isinstance(dtype, np.dtype) or dtype.hasobject or not isinstance(raw, bytes):
        raise NotReadable("a scalar of no plain type")
    return np.frombuffer(raw, dtype=dtype)[0]


def _reconstructed(kind: Any, base: Any, state: Any) -> Any:
    """What protocols 0 and 1 call for every object."""
    if not (isinstance(kind, type) and issubclass(kind, Inert)):
        raise NotReadable("an object of no known class")
    return kind.__new__(kind)


def _encoded(text: Any, encoding: Any = "utf-8") -> bytes:
    """How protocols 0 to 2 write bytes."""
    if not isinstance(text, str) or encoding not in ("latin1", "utf-8"):
        raise NotReadable("bytes in an unknown encoding")
    return text.encode(encoding)


def _no_bytes() -> bytes:
    """How protocols 0 to 2 write b""; with a number it would allocate what the file asks for."""
    return b""


_PLAIN: dict[tuple[str, str], Any] = {
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): _encoded, ("builtins", "bytes"): _no_bytes, ("__builtin__", "bytes"): _no_bytes,
    ("collections", "OrderedDict"): OrderedDict,
    ("builtins", "set"): set, ("builtins", "frozenset"): frozenset, ("builtins", "slice"): slice,
    ("builtins", "object"): object, ("__builtin__", "object"): object,
    ("builtins", "complex"): complex,
    ("copyreg", "_reconstructor"): _reconstructed, ("copy_reg", "_reconstructor"): _reconstructed,
}


def _decompressed(raw: bytes) -> bytes:
    """joblib compresses by zlib, gzip, bz2 or lzma; told apart by the first bytes."""
    if raw[:1] == b"\x78":
        return _bounded(zlib.decompressobj(), raw)
    if raw[:2] == b"\x1f\x8b":
        with gzip.GzipFile(fileobj=io.BytesIO(raw)) as file:
            return _all_of(file)
    if raw[:3] == b"BZh":
        return _all_of(bz2.BZ2File(io.BytesIO(raw)))
    if raw[:6] == b"\xfd7zXZ\x00" or raw[:3] == b"\x5d\x00\x00":
        return _all_of(lzma.LZMAFile(io.BytesIO(raw)))
    return raw


def _bounded(machine: Any, raw: bytes) -> bytes:
    plain: bytes = machine.decompress(raw, LARGEST)
    if machine.unconsumed_tail:
        raise NotReadable("too large once decompressed")
    return plain


def _all_of(file: Any) -> bytes:
    plain: bytes = file.read(LARGEST)
    if file.read(1):
        raise NotReadable("too large once decompressed")
    return plain
