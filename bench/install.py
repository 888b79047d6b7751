"""How long an installation takes on an empty cluster: from `kubectl apply` until its webhooks answer.

usage: python bench/install.py [--rounds N]

Each round is a fresh control plane of the testbed. The manager is started as soon as the manifests are applied, as a kubelet with the image
at hand would; pulling an image is not in the figures.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from tests.kit.installation import Installation  # noqa: E402
from tests.kit.testbed import RequestFailed, Testbed, start_testbed  # noqa: E402

ISVCS = "/apis/serving.kserve.io/v1beta1/namespaces/default/inferenceservices?dryRun=All"
SERVICE = {
    "apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "metadata": {"name": "asked"},
    "spec": {"predictor": {"model": {"modelFormat": {"name": "sklearn"}, "storageUri": "gs://acme/iris"}}}}  # fmt: skip


def is_admitted(bed: Testbed) -> bool:
    try:
        bed.call("POST", ISVCS, SERVICE)
    except RequestFailed:
        return False
    return True


def measure() -> None:
    bed = start_testbed()
    installation = Installation(bed)
    try:
        began = time.monotonic()
        subprocess.run([bed.program("kubectl"), "--kubeconfig", bed.kubeconfig, "apply", "--server-side", "-k", "config/default"],
                       cwd=ROOT, check=True, capture_output=True)  # fmt: skip
        applied = time.monotonic()
        manager = installation.run("kserve", "--leader-elect")
        manager.await_ready()
        ready = time.monotonic()
        while not is_admitted(bed):
            time.sleep(0.05)
        answered = time.monotonic()
        took = [f"{what} {moment - began:5.1f} s" for what, moment in
                (("applied", applied), ("manager ready", ready), ("webhooks answer", answered))]  # fmt: skip
        print("   ".join(took), flush=True)
    finally:
        installation.stop()
        bed.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, metavar="N")
    for _ in range(parser.parse_args().rounds):
        measure()


if __name__ == "__main__":
    main()
