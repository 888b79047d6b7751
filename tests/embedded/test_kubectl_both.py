"""What people type, on both servers: unmodified kubectl must print the same, but for what no two servers have in common."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.embedded.conftest import Both, install
from tests.embedded.servers import Api

KUBECTL = shutil.which("kubectl")
pytestmark = [pytest.mark.testbed, pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")]
Json = dict[str, Any]
Run = Callable[..., None]
NORMAL = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "<uid>"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "<time>"),
    (re.compile(r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}"), "<time>"),
    (re.compile(r"https://127\.0\.0\.1:\d+"), "<server>"),
    (re.compile(r"\b10\.\d+\.\d+\.\d+\b"), "<address>"),
    (re.compile(r"(\d+):3\d{4}/"), r"\1:<port>/"),
    (re.compile(r"(NodePort:.* )3\d{4}/"), r"\1<port>/"),
    (re.compile(r"nodePort: 3\d{4}"), "nodePort: <port>"),
    (re.compile(r"kube-api-access-[a-z0-9]{5}"), "kube-api-access-<letters>"),
    (re.compile(r"generated-[a-z0-9]{5}"), "generated-<letters>"),
    (re.compile(r'resourceVersion: "\d+"'), "resourceVersion: <version>"),
    (re.compile(r"\b\d+(s|m\d+s|m)\b"), "<age>"),
    (re.compile(r"(/tmp/|LIVE-|MERGED-)[\w/.-]+"), "<file>"),
    (re.compile(r"<age> ago"), "<age>"),
    (re.compile(r"[WIE]\d{4} [\d:.]+ +\d+ "), ""),
    (re.compile(r"Resource Version: +\d+"), "Resource Version: <version>"),
    (re.compile(r'patch: Invalid value: "(?:\{.*\}|map\[.*\])": ', re.DOTALL), 'patch: Invalid value: "<patched>": '),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ \+\d{4}"), "<time>"),
    (re.compile(r"(?m)^ *enum: .*\n"), ""),  # kubectl shows possible values only where the schema of a server lists them
    (re.compile(r"\n *Possible enum values:\n(?: +- `.*\n(?:(?! *\n)(?! +-).*\n)*)+"), "\n"),
    (re.compile(r" +"), " "),
    (re.compile(r"\n\s*\n+"), "\n"),
)
WEB: Json = {
    "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "labels": {"app": "web"}},
    "spec": {
        "replicas": 2, "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "containers": [
                    {
                        "name": "c", "image": "nginx:1", "ports": [{"containerPort": 80}], "env": [{"name": "A", "value": "b"}],
                        "resources": {"requests": {"cpu": "100m"}, "limits": {"memory": "1Gi"}},
                        "readinessProbe": {"httpGet": {"port": 80, "path": "/x"}},
                    }
                ]
            },
        },
    },
}  # fmt: skip
POD: Json = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": WEB["spec"]["template"]["spec"]}
KINDS = (
    "deployments", "services", "jobs", "cronjobs", "secrets", "configmaps", "resourcequotas", "roles", "rolebindings", "ingresses", "pdb",
    "sa", "pods", "hpa",
)  # fmt: skip
WIDGET: Json = {"apiVersion": "suite.example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 3}}


class Kubectl:
    """One server and one namespace; what was printed is collected."""

    def __init__(self, api: Api, space: str, home: Path) -> None:
        self.api, self.space, self.home = api, space, home
        self.printed: list[tuple[str, int, str]] = []

    def __call__(self, line: str, stdin: Any = None, editor: str = "true", keep: bool = True) -> str:
        words = [word.replace("SPACE", self.space) for word in line.split()]
        text = None if stdin is None else json.dumps(stdin).replace("SPACE", self.space)
        who = ["--server", self.api.url, "--token", self.api.token, "--certificate-authority", self.api.ca]
        command = [str(KUBECTL), *who, "--cache-dir", str(self.home / "cache"), "-n", self.space, *words]
        env = {**os.environ, "KUBECONFIG": os.devnull, "HOME": str(self.home), "KUBE_EDITOR": editor}
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120, env=env)
        if keep:
            self.printed.append((line, done.returncode, plain(done.stdout + done.stderr)))
        return done.stdout


def plain(text: str) -> str:
    for pattern, name in NORMAL:
        text = pattern.sub(name, text)
    return text


def creating(kubectl: Kubectl) -> None:
    for line in (
        "create deployment web --image=nginx:1 --replicas=2 --port=80",
        "create deployment web --image=nginx:1",
        "expose deployment web --name=web --port=80 --target-port=8080",
        "create service clusterip other --tcp=80:8080",
        "create service nodeport ports --tcp=80:8080",
        "create service externalname away --external-name=a.example.com",
        "create job j --image=x -- sleep 1",
        "create cronjob c --image=x --schedule=@hourly -- sleep 1",
        "create job k --from=cronjob/c",
        "create secret generic s --from-literal=a=b",
        "create secret docker-registry d --docker-server=h --docker-username=u --docker-password=p",
        "create configmap m --from-literal=a=b",
        "create quota q --hard=count/widgets.example.com=5",
        "create role r --verb=get,list --resource=pods,deployments.apps",
        "create rolebinding b --role=r --user=u --serviceaccount=SPACE:s",
        "create clusterrole SPACE-cr --verb=get --resource=pods --resource-name=x",
        "create clusterrolebinding SPACE-cb --clusterrole=SPACE-cr --group=g",
        "create ingress i --rule=a.example.com/x*=web:80,tls=t --class=n",
        "create poddisruptionbudget pdb --selector=app=web --min-available=1",
        "create priorityclass SPACE-pc --value=5 --description=five",
        "create serviceaccount s",
        "create namespace SPACE",
        "run p --image=nginx:1 --labels=a=b --env=A=b --port=80",
        "autoscale deployment web --min=1 --max=3 --cpu-percent=50",
        "create configmap dry --from-literal=a=b --dry-run=server -o yaml",
        "create deployment bad --image=",
        "create quota q2 --hard=nonsense=1",
        "create secret generic UPPER",
    ):
        kubectl(line)
    for kind in KINDS:
        kubectl(f"get {kind} -o wide")
        kubectl(f"get {kind} -o yaml")
    for kind in ("clusterrole/SPACE-cr", "clusterrolebinding/SPACE-cb", "priorityclass/SPACE-pc", "namespace/SPACE"):
        kubectl(f"get {kind} -o wide")
        kubectl(f"describe {kind}")
    for kind in ("deployment/web", "service/web", "service/ports", "job/j", "cronjob/c", "secret/s", "configmap/m", "quota/q", "role/r",
                 "rolebinding/b", "ingress/i", "pdb/pdb", "sa/s", "pod/p", "hpa/web"):  # fmt: skip
        kubectl(f"describe {kind}")


def changing(kubectl: Kubectl) -> None:
    kubectl("apply -f -", WEB)
    kubectl("apply -f -", WEB)
    kubectl("diff -f -", WEB)
    more = {**WEB, "spec": {**WEB["spec"], "replicas": 4}}
    kubectl("diff -f -", more)
    kubectl("apply -f -", more)
    kubectl("apply view-last-applied deployment/web")
    for line in (
        "label deployment web tier=front",
        "label deployment web tier=back",
        "label deployment web tier=back --overwrite",
        "label deployment web tier-",
        "annotate deployment web note=yes",
        "set image deployment/web c=nginx:2",
        "set env deployment/web B=c",
        "set resources deployment web --limits=cpu=200m,memory=512Mi",
        "set serviceaccount deployment web s",
        "set selector service web a=b",
        "scale deployment web --replicas=3",
        "scale deployment web --replicas=5 --current-replicas=9",
        "rollout pause deployment/web",
        "rollout pause deployment/web",
        "rollout resume deployment/web",
        "rollout history deployment/web",
        "rollout status deployment/web --watch=false",
        'patch deployment web -p {"spec":{"template":{"spec":{"containers":[{"name":"d","image":"x"}]}}}}',
        'patch deployment web --type=merge -p {"spec":{"minReadySeconds":5}}',
        'patch deployment web --type=json -p [{"op":"replace","path":"/spec/replicas","value":2}]',
        'patch deployment web --type=json -p [{"op":"replace","path":"/nowhere/at/all","value":2}]',
        'patch deployment web --type=merge -p {"spec":{"replicas":"x"}}',
        'patch deployment web --subresource=status --type=merge -p {"status":{"replicas":2}}',
        'patch deployment web --subresource=scale --type=merge -p {"spec":{"replicas":1}}',
    ):
        kubectl(line)
    kubectl("edit deployment web", editor="sed -i s/nginx:2/nginx:3/")
    kubectl("edit deployment web", editor="sed -i s/c4nnotbefound/x/")
    kubectl("replace -f -", {**WEB, "spec": {**WEB["spec"], "selector": {"matchLabels": {"app": "x"}}}})
    kubectl("replace --force --grace-period=0 -f -", WEB)
    kubectl("get deployment web -o yaml --show-managed-fields")
    kubectl("describe deployment web")


def applying(kubectl: Kubectl) -> None:
    kubectl("apply --server-side -f -", WEB)
    kubectl("apply --server-side --field-manager=other -f -", {**WEB, "spec": {**WEB["spec"], "replicas": 5}})
    kubectl("apply --server-side --field-manager=other --force-conflicts -f -", {**WEB, "spec": {**WEB["spec"], "replicas": 5}})
    kubectl("diff --server-side -f -", {**WEB, "spec": {**WEB["spec"], "replicas": 7}})
    kubectl("apply -f -", WEB)
    kubectl("get deployment web -o yaml --show-managed-fields")
    kubectl("apply --server-side --dry-run=server -o name -f -", POD)
    kubectl("apply -f -", {**WEB, "spec": {**WEB["spec"], "replicass": 3}})
    kubectl("apply --validate=warn -f -", {**WEB, "metadata": {"name": "warned"}, "spec": {**WEB["spec"], "replicass": 3}})
    kubectl("apply -f -", {"apiVersion": "example.com/v9", "kind": "Nothing", "metadata": {"name": "x"}})
    maps = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"set": "one"}}} for name in ("x", "y")]
    listed = {"apiVersion": "v1", "kind": "List"}
    prune = "apply --prune --prune-allowlist=core/v1/ConfigMap -l set=one -f -"
    kubectl(prune, {**listed, "items": maps})
    kubectl(prune, {**listed, "items": maps[:1]})
    kubectl("get configmaps")
    kubectl("create -f -", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "generated-"}})


def looking(kubectl: Kubectl) -> None:
    kubectl("apply -f -", POD)
    kubectl("apply -f -", WIDGET)
    kubectl("create configmap m --from-literal=a=b")
    for line in (
        "get pods,configmaps",
        "get pod p -o name",
        "get pod p -o jsonpath={.spec.containers[*].image}",
        "get pod p -o custom-columns=NAME:.metadata.name,IMAGE:.spec.containers[0].image",
        "get pod p -o go-template={{.metadata.name}}",
        "get pods --sort-by=.metadata.name --show-labels --no-headers",
        "get pods --field-selector=status.phase=Pending",
        "get pods --field-selector=nonsense=1",
        "get pods -l a=(",
        "get pod ghost",
        "get nothing",
        "get widgets",
        "get widget w -o yaml",
        "describe widget w",
        "scale widget w --replicas=5",
        "get wi w -o jsonpath={.spec.size}",
        "explain widget.spec --recursive",
        "explain pod --recursive",
        "explain deployment.spec.strategy",
        "explain cronjobs.spec.jobTemplate",
        "explain ingress.spec.rules.http --recursive",
        "explain hpa",
        "explain crd.spec.versions.schema",
        "explain nothing",
        "explain pod.spec.nothing",
        "auth can-i create pods",
        "auth can-i get pods --as=nobody",
        "auth can-i --list --as=nobody",
        "auth can-i get widgets.suite.example.com --subresource=status",
        "auth can-i get /healthz --as=nobody",
        "auth whoami --as=nobody --as-group=g --as-uid=7",
        "get --raw /healthz",
        "get --raw /livez",
        "get --raw /api/v1/namespaces/SPACE/configmaps/ghost",
        "wait --for=jsonpath={.data.a}=b configmap/m --timeout=5s",
        "wait --for=condition=Ready pod/p --timeout=1s",
        "wait --for=delete pod/ghost --timeout=1s",
        "wait --for=create configmap/m --timeout=5s",
        "get events",
        "events",
        "logs ghost",
        "delete pod ghost",
        "delete pod ghost --ignore-not-found",
    ):
        kubectl(line)


def deleting(kubectl: Kubectl) -> None:
    for name in ("a", "b", "c", "d", "e"):
        kubectl(f"create deployment {name} --image=x", keep=False)
        kubectl(f"create configmap {name}", keep=False)
    for line in (
        "delete deployment a --cascade=background",
        "delete deployment b --cascade=orphan --wait=false",
        "delete deployment c --cascade=foreground --wait=false",
        "delete deployment d --dry-run=server",
        "delete deployment d --now",
        "delete configmap a b",
        "delete configmaps -l none=such",
        "delete configmap c --wait=false -o name",
        "delete configmaps --all",
        "get configmaps",
        "delete namespace default",
    ):
        kubectl(line)


def nodes(kubectl: Kubectl) -> None:
    kubectl("apply -f -", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "SPACE-n"}})
    kubectl('patch node SPACE-n --type=json -p [{"op":"add","path":"/spec/taints","value":[]}]', keep=False)  # new nodes have one there
    for line in (
        "cordon SPACE-n",
        "cordon SPACE-n",
        "uncordon SPACE-n",
        "taint node SPACE-n k=v:NoSchedule",
        "taint node SPACE-n k=v:NoSchedule",
        "taint node SPACE-n k-",
        "label node SPACE-n node-role.kubernetes.io/worker=",
        "get node SPACE-n -o wide",
        "describe node SPACE-n",
        "drain SPACE-n",
        "delete node SPACE-n",
    ):
        kubectl(line)


@pytest.fixture
def both(real: Api, bare: Api) -> Both:
    """Without the loops: nobody counts, collects or protects beside the real server."""
    return Both(bare, real)


STORIES = (creating, changing, applying, looking, deleting, nodes)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_kubectl_prints_the_same(both: Both, space: str, tmp_path: Path, story: Callable[[Kubectl], None]) -> None:
    sides = []
    for number, api in enumerate((both.ours, both.real)):
        install(api)
        home = tmp_path / str(number)
        home.mkdir()
        sides.append(Kubectl(api, space, home))
        story(sides[-1])
    different = [
        f"--- {line}\n+++ here ({code})\n{ours}\n+++ there ({other})\n{real}"
        for (line, code, ours), (_, other, real) in zip(sides[0].printed, sides[1].printed, strict=True)
        if (code, ours) != (other, real)
    ]
    assert not different, f"{len(different)} of {len(sides[0].printed)} differ:\n" + "\n".join(different)


def test_every_resource_here_is_described_as_there(both: Both, space: str, tmp_path: Path) -> None:
    """`kubectl api-resources`: not all is served here, but what is has the names, verbs and scope of the real one."""
    listed: list[set[str]] = []
    for number, api in enumerate((both.ours, both.real)):
        install(api)
        home = tmp_path / str(number)
        home.mkdir()
        listed.append(set(Kubectl(api, space, home)("api-resources -o wide --no-headers").splitlines()))
    words = [{" ".join(sorted(line.replace(",", " ").split())) for line in lines} for lines in listed]
    assert words[0] - words[1] == set()
    assert len(words[0]) > 50
