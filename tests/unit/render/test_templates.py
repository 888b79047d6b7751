import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as some

from serveplane.render.templates import TemplateError, metadata_values, render, render_tree

VALUES = metadata_values(
    {"name": "iris", "namespace": "ml", "labels": {"stage": "prod"}, "annotations": {"a/b": "x & <y>"}}
)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{.Name}}", "iris"),
        ("{{ .Name }}-{{ .Namespace }}", "iris-ml"),
        ("{{.Labels.stage}}", "prod"),
        ("{{.Labels.absent}}", ""),
        ('{{ index .Annotations "a/b" }}', "x & <y>"),
        ("a {{- .Name -}} b", "airisb"),
        ("{{ `raw` }}", "raw"),
        ("{{/* nothing */}}", ""),
        ("plain $HOME ${X} }}", "plain $HOME ${X} }}"),
        ("--model_name={{.Name}}", "--model_name=iris"),
    ],
)
def test_what_users_of_kserve_write(template: str, text: str) -> None:
    assert render(template, VALUES) == text


@pytest.mark.parametrize(
    "template",
    ["{{ messages }}", "{{.Nmae}}", "{{ .Labels }}", "{{.Name.first}}", "{{ if .Name }}x{{ end }}", "{{.Name"],
)
def test_what_cannot_be_rendered_says_so(template: str) -> None:
    with pytest.raises(TemplateError):
        render(template, VALUES)


def test_trees_are_rendered_leaf_by_leaf() -> None:
    assert render_tree({"args": ["{{.Name}}", 1, None], "{{.Name}}": True}, VALUES) == {
        "args": ["iris", 1, None],
        "{{.Name}}": True,
    }


@given(some.text())
def test_any_text_renders_or_is_refused(text: str) -> None:
    with contextlib.suppress(TemplateError):
        render(text, VALUES)
