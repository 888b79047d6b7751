"""Which pods a pod wants beside itself, and which it does not."""
from serveplane.embedded.workloads.neighbours import REQUIRED, Neighbours, unwelcome
from serveplane.objects import Json

NODES = [{"metadata": {"name": name, "labels": {"host": name, "zone": zone}}, "spec": {}}
         for name, zone in (("n1", "a"), ("n2", "a"), ("n3", "b"))]
SPACES = [{"metadata": {"name": "d"}}, {"metadata": {"name": "e", "labels": {"team": "x"}}}]


def pod(name: str, node: str = "", app: str = "", namespace: str = "d", **affinity: object) -> Json:
    return {"metadata": {"name": name, "namespace": namespace, "labels": {"app": app}}, "status": {"phase": "Running"},
            "spec": {"nodeName": node, "affinity": {kind: {REQUIRED: [term]} for kind, term in affinity.items()}}}


def term(app: str, key: str = "host", **more: object) -> Json:
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key, **more}


def fitting(wanted: Json, *others: Json) -> list[str]:
    neighbours = Neighbours.of(others, NODES, SPACES)
    return [node["metadata"]["name"] for node in NODES if unwelcome(wanted, node, neighbours) is None]


def test_affinity_wants_to_be_near() -> None:
    assert fitting(pod("p", podAffinity=term("db")), pod("x", "n1", "db")) == ["n1"]
    assert fitting(pod("p", podAffinity=term("db", "zone")), pod("x", "n1", "db")) == ["n1", "n2"]
    assert fitting(pod("p", podAffinity=term("db")), pod("x", "n1", "db", "e")) == [], "another namespace"
    assert fitting(pod("p", podAffinity=term("db", namespaces=["e"])), pod("x", "n1", "db", "e")) == ["n1"]
    selected = term("db", namespaceSelector={"matchLabels": {"team": "x"}})
    assert fitting(pod("p", podAffinity=selected), pod("x", "n1", "db", "e")) == ["n1"]
    assert fitting(pod("p", podAffinity=term("db", "rack")), pod("x", "n1", "db")) == [], "no node has that label"


def test_the_first_of_its_kind_may_go_anywhere() -> None:
    group = pod("p", app="web", podAffinity=term("web", "zone"))
    assert fitting(group) == ["n1", "n2", "n3"]
    assert fitting(group, pod("q", "n3", "web")) == ["n3"]


def test_anti_affinity_keeps_away_in_both_directions() -> None:
    lonely = pod("p", app="web", podAntiAffinity=term("web"))
    assert fitting(lonely, pod("x", "n1", "web")) == ["n2", "n3"]
    assert fitting(pod("q", app="web"), pod("p", "n2", "web", podAntiAffinity=term("web", "zone"))) == ["n3"]
    assert fitting(pod("q", app="other"), pod("p", "n2", "web", podAntiAffinity=term("web", "zone"))) == ["n1", "n2", "n3"]
    over = pod("x", "n1", "web") | {"status": {"phase": "Succeeded"}}
    assert fitting(lonely, over, pod("waiting", "", "web")) == ["n1", "n2", "n3"]
