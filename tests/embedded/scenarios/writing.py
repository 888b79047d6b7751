"""Creating, replacing and deleting, and what guards it."""

from tests.embedded.scenarios.telling import Seen, config_map, config_maps, scenario
from tests.embedded.servers import APPLY, JSON_PATCH, MERGE, Api


@scenario
def names_made_up(api: Api, space: str) -> Seen:
    made = api.call("POST", config_maps(space), {"metadata": {"generateName": "made-"}})
    name = made.value["metadata"]["name"]
    return [made.status, name.startswith("made-"), len(name), made.value["metadata"]["generateName"]]



@scenario
def finalizers_hold(api: Api, space: str) -> Seen:
    path = config_maps(space)
    api.call("POST", path, config_map("held", finalizers=["example.com/hold"]))
    first = api.call("DELETE", f"{path}/held")
    again = api.call("DELETE", f"{path}/held")
    more = api.call(
        "PATCH", f"{path}/held", {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}, MERGE
    )
    edited = api.call("PATCH", f"{path}/held", {"data": {"z": "1"}}, MERGE)
    free = api.call("PATCH", f"{path}/held", [{"op": "remove", "path": "/metadata/finalizers"}], JSON_PATCH)
    return [first, again, more, edited, free, api.call("GET", f"{path}/held")]



@scenario
def versions_guard(api: Api, space: str) -> Seen:
    path = config_maps(space)
    made = api.call("POST", path, config_map("v")).value
    fresh = api.call("PUT", f"{path}/v", {**made, "data": {"a": "2"}})
    stale = api.call("PUT", f"{path}/v", {**made, "data": {"a": "3"}})
    unguarded = api.call("PUT", f"{path}/v", config_map("v", {"a": "4"}))
    same = api.call("PUT", f"{path}/v", unguarded.value)
    other = api.call("PATCH", f"{path}/v", {"metadata": {"resourceVersion": "1"}, "data": {"a": "5"}}, MERGE)
    foreign = api.call("PUT", f"{path}/v", config_map("v", uid="22222222-2222-2222-2222-222222222222"))
    gone = api.call("DELETE", f"{path}/v", {"preconditions": {"resourceVersion": "1"}})
    return [
        fresh,
        stale,
        unguarded,
        same.value["metadata"]["resourceVersion"] == unguarded.value["metadata"]["resourceVersion"],
        other,
        foreign,
        gone,
    ]



@scenario
def warnings(api: Api, space: str) -> Seen:
    answer = api.call("POST", config_maps(space), {**config_map("w"), "unknown": 1, "metadata": {"name": "w", "odd": 2}})
    return [answer, answer.headers.get("warning", "").count("unknown field")]



@scenario
def dry_runs(api: Api, space: str) -> Seen:
    path = config_maps(space)
    api.call("POST", path, config_map("there"))
    return [
        api.call("POST", path, config_map("dry"), dryRun="All"),
        api.call("GET", f"{path}/dry").status,
        api.call("PATCH", f"{path}/new", config_map("new"), APPLY, fieldManager="m", dryRun="All"),
        api.call("GET", f"{path}/new").status,
        api.call("DELETE", f"{path}/there", dryRun="All"),
        api.call("GET", f"{path}/there").status,
    ]
