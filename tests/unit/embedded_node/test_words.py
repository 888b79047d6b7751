"""What a container's spec becomes: the command of its image, paths, variables."""
from fractions import Fraction
from pathlib import Path

import pytest

from serveplane.embedded.node.environment import MissingReference, References, expand, inherited, variables
from serveplane.embedded.node.images import BUILT_IN, ImageTableError, advice, fill, load_table
from serveplane.embedded.node.paths import rewriter
from serveplane.objects import Json

POD: Json = {"metadata": {"name": "iris-0", "namespace": "default", "uid": "u1", "labels": {"app": "iris", "b": 'say "x"'},
                          "annotations": {"note": "n"}},
             "spec": {"nodeName": "here", "serviceAccountName": "sa", "containers": [
                 {"name": "c", "resources": {"limits": {"memory": "1Gi"}, "requests": {"cpu": "250m"}}}]},
             "status": {"podIP": "127.9.9.9", "hostIP": "127.0.0.1", "podIPs": [{"ip": "127.9.9.9"}]}}
ROOM = {"cpu": Fraction(2), "memory": Fraction(2**33)}


@pytest.mark.parametrize(("image", "words"), [
    ("kserve/kserve-controller:v0.20", ["manager", "kserve", "--x"]),
    ("ko://github.com/kserve/kserve/cmd/manager", ["manager", "kserve", "--x"]),
    ("ghcr.io/serveplane/llmisvc-controller:0.1.0", ["manager", "llmisvc", "--x"]),
    ("kserve/kserve-localmodel-controller:latest", ["manager", "localmodel", "--x"]),
    ("kserve/kserve-localmodelnode-agent@sha256:00", ["manager", "localmodelnode", "--x"]),
    ("ko://github.com/kserve/kserve/cmd/localmodelnode", ["manager", "localmodelnode", "--x"])])
def test_every_image_of_the_four_programs_gives_manager_its_meaning(image: str, words: list[str]) -> None:
    found = load_table().find(image)
    assert found is not None
    assert fill(found.command(["/manager"], ["--x"]), {})[3:] == words
    assert fill(found.command([], ["--x"]), {})[3:] == words


@pytest.mark.parametrize("image", ["kserve/sklearnserver:v0.20", "docker.io/kserve/sklearnserver", "localhost:5000/sklearnserver:1",
                                   "kserve/storage-initializer:latest", "kserve/agent:v1", "kserve/router"])
def test_kserve_images_are_known_from_any_registry(image: str) -> None:
    assert load_table().find(image) is not None


def test_a_user_adds_an_image_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "images.toml"
    assert load_table(file).find("me/server:1") is None
    assert '"me/server" = ' in advice("me/server:1", file)
    file.write_text('"me/server" = "python server.py --port {port}"\n')
    found = load_table(file).find("me/server:1")
    assert found is not None
    assert found.foreign
    assert fill(found.command([], ["-v"]), {"port": "8123"}) == ["python", "server.py", "--port", "8123", "-v"]


@pytest.mark.parametrize("text", ['"a" = 5', '"a" = {}\nx', '"a" = { entry = [] }', '"a" = [1]'])
def test_a_bad_table_names_its_file(tmp_path: Path, text: str) -> None:
    file = tmp_path / "images.toml"
    file.write_text(text)
    with pytest.raises(ImageTableError, match=r"images\.toml"):
        load_table(file)


def test_the_built_in_table_ships() -> None:
    assert BUILT_IN.exists()


@pytest.mark.parametrize(("text", "becomes"), [
    ("--model_dir=/mnt/models", "--model_dir=/real/m"),
    ("file:///mnt/models/iris", "file:///real/m/iris"),
    ("/mnt/models/config/a:/mnt/models", "/real/c/a:/real/m"),
    ("'/mnt/models' \"/mnt/models/x\"", "'/real/m' \"/real/m/x\""),
    ("/mnt/models2", "/mnt/models2"),
    ("/data/mnt/models", "/data/mnt/models"),
    ("s3://mnt/models", "s3://mnt/models"),
    ("https://host/mnt/models", "https://host/mnt/models"),
    ("/mnt/models.bak", "/mnt/models.bak"),
    ("a/mnt/models", "a/mnt/models"),
    ("", "")])
def test_mount_paths_become_real_folders_only_as_paths(text: str, becomes: str) -> None:
    rewrite = rewriter({"/mnt/models": "/real/m", "/mnt/models/config": "/real/c"})
    assert rewrite(text) == becomes


def test_a_real_folder_is_not_rewritten_again() -> None:
    rewrite = rewriter({"/a": "/b", "/b": "/c"})
    assert rewrite("/a /b") == "/b /c"


@pytest.mark.parametrize(("text", "becomes"), [
    ("$(A)", "1"), ("$$(A)", "$(A)"), ("$(B)", "$(B)"), ("$A", "$A"), ("$$$(A)", "$1"), ("a$", "a$"), ("$()", "$()")])
def test_references_to_variables(text: str, becomes: str) -> None:
    assert expand(text, {"A": "1"}) == becomes


def _env(*entries: Json, **more: object) -> dict[str, str]:
    references = References({"cm": {"data": {"k": "v", "K2": "w"}}}, {"s": {"data": {"p": "cGFzcw=="}}})
    container = {"name": "c", "env": list(entries), **POD["spec"]["containers"][0], **more}
    return variables(container, POD, references, ROOM, {"GIVEN": "g"})


def test_variables_from_everywhere() -> None:
    values = _env(
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "LABEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
        {"name": "MEMORY", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
        {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "requests.cpu", "divisor": "1m"}}},
        {"name": "ALL_CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
        {"name": "KEY", "valueFrom": {"configMapKeyRef": {"name": "cm", "key": "k"}}},
        {"name": "PASS", "valueFrom": {"secretKeyRef": {"name": "s", "key": "p"}}},
        {"name": "MAYBE", "valueFrom": {"secretKeyRef": {"name": "absent", "key": "p", "optional": True}}},
        {"name": "BOTH", "value": "$(IP):$(GIVEN):$(LATER)"}, {"name": "LATER", "value": "x"},
        envFrom=[{"prefix": "P_", "configMapRef": {"name": "cm"}}, {"secretRef": {"name": "gone", "optional": True}}])
    assert values == {"GIVEN": "g", "P_k": "v", "P_K2": "w", "IP": "127.9.9.9", "LABEL": "iris", "MEMORY": "1024",
                      "CPU": "250", "ALL_CPU": "2", "KEY": "v", "PASS": "pass", "BOTH": "127.9.9.9:g:$(LATER)",
                      "LATER": "x"}


@pytest.mark.parametrize("source", [{"configMapKeyRef": {"name": "cm", "key": "absent"}},
                                    {"secretKeyRef": {"name": "absent", "key": "p"}},
                                    {"fieldRef": {"fieldPath": "spec.nothing"}}])
def test_a_missing_reference_is_told(source: Json) -> None:
    with pytest.raises(MissingReference):
        _env({"name": "X", "valueFrom": source})


def test_nothing_of_the_users_environment_leaks() -> None:
    mine = {"PATH": "/bin", "AWS_SECRET_ACCESS_KEY": "x", "GITHUB_TOKEN": "y", "HF_TOKEN": "z", "HOME": "/home/me",
            "KUBECONFIG": "k", "LANG": "C"}
    assert inherited(mine) == {"PATH": "/bin", "LANG": "C"}
