"""What a one-machine cluster has beside the manifests of an installation: its gateway, its classes, its settings."""
import re
from importlib import resources

import msgspec

from serveplane.api.crds import custom_resource_definitions
from serveplane.cli import manifests
from serveplane.embedded.gateway.status import CONTROLLER
from serveplane.embedded.gateway.watching import INGRESS_CLASS
from serveplane.embedded.workloads.claims import PROVISIONER, STORAGE_CLASS
from serveplane.objects import Json, yamlio

DOMAIN = "localhost"
HOST = "127.0.0.1"
OUR_TEMPLATE = re.compile(re.escape(f"http://{HOST}:") + r"\d+" + re.escape("/serving/{{ .Namespace }}/{{ .Name }}"))
SETTINGS = "inferenceservice-config"
GATEWAY = "kserve-ingress-gateway"
NAMESPACE = "kserve"


def installation() -> list[Json]:
    """What `serveplane manifests` prints. The definitions are made here as the files were: reading two megabytes of
    YAML would cost seconds."""
    root = manifests.config_folder()
    files = list(manifests.files(root / "default"))
    listed = {file.stem.partition("_")[2] for file in files if file.parent == root / "crd"}
    definitions = [one for one in custom_resource_definitions(full=True) if one["spec"]["names"]["plural"] in listed]
    found = [obj for file in files if file.parent != root / "crd" for obj in yamlio.load_all(file.read_text())]
    first = [obj for obj in found if obj["kind"] == "Namespace"]
    return [*first, *definitions, *(obj for obj in found if obj["kind"] != "Namespace")]


def gateway_definitions() -> list[Json]:
    text = resources.files("serveplane.embedded.gateway").joinpath("definitions.yaml").read_text()
    return list(yamlio.load_all(text))


def classes() -> list[Json]:
    """Cluster-scoped names that manifests refer to."""
    default = "is-default-class"
    return [
        {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": PROVISIONER,
         "metadata": {"name": STORAGE_CLASS, "annotations": {f"storageclass.kubernetes.io/{default}": "true"}},
         "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
        {"apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "spec": {"controller": CONTROLLER},
         "metadata": {"name": INGRESS_CLASS, "annotations": {f"ingressclass.kubernetes.io/{default}": "true"}}},
        {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass",
         "metadata": {"name": INGRESS_CLASS}, "spec": {"controllerName": CONTROLLER}}]


def gateway(port: int) -> Json:
    """The Gateway that the settings name, on the one port that there is."""
    listener = {"name": "http", "protocol": "HTTP", "port": port, "allowedRoutes": {"namespaces": {"from": "All"}}}
    return {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
            "metadata": {"name": GATEWAY, "namespace": NAMESPACE},
            "spec": {"gatewayClassName": INGRESS_CLASS, "listeners": [listener]}}


def settings(gateway_port: int) -> Json:
    """The shipped settings with what differs on one machine: the domain, where the gateway is, and requests that a laptop can give."""
    shipped: Json = yamlio.load((manifests.config_folder() / "configmap" / "inferenceservice.yaml").read_text())
    ingress = msgspec.json.decode(shipped["data"]["ingress"])
    ingress |= {"ingressDomain": DOMAIN, "ingressClassName": INGRESS_CLASS, "enableGatewayApi": True,
                "kserveIngressGateway": f"{NAMESPACE}/{GATEWAY}", "urlScheme": "http",
                "disableIstioVirtualHost": True, "urlTemplate": url_template(gateway_port)}
    resource = {"cpuLimit": "1", "memoryLimit": "2Gi", "cpuRequest": "100m", "memoryRequest": "256Mi"}
    deploy = msgspec.json.decode(shipped["data"].get("deploy") or "{}") | {"defaultDeploymentMode": "Standard"}
    data = {**shipped["data"], "ingress": _text(ingress), "inferenceService": _text({"resource": resource}),
            "deploy": _text(deploy)}
    return {**shipped, "metadata": {**shipped["metadata"], "namespace": NAMESPACE}, "data": data}


def url_template(gateway_port: int) -> str:
    """How services are told to be reached: by address and path, because `*.localhost` does not resolve everywhere."""
    return f"http://{HOST}:{gateway_port}/serving/{{{{ .Namespace }}}}/{{{{ .Name }}}}"


def moved_settings(live: Json, gateway_port: int) -> Json | None:
    """The change to settings of an earlier run whose gateway had another port; none if users have their own template."""
    try:
        ingress = msgspec.json.decode(live["data"]["ingress"])
        known = ingress.get("urlTemplate", "")
    except (KeyError, AttributeError, msgspec.DecodeError):   # a user's own edit, which the manager will complain of
        return None
    if known == url_template(gateway_port) or not OUR_TEMPLATE.fullmatch(known):
        return None
    return {"data": {"ingress": _text(ingress | {"urlTemplate": url_template(gateway_port)})}}


def _text(value: Json) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
