"""Templates in a configuration: what could not be rendered for any service is refused before a service is built on it.

The text of a configuration is a Go template. It is read here as far as a mistake shows without values: actions that are not
closed, blocks without an end, functions and top-level fields that do not exist.
"""

import re
from collections.abc import Iterator
from typing import Any

from serveplane.api.problem import FieldError, FieldPath

ACTION = re.compile(r"\{\{-?\s*(.*?)\s*-?\}\}", re.DOTALL)
WORD = re.compile(r"`[^`]*`|\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|(?<![\w.)\]])(?:[.$]?[A-Za-z_][\w.$]*|[.$][\w.]*)")
BLOCKS = frozenset(("if", "range", "with", "define", "block"))
REBINDING = frozenset(("range", "with", "define", "block"))
CONTROL = BLOCKS | {"else", "end", "template", "break", "continue"}
_BUILT_IN = "and or not len index slice print printf println html js urlquery call eq ne lt le gt ge true false nil"
FUNCTIONS = frozenset((*_BUILT_IN.split(), "ChildName", "kvTransferConfig", "shutdownTimeout"))
_METADATA = (
    "TypeMeta ObjectMeta Kind APIVersion Name GenerateName Namespace SelfLink UID ResourceVersion Generation CreationTimestamp "
    "DeletionTimestamp DeletionGracePeriodSeconds Labels Annotations OwnerReferences Finalizers ManagedFields"
)
FIELDS = frozenset((*_METADATA.split(), "Spec", "Status", "GlobalConfig"))


def template_problems(value: Any, at: FieldPath) -> Iterator[FieldError]:
    """Mistakes in the templates of all strings below a value."""
    if isinstance(value, dict):
        for name, child in value.items():
            yield from template_problems(child, at / str(name))
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from template_problems(child, at / index)
    elif isinstance(value, str) and "{{" in value:
        yield from (FieldError(at, message) for message in text_problems(value))


def text_problems(text: str) -> Iterator[str]:
    """What is wrong with one template.

    >>> list(text_problems("{{ .Spec.Model.Name }} {{ ChildName .Name `-x` }}"))
    []
    >>> list(text_problems("{{ if .Spec.Prefill }}x{{ lower .Nmae }}"))
    ['lower is no function of a template', '.Nmae is no field of a service', 'if has no end']
    """
    opened: list[str] = []
    for action in ACTION.findall(text):
        if action.startswith("/*"):
            continue
        words = WORD.findall(action)
        yield from _word_problems(words, rebound=bool(REBINDING & set(opened)))
        first = words[0] if words else ""
        if first in BLOCKS:
            opened.append(first)
        elif first == "end" and not opened:
            yield "end closes nothing"
        elif first == "end":
            opened.pop()
    if "{{" in ACTION.sub("", text):
        yield "an action that begins with {{ is not closed by }}"
    elif opened:
        yield f"{opened[-1]} has no end"


def _word_problems(words: list[str], *, rebound: bool) -> Iterator[str]:
    """Names that are neither known nor made by the template; within `with` and `range` the dot may be anything."""
    for word in words:
        if word[0] in "`\"'$":
            continue
        if word[0] == ".":
            if len(word) > 1 and not rebound and word.split(".")[1] not in FIELDS:
                yield f"{word} is no field of a service"
        elif word.split(".")[0] not in FUNCTIONS | CONTROL:
            yield f"{word} is no function of a template"
