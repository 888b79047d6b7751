"""scikit-learn without `scipy.stats`, until somebody needs it.

Importing any estimator imports scipy's statistics: a third of the time until the first prediction and a quarter of the
memory, for a handful of functions that no predict calls. So a stand-in takes the module's place. It hands those functions out as
promises, and any other question makes it the real module, in place, so nothing can tell the difference afterwards.
"""
import importlib.util
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

NAME = "scipy.stats"
PROMISED = ("rankdata", "gmean", "spearmanr", "mode")   # what scikit-learn imports by name, to call in metrics and when fitting


class _StandIn(ModuleType):
    """An unloaded module. `__getattr__` is asked only for what is not there yet."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in PROMISED and NAME in _UNLOADED:
            return _promise(self, name)
        _load(self)
        try:
            return self.__dict__[name]
        except KeyError:
            raise AttributeError(f"module {NAME!r} has no attribute {name!r}") from None


_LOCK = threading.RLock()
_UNLOADED: set[str] = set()


def defer_statistics() -> None:
    """Put the stand-in where `import scipy.stats` looks, unless the module is there already."""
    if NAME in sys.modules or importlib.util.find_spec("scipy") is None:
        return
    import scipy
    spec = importlib.util.find_spec(NAME)
    if spec is None or spec.loader is None:
        return
    stand_in = _StandIn(NAME)
    stand_in.__spec__, stand_in.__loader__, stand_in.__file__ = spec, spec.loader, spec.origin
    stand_in.__path__, stand_in.__package__ = list(spec.submodule_search_locations or ()), NAME
    _UNLOADED.add(NAME)
    sys.modules[NAME] = scipy.stats = stand_in


def _load(module: ModuleType) -> None:
    with _LOCK:
        if NAME not in _UNLOADED:   # loaded by another thread meanwhile, or being loaded by this one
            return
        _UNLOADED.discard(NAME)
        spec = module.__spec__
        assert spec is not None
        assert spec.loader is not None
        spec.loader.exec_module(module)
        module.__class__ = ModuleType


def _promise(module: ModuleType, name: str) -> Callable[..., Any]:
    def call(*arguments: Any, **more: Any) -> Any:
        _load(module)
        return module.__dict__[name](*arguments, **more)
    call.__name__ = call.__qualname__ = name
    call.__module__ = NAME
    return call
