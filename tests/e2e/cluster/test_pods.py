"""Pods of all sorts on a running cluster: images, ports, volumes, logs, names, the verbs."""
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.e2e.cluster.one_machine import Json, OneMachine, eventually, is_ready

ROOT = Path(__file__).parents[3]
PODS = "/api/v1/namespaces/default/pods"


def pod(name: str, *command: str, image: str = "busybox", **spec: object) -> Json:
    container: Json = {"name": "c", "image": image, **({"command": list(command)} if command else {}),
                       **spec.pop("container", {})}  # type: ignore[dict-item]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
            "spec": {"containers": [container], "terminationGracePeriodSeconds": 1, **spec}}


def phase(cluster: OneMachine, name: str) -> str:
    return str(cluster.get(f"{PODS}/{name}")["status"]["phase"])


def state(cluster: OneMachine, name: str) -> Json:
    value: Json = cluster.get(f"{PODS}/{name}")["status"]["containerStatuses"][0]["state"]
    return value


def test_an_unknown_image_says_how_to_add_it(cluster: OneMachine) -> None:
    cluster.apply(pod("foreign", image="me/server:1", container={"ports": [{"containerPort": 8080}]}))
    cluster.apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "foreign"},
                   "spec": {"selector": {"app": "foreign"}, "ports": [{"port": 80, "targetPort": 8080}]}})
    waiting = eventually("it is refused", lambda: state(cluster, "foreign").get("waiting", {}).get("message"))
    table = cluster.data / "images.toml"
    assert f'has no local command: add one line to {table}' in waiting
    table.write_text(f'"me/server" = "{sys.executable} -m http.server --bind 127.0.0.1 {{port}}"\n')
    eventually("it runs once the line is there", lambda: "running" in state(cluster, "foreign"))
    slices = cluster.get("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
                         "?labelSelector=kubernetes.io/service-name=foreign")["items"]
    assert slices[0]["ports"][0]["port"] != 8080, "a foreign program gets a free port, and the slice says which"
    url = f"{cluster.state['gateway']}/serving/default/foreign/"
    eventually("the gateway reaches it", lambda: requests.get(url, timeout=5).status_code == 200)
    table.unlink()


def test_the_agent_starts_where_the_label_is(cluster: OneMachine) -> None:
    """The DaemonSet's text, word for word, and the commands around it."""
    file = ROOT / "config/localmodelnodes/manager.yaml"
    cluster.cli("apply", "-f", str(file))
    daemon = "/apis/apps/v1/namespaces/kserve/daemonsets/kserve-localmodelnode-agent"
    label = "control-plane=kserve-localmodelnode-agent"
    eventually("it is seen", lambda: cluster.get(daemon)["status"].get("observedGeneration") == 1)
    assert cluster.pods(label, "kserve") == []
    node = cluster.get("/api/v1/nodes")["items"][0]["metadata"]["name"]
    cluster.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {"kserve/localmodel": "worker"}}})
    found = eventually("a pod is made", lambda: cluster.pods(label, "kserve"))[0]
    container = found["spec"]["containers"][0]
    assert (container["name"], container["command"]) == ("manager", ["/manager"])
    eventually("its process was started from the image's command", lambda: _has_run(cluster, label))
    cluster.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {"kserve/localmodel": None}}})
    eventually("the pod goes with the label", lambda: not cluster.pods(label, "kserve"))
    cluster.delete(daemon)


def _has_run(cluster: OneMachine, label: str) -> bool:
    status = cluster.pods(label, "kserve")[0]["status"]["containerStatuses"][0]
    return "running" in status["state"] or "terminated" in {**status["state"], **status["lastState"]}


def test_volumes_follow_their_config_map(cluster: OneMachine) -> None:
    cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"word": "one"}})
    script = 'last=; while :; do now=$(cat /etc/settings/word); [ "$now" = "$last" ] || echo $now; last=$now; sleep 0.1; done'
    cluster.apply(pod("reader", "sh", "-c", script, volumes=[{"name": "v", "configMap": {"name": "settings"}}],
                      container={"volumeMounts": [{"name": "v", "mountPath": "/etc/settings"}]}))
    eventually("the first word", lambda: cluster.cli("logs", "reader", check=False).stdout == "one\n")
    cluster.patch("/api/v1/namespaces/default/configmaps/settings", {"data": {"word": "two"}})
    eventually("the second word", lambda: cluster.cli("logs", "reader").stdout == "one\ntwo\n")
    follower = subprocess.Popen([sys.executable, "-m", "serveplane.cli.main", "logs", "--data", str(cluster.data), "-f",
                                 "reader"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert follower.stdout is not None
    assert [follower.stdout.readline() for _ in range(2)] == ["one\n", "two\n"]
    cluster.patch("/api/v1/namespaces/default/configmaps/settings", {"data": {"word": "three"}})
    assert follower.stdout.readline() == "three\n"
    cluster.cli("delete", "pod", "reader")
    assert follower.wait(60) == 0, "following ends with the container"


def test_a_pod_asks_the_api_as_its_service_account(cluster: OneMachine) -> None:
    script = ("from serveplane import pod; from pathlib import Path; folder = Path(pod.service_account_folder());"
              "print(sorted(file.name for file in folder.iterdir() if not file.name.startswith('..')),"
              " (folder / 'namespace').read_text())")
    cluster.apply(pod("account", "python", "-c", script, image="python", restartPolicy="Never"))
    eventually("it ends", lambda: phase(cluster, "account") == "Succeeded")
    assert cluster.cli("logs", "account").stdout == "['ca.crt', 'namespace', 'token'] default\n"
    cluster.delete(f"{PODS}/account")


NAMES = ("server", "server.default", "server.default.svc", "server.default.svc.cluster.local")


@pytest.fixture
def named_server(cluster: OneMachine) -> Iterator[OneMachine]:
    server = ("from serveplane import pod; import http.server as h;"
              "h.HTTPServer(pod.listen_address(8000), h.SimpleHTTPRequestHandler).serve_forever()")
    cluster.apply(pod("server", "python", "-c", server, image="python", container={
        "ports": [{"containerPort": 8000}], "readinessProbe": {"httpGet": {"port": 8000}, "periodSeconds": 1}}))
    cluster.apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "server"},
                   "spec": {"selector": {"app": "server"}, "ports": [{"port": 80, "targetPort": 8000}]}})
    eventually("the server is ready", lambda: is_ready(cluster.get(f"{PODS}/server")))
    yield cluster
    cluster.cli("delete", "pod", "server")
    cluster.cli("delete", "service", "server")


OURS = """
import asyncio, sys
from serveplane.http import Client
async def main():
    async with Client() as client:
        for host in sys.argv[1:]:
            answer = await client.request("GET", f"http://{host}/")
            print(answer.status)
            await answer.read()
asyncio.run(main())
"""
FOREIGN = """
import sys, urllib.request
for host in sys.argv[1:]:
    print(urllib.request.urlopen(f"http://{host}/").status)
"""


@pytest.mark.parametrize("program_text", [OURS, FOREIGN], ids=["ours", "foreign"])
def test_pods_reach_services_by_name(named_server: OneMachine, program_text: str) -> None:
    """Our own programs by their HTTP client, others through the proxy that their environment names."""
    named_server.apply(pod("caller", "python", "-c", program_text, *NAMES, image="python", restartPolicy="Never"))
    eventually("it ends", lambda: phase(named_server, "caller") in ("Succeeded", "Failed"))
    assert named_server.cli("logs", "caller").stdout == "200\n" * len(NAMES)
    named_server.cli("delete", "pod", "caller")


def test_a_short_name_is_of_the_pods_own_namespace(named_server: OneMachine) -> None:
    named_server.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "elsewhere"}})
    script = 'import urllib.request as u; print(u.urlopen("http://server.default/").status); u.urlopen("http://server/")'
    caller = pod("caller", "python", "-c", script, image="python", restartPolicy="Never")
    caller["metadata"]["namespace"] = "elsewhere"
    eventually("the namespace has its account", lambda: named_server.get("/api/v1/namespaces/elsewhere/serviceaccounts/default"))
    named_server.apply(caller)
    path = "/api/v1/namespaces/elsewhere/pods/caller"
    eventually("it fails", lambda: named_server.get(path)["status"]["phase"] == "Failed")
    told = named_server.cli("logs", "caller", "-n", "elsewhere").stdout
    assert told.startswith("200\n")
    assert "404" in told
    named_server.cli("delete", "namespace", "elsewhere")


def test_init_containers_sidecars_and_their_order(cluster: OneMachine) -> None:
    shared = {"volumeMounts": [{"name": "v", "mountPath": "/shared"}]}

    def step(name: str, script: str, **more: object) -> Json:
        return {"name": name, "image": "busybox", "command": ["sh", "-c", script], **shared, **more}
    spec = {"initContainers": [step("first", "echo first >> /shared/order"),
                               step("side", "echo side >> /shared/order; sleep 1000", restartPolicy="Always"),
                               step("last", "sleep 0.3; echo last >> /shared/order")],
            "volumes": [{"name": "v", "emptyDir": {}}], "restartPolicy": "Never"}
    made = pod("ordered", **spec)
    made["spec"]["containers"] = [step("main", "cat /shared/order")]
    cluster.apply(made)
    eventually("it ends", lambda: phase(cluster, "ordered") == "Succeeded")
    assert cluster.cli("logs", "ordered", "-c", "main").stdout == "first\nside\nlast\n"
    cluster.delete(f"{PODS}/ordered")


def test_over_its_memory_limit(cluster: OneMachine) -> None:
    cluster.apply(pod("greedy", "python", "-c", "x = b'x' * 300_000_000; import time; time.sleep(60)", image="python",
                      restartPolicy="Never", container={"resources": {"limits": {"memory": "100Mi"}}}))
    ended = eventually("it is ended", lambda: state(cluster, "greedy").get("terminated"))
    assert (ended["reason"], ended["exitCode"]) == ("OOMKilled", 137)
    cluster.delete(f"{PODS}/greedy")


def test_a_job_with_a_time_to_live(cluster: OneMachine) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox", "command": ["true"]}]}}
    cluster.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "quick"},
                   "spec": {"template": template, "completions": 2, "parallelism": 2, "ttlSecondsAfterFinished": 1}})
    path = "/apis/batch/v1/namespaces/default/jobs"
    eventually("it completes and goes", lambda: "quick" not in json.dumps(cluster.get(path)["items"]), 60)
    eventually("so do its pods", lambda: not cluster.pods("job-name=quick"))
