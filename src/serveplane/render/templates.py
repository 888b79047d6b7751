"""The part of Go's template language that users of KServe rely on: fields, `index` and literals.

Three places use it: placeholders in runtimes (`{{.Name}}`, `{{.Labels.x}}`), the domain template and the path template. Values
are put in as they are; nothing is HTML-escaped. An action outside this part is an error with its own text in it,
because a template that renders to something surprising is worse than one that does not render.
"""
import re
from collections.abc import Callable, Mapping
from typing import Any

from serveplane.objects import Json

_ACTION = re.compile(r"(\s*)\{\{(- )?(.*?)( -)?\}\}(\s*)", re.DOTALL)
_FIELD = re.compile(r"\$?((?:\.[A-Za-z_]\w*)+)$")
_INDEX = re.compile(r'index\s+\$?((?:\.[A-Za-z_]\w*)+)\s+(?:"((?:[^"\\]|\\.)*)"|`([^`]*)`)$')
_LITERAL = re.compile(r'(?:"((?:[^"\\]|\\.)*)"|`([^`]*)`)$')
_COMMENT = re.compile(r"/\*.*\*/$", re.DOTALL)

Values = Mapping[str, Any]


class TemplateError(ValueError):
    """A template that cannot be rendered; the text says which action and why."""


def render(template: str, values: Values) -> str:
    """The template with its actions replaced.

    >>> render("{{ .Name }}-{{ .Namespace }}.{{ .Labels.zone }}", {"Name": "iris", "Namespace": "ml", "Labels": {}})
    'iris-ml.'
    """
    if "{{" not in template:
        return template
    if "}}" not in template[template.rindex("{{"):]:
        raise TemplateError(f"unclosed action in {template!r}")
    return _ACTION.sub(lambda match: _replaced(match, values), template)


def render_tree(node: Any, values: Values) -> Any:
    """Every string inside a JSON value rendered; keys are left alone."""
    if isinstance(node, str):
        return render(node, values)
    if isinstance(node, list):
        return [render_tree(item, values) for item in node]
    if isinstance(node, dict):
        return {key: render_tree(item, values) for key, item in node.items()}
    return node


def metadata_values(metadata: Json) -> Json:
    """What placeholders can name: the metadata of the InferenceService, with Go's field names."""
    return {
        "Name": metadata.get("name", ""), "Namespace": metadata.get("namespace", ""),
        "GenerateName": metadata.get("generateName", ""), "UID": metadata.get("uid", ""),
        "Labels": metadata.get("labels") or {}, "Annotations": metadata.get("annotations") or {},
    }


def _replaced(match: re.Match[str], values: Values) -> str:
    before, trim_left, action, trim_right, after = match.groups()
    return ("" if trim_left else before) + _evaluated(action.strip(), values) + ("" if trim_right else after)


def _evaluated(action: str, values: Values) -> str:
    rules: list[tuple[re.Pattern[str], Callable[[re.Match[str]], Any]]] = [
        (_FIELD, lambda found: _field(found[1], values, action)),
        (_INDEX, lambda found: _field(found[1], values, action).get(_text(found[2], found[3]), "")),
        (_LITERAL, lambda found: _text(found[1], found[2])),
        (_COMMENT, lambda found: ""),
    ]
    for pattern, value in rules:
        if found := pattern.match(action):
            return _shown(value(found), action)
    raise TemplateError(f"cannot evaluate {{{{{action}}}}}: only fields such as .Name and .Labels.key, and index, are known")


def _field(path: str, values: Values, action: str) -> Any:
    """A field must exist, a key of a map need not: Go makes the same difference."""
    first, *rest = path.strip(".").split(".")
    if first not in values:
        raise TemplateError(f"cannot evaluate {{{{{action}}}}}: there is no field {first}")
    value: Any = values[first]
    for key in rest:
        if not isinstance(value, Mapping):
            raise TemplateError(f"cannot evaluate {{{{{action}}}}}: {key} is asked of something that has no keys")
        value = value.get(key, "")
    return value


def _text(quoted: str | None, raw: str | None) -> str:
    return raw if raw is not None else re.sub(r"\\(.)", r"\1", quoted or "")


def _shown(value: Any, action: str) -> str:
    if isinstance(value, Mapping):
        raise TemplateError(f"cannot evaluate {{{{{action}}}}}: it is a map, name one of its keys")
    return str(value)
