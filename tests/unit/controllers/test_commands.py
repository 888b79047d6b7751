"""`plan`, `explain` and `manager` as users call them."""
import subprocess
import sys
from pathlib import Path

import pytest

from serveplane.cli.main import main

IRIS = """
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: iris}
spec: {predictor: {model: {modelFormat: {name: %s}, storageUri: gs://a/b}}}
"""
RUNTIME = """
apiVersion: serving.kserve.io/v1alpha1
kind: ServingRuntime
metadata: {name: house}
spec:
  supportedModelFormats: [{name: housemodel, autoSelect: true}]
  containers: [{name: kserve-container, image: "acme/house:1"}]
"""
SETTINGS = """
apiVersion: v1
kind: ConfigMap
metadata: {name: inferenceservice-config, namespace: kserve}
data:
  deploy: '{"defaultDeploymentMode": "Standard"}'
  ingress: '{"ingressGateway": "a/b", "ingressDomain": "acme.test"}'
"""


def written(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def test_plan_prints_the_children(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "-n", "ml", "-f", written(tmp_path, "iris.yaml", IRIS % "sklearn")]) == 0
    printed = capsys.readouterr().out
    assert printed.count("kind: HTTPRoute\n") == 2
    assert "namespace: ml" in printed
    assert "ownerReferences" in printed


def test_plan_with_settings_and_objects_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    service = written(tmp_path, "iris.yaml", IRIS % "housemodel")
    given, settings = written(tmp_path, "runtime.yaml", RUNTIME), written(tmp_path, "settings.yaml", SETTINGS)
    assert main(["plan", "-f", service, "--given", given, "--settings", settings]) == 0
    printed = capsys.readouterr().out
    assert "acme/house:1" in printed
    assert "host: iris-default.acme.test" in printed


@pytest.mark.parametrize(("text", "words"), [
    (IRIS % "unheard-of", "unheard-of"), ("kind: InferenceService", "metadata"), ("a: [", "x.yaml: line"),
    (IRIS.replace("gs://a/b", "ftp://a/b") % "sklearn", "ftp"),
])
def test_plan_refuses_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, words: str) -> None:
    assert main(["plan", "-f", written(tmp_path, "x.yaml", text)]) == 1
    said = capsys.readouterr()
    assert (said.out, words in said.err) == ("", True), said.err


def test_plan_of_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "-f", "/nowhere/x.yaml"]) == 1
    assert "No such file" in capsys.readouterr().err


def test_explain_shows_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "-f", written(tmp_path, "iris.yaml", IRIS % "pytorch")]) == 0
    printed = capsys.readouterr().out
    assert "Runtime: kserve-torchserve" in printed
    assert "kserve-tritonserver" in printed
    assert main(["explain"]) == 1


def test_help_imports_nothing_heavy() -> None:
    program = ("import sys; from serveplane.cli.main import main\n"
               "try: main(['manager', '--help'])\nexcept SystemExit: pass\n"
               "loaded = {name.split('.')[0] for name in sys.modules}\n"
               "heavy = loaded & {'numpy', 'grpc', 'sklearn', 'obstore', 'cryptography', 'yaml', 'uvloop'}\n"
               "assert not heavy, heavy")
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, timeout=60)


@pytest.mark.parametrize("words", [["--leader-elect=maybe"], ["--leader-elect-lease-duration=soon"], ["--webhook-port=x"]])
def test_flags_that_make_no_sense(words: list[str]) -> None:
    with pytest.raises(SystemExit):
        main(["manager", "kserve", *words])


def test_programs_that_do_not_exist_yet_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    import importlib.util
    if importlib.util.find_spec("serveplane.managers.llmisvc") is not None:
        pytest.skip("llmisvc is part of this release")
    assert main(["manager", "llmisvc"]) == 2
    assert "not part of this release" in capsys.readouterr().err
