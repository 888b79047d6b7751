"""Versions that both servers were made to forget: what watchers, exact lists and later pages are told then.

The real side gets a control plane of its own here: etcd is compacted and the API server, which remembers on its own, started anew.
"""

import json
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.embedded.conftest import Both
from tests.embedded.servers import MERGE, Api, Embedded
from tests.kit.plugin import running_testbed
from tests.kit.processes import start
from tests.kit.testbed import RequestFailed, Testbed
from tests.kit.waiting import soon

pytestmark = pytest.mark.testbed
SPACE = "forgetful"
MAPS = f"/api/v1/namespaces/{SPACE}/configmaps"
FILLINGS, FILLING_BYTES = 40, 1_000_000
"""More than the embedded server's history holds."""


@pytest.fixture(scope="module")
def bed() -> Iterator[Testbed]:
    with running_testbed() as bed:
        if "etcd" not in bed.processes:
            pytest.skip("the etcd of a cluster that is not ours is left alone")
        bed.stop_program("kube-controller-manager")
        yield bed


def _fill(api: Api) -> None:
    """Changes enough for a history of bounded size to let go of the first ones."""
    for number in range(FILLINGS):
        text = str(number).rjust(FILLING_BYTES, "x")
        assert api.call("PATCH", f"{MAPS}/filled", {"data": {"filling": text}}, MERGE).status == 200


def _compact(bed: Testbed, api: Api) -> None:
    words = [str(word) for word in bed.processes["etcd"].args]  # type: ignore[union-attr]
    address = words[words.index("--listen-client-urls") + 1]
    version = api.call("GET", MAPS).value["metadata"]["resourceVersion"]
    wish = json.dumps({"revision": version, "physical": True}).encode()
    with urllib.request.urlopen(f"{address}/v3/kv/compaction", wish, timeout=60) as answer:
        assert answer.status == 200
    command = bed.processes["kube-apiserver"].args
    bed.stop_program("kube-apiserver")
    bed.processes["kube-apiserver"] = start(command, bed.folder / "kube-apiserver.log")  # type: ignore[arg-type]
    soon(lambda: _is_ready(bed), 120)


def _is_ready(bed: Testbed) -> bool:
    try:
        bed.call("GET", "/readyz")
    except (OSError, RequestFailed):
        return False
    return True


def _story(api: Api, forget: Callable[[], None]) -> list[Any]:
    api.call("POST", "/api/v1/namespaces", {"metadata": {"name": SPACE}})
    for name in ("a", "b", "c", "d", "filled"):
        assert api.call("POST", MAPS, {"metadata": {"name": name}, "data": {"k": name}}).status == 201
    page = api.call("GET", MAPS, limit="2").value
    version, token = page["metadata"]["resourceVersion"], page["metadata"]["continue"]
    api.call("DELETE", f"{MAPS}/c")
    forget()
    api.call("PATCH", f"{MAPS}/filled", {"data": {"filling": "little"}}, MERGE)

    def seen(**query: str) -> list[Any]:
        answer = api.call("GET", MAPS, **query)
        value = json.loads(json.dumps(answer.value).replace(f": {version}", ": <asked>"))
        return [sorted(query), answer.status, value]

    late = seen(**{"continue": token, "limit": "2"})
    told = [late, seen(resourceVersion=version, resourceVersionMatch="Exact")]
    told.append(seen(resourceVersion=version, resourceVersionMatch="NotOlderThan"))
    told.append(seen(resourceVersion=version))
    rest = late[2].get("metadata", {}).get("continue")
    told.append(seen(**{"continue": rest, "limit": "2"}) if rest else "no token to go on with")
    for asked, more in ((version, {}), ("1", {}), (version, {"fieldSelector": "metadata.name=a"})):
        first = next(iter(api.watch(MAPS, seconds=5, resourceVersion=asked, **more)), None)
        told.append(json.loads(json.dumps(first).replace(f"version: {asked} ", "version: <asked> ")))
    return told


def test_both_say_the_same_about_what_they_forgot(bed: Testbed, embedded: Embedded) -> None:
    real, ours = Api("real", bed.url, bed.token, str(bed.ca)), embedded.api()
    both = Both(ours, real)
    forgetting = {"real": lambda: _compact(bed, real), "embedded": lambda: _fill(ours)}
    told = both.same("forgotten", lambda api: _story(api, forgetting[api.name]))
    both.check()
    assert [one[1] for one in told[:5]] == [410, 410, 200, 200, 200]
    assert [(one["type"], one["object"]["code"]) for one in told[5:]] == [("ERROR", 410)] * 3
