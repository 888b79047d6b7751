"""YAML is read as kubectl reads it; the table was made with `kubectl patch --local`."""

import pytest

from serveplane.objects import yamlio

AS_KUBECTL = {
    "y": True, "yes": True, "On": True, "n": False, "1:30": "1:30", "0o14": 12, "014": 12, "08": 8, "1_000": 1000,
    "1_000.5": 1000.5, "0b11": 3, "1e3": 1000, "5.0": 5, "0x1F": 31, "+12": 12, "12e03": 12000, "1.": 1,
    "190:20:30": "190:20:30", "2001-12-14t21:59:43.10-05:00": "2001-12-14t21:59:43.10-05:00", "2020-01-01": "2020-01-01",
    "=": "=", "~": None, "-7": -7, "'on'": "on", "v1.2": "v1.2", "-": None, "1.2.3": "1.2.3",
}  # fmt: skip


@pytest.mark.parametrize("text", [text for text in AS_KUBECTL if text != "-"])
def test_scalars_are_read_as_kubectl_reads_them(text: str) -> None:
    value = yamlio.load(f"a: {text}")["a"]
    assert (value, type(value)) == (AS_KUBECTL[text], type(AS_KUBECTL[text]))


def test_keys_are_text() -> None:
    assert yamlio.load("{1: a, true: b, 2.5: c}") == {"1": "a", "true": "b", "2.5": "c"}


def test_every_document_and_every_member_of_a_list() -> None:
    text = "kind: A\n---\n---\nkind: List\napiVersion: v1\nitems: [{kind: B}, {kind: C}]\n"
    assert [obj["kind"] for obj in yamlio.load_all(text)] == ["A", "B", "C"]


@pytest.mark.parametrize(
    ("text", "said"),
    [("a: [", "line 2, column 1"), ("a: 1\na: 2", "line 2: key 'a' is there twice"), ("- 1", "expected an object")],
)
def test_bad_input_says_where(text: str, said: str) -> None:
    with pytest.raises(yamlio.YamlError, match=said):
        yamlio.load_all(text)


TEXTS = ["yes", "y", "014", "1e3", "1:30", "2020-01-01", "null", "", " padded ", "a\nb", "a \nb", "0o14", "=", "#x", "{{.Name}}", "ü"]


@pytest.mark.parametrize("text", TEXTS)
def test_text_survives_a_round_trip(text: str) -> None:
    assert yamlio.load(yamlio.dump({"a": text})) == {"a": text}


def test_block_text_for_lines() -> None:
    assert yamlio.dump({"a": "x\ny\n"}) == "a: |\n  x\n  y\n"
