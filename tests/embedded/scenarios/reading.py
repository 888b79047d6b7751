"""Lists, pages, watches and tables."""

import time

from tests.embedded.scenarios.telling import Seen, Watcher, config_map, config_maps, names_of, scenario, widget
from tests.embedded.servers import MERGE, Api

TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}


@scenario
def pages(api: Api, space: str) -> Seen:
    path = config_maps(space)
    for number in range(7):
        api.call("POST", path, config_map(f"m{number}", labels={"odd": str(number % 2)}))
    first = api.call("GET", path, limit="3").value
    api.call("DELETE", f"{path}/m5")
    api.call("POST", path, config_map("m55"))
    second = api.call("GET", path, limit="3", **{"continue": first["metadata"]["continue"]}).value
    rest = api.call("GET", path, limit="3", **{"continue": second["metadata"]["continue"]}).value
    now = api.call("GET", path).value
    exact = api.call(
        "GET", path, resourceVersion=first["metadata"]["resourceVersion"], resourceVersionMatch="Exact"
    ).value
    return [
        names_of(first),
        first["metadata"].get("remainingItemCount"),
        names_of(second),
        second["metadata"].get("remainingItemCount"),
        names_of(rest),
        rest["metadata"].get("remainingItemCount"),
        names_of(now),
        names_of(exact),
        first["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"],
        [
            names_of(api.call("GET", path, labelSelector=text).value)
            for text in ("odd=1", "odd!=1", "odd in (0,1)", "!odd", "odd,odd notin (0)")
        ],
        [
            names_of(api.call("GET", path, fieldSelector=text).value)
            for text in ("metadata.name=m1", "metadata.name!=m1", f"metadata.namespace={space}")
        ],
    ]



@scenario
def watch_of_changes(api: Api, space: str) -> Seen:
    path = config_maps(space)
    version = api.call("GET", path).value["metadata"]["resourceVersion"]
    api.call("POST", path, config_map("a", labels={"x": "1"}))
    plain = Watcher(api, path, resourceVersion=version)
    chosen = Watcher(api, path, resourceVersion=version, labelSelector="x=1")
    named = Watcher(api, path, resourceVersion=version, fieldSelector="metadata.name=a")
    api.call("PATCH", f"{path}/a", {"data": {"b": "2"}}, MERGE)
    api.call("PATCH", f"{path}/a", {"metadata": {"labels": {"x": "2"}}}, MERGE)
    api.call("PATCH", f"{path}/a", {"metadata": {"labels": {"x": "2"}}}, MERGE)
    api.call("PATCH", f"{path}/a", {"metadata": {"labels": {"x": "1"}}}, MERGE)
    api.call("DELETE", f"{path}/a")
    api.call("POST", path, config_map("the-end", labels={"x": "1"}))
    seen = [plain.until_end(), chosen.until_end()]
    for _ in range(100):
        if any(event["type"] == "DELETED" for event in named.events):
            break
        time.sleep(0.05)
    return [*seen, [event["type"] for event in named.events]]



@scenario
def watch_from_the_start(api: Api, space: str) -> Seen:
    path = config_maps(space)
    for name in ("a", "b"):
        api.call("POST", path, config_map(name))
    watcher = Watcher(
        api, path, sendInitialEvents="true", resourceVersionMatch="NotOlderThan", allowWatchBookmarks="true"
    )
    time.sleep(0.5)
    api.call("POST", path, config_map("the-end"))
    watcher.until_end()
    told = [
        [
            event["type"],
            event["object"]["metadata"].get("name"),
            (event["object"]["metadata"].get("annotations") or {}).get("k8s.io/initial-events-end"),
        ]
        for event in watcher.events
    ]
    refused = list(api.watch(path, seconds=2, sendInitialEvents="true"))
    return [told, refused]



@scenario
def tables(api: Api, space: str) -> Seen:
    path = f"/apis/suite.example.com/v1/namespaces/{space}/widgets"
    api.call("POST", path, widget("t"))
    api.call("POST", config_maps(space), config_map("t"))
    seen = []
    for place in (path, f"{path}/t", f"{config_maps(space)}/t"):
        value = api.call("GET", place, headers=TABLE).value
        columns = [[column["name"], column["type"], column["priority"]] for column in value["columnDefinitions"]]
        seen.append(
            [
                value["kind"],
                value["apiVersion"],
                columns,
                [row["cells"][:2] for row in value["rows"]],
                value["rows"][0]["object"]["kind"],
            ]
        )
    partial = {"Accept": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"}
    seen.append(api.call("GET", f"{path}/t", headers=partial))
    return seen
