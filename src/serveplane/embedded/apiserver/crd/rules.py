"""CEL rules (`x-kubernetes-validations`), run where the extra `[cel]` is installed.

A rule that cannot be run here is never passed over in silence: the definition that carries it is answered with a Warning.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from serveplane.embedded.apiserver.errors import Cause
from serveplane.objects import Json

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.crd.schema import Node

try:
    from cel_expr_python import cel
except ImportError:
    cel = None

NAMES = ("self", "oldSelf", "object", "oldObject", "request", "authorizer", "variables", "params", "namespaceObject")
RESERVED = frozenset(
    {
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "true",
        "false",
        "null",
        "in",
        "var",
        "void",
        "while",
    }
)


class Rule:
    """One rule of one place in a schema."""

    def __init__(self, value: Json) -> None:
        self.text: str = value.get("rule", "")
        self.transition = "oldSelf" in self.text
        self._optional_old = bool(value.get("optionalOldSelf"))
        self._message: str = value.get("message") or ""
        self._message_expression: str = value.get("messageExpression") or ""
        self._reason: str = value.get("reason") or "FieldValueInvalid"
        self._field_path: str = value.get("fieldPath") or ""
        self._program, self.trouble = compiled(self.text)

    def problems(self, value: Any, path: str, old: Any, ratchet: bool, node: "Node") -> Iterator[Cause]:
        if self._program is None or (self.transition and old is None) or (ratchet and not self.transition):
            return
        names = {"self": escaped(value, node)} | ({"oldSelf": escaped(old, node)} if self.transition else {})
        result, trouble = evaluated(self._program, names)
        if result is True:
            return
        message = trouble or self._told(names)
        shown = "object" if isinstance(value, dict) else "array" if isinstance(value, list) else value
        from serveplane.embedded.apiserver.crd.constraints import shown as as_json

        yield Cause(self._reason, self._sentence(as_json(shown), message), (path + self._field_path).lstrip(".") or "<nil>")

    def _sentence(self, shown: str, message: str) -> str:
        match self._reason:
            case "FieldValueForbidden":
                return f"Forbidden: {message}"
            case "FieldValueRequired":
                return f"Required value: {message}"
            case "FieldValueDuplicate":
                return f"Duplicate value: {shown}"
            case _:
                return f"Invalid value: {shown}: {message}"

    def _told(self, names: dict[str, Any]) -> str:
        if self._message_expression:
            program, _ = compiled(self._message_expression)
            text, trouble = evaluated(program, names) if program is not None else (None, "")
            if isinstance(text, str) and text.strip() and not trouble:
                return text
        return self._message or f"failed rule: {self.text.strip()}"


def rules_of(schema: Json) -> list[Rule]:
    return [Rule(value) for value in schema.get("x-kubernetes-validations") or ()]


@lru_cache(maxsize=1)
def _environment() -> Any:
    from cel_expr_python.ext import ext_math, ext_optional, ext_strings

    kinds = dict.fromkeys(NAMES, cel.Type.DYN)
    return cel.NewEnv(
        variables=kinds, extensions=[ext_math.ExtMath(), ext_strings.ExtStrings(), ext_optional.ExtOptional()]
    )


@lru_cache(maxsize=4096)
def compiled(text: str) -> tuple[Any, str]:
    """The program of an expression, or nothing and why."""
    if cel is None:
        return None, "the extra serveplane[cel] is not installed"
    try:
        return _environment().compile(text), ""
    except Exception as error:  # the library raises its own kinds, and plain RuntimeError
        return None, str(error).splitlines()[0] if str(error) else type(error).__name__


def evaluated(program: Any, names: dict[str, Any]) -> tuple[Any, str]:
    """The result as a Python value, or nothing and the trouble."""
    try:
        result = program.eval(data=names)
    except Exception as error:
        return None, f"rule evaluation error: {error}"
    value = result.value()
    if "ERROR" in str(result.type()).upper():
        return None, f"rule evaluation error: {value}"
    return value, ""


def escaped(value: Any, node: "Node | None") -> Any:
    """Field names that CEL could not name are escaped as Kubernetes does: `a-b` is `a__dash__b`. Keys of maps are not names."""
    if node is None:
        return value
    if isinstance(value, dict):
        known = node.properties
        return {
            _name(key) if key in known else key: escaped(item, known.get(key, node.values))
            for key, item in value.items()
        }
    return [escaped(item, node.items) for item in value] if isinstance(value, list) else value


def _name(name: str) -> str:
    if name in RESERVED:
        return f"__{name}__"
    if name.isidentifier() and "__" not in name:
        return name
    return (
        name.replace("__", "__underscores__").replace(".", "__dot__").replace("-", "__dash__").replace("/", "__slash__")
    )
