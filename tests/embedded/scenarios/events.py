"""A kind that two groups serve."""


from tests.embedded.scenarios.telling import Seen, names_of, scenario
from tests.embedded.servers import Api


@scenario
def events_in_two_groups(api: Api, space: str) -> Seen:
    old, new = f"/api/v1/namespaces/{space}/events", f"/apis/events.k8s.io/v1/namespaces/{space}/events"
    about = {"kind": "Pod", "name": "p", "namespace": space}
    api.call(
        "POST",
        old,
        {
            "metadata": {"name": "e"},
            "involvedObject": about,
            "reason": "R",
            "message": "M",
            "type": "Normal",
            "source": {"component": "c"},
            "count": 2,
        },
    )
    fresh = {
        "metadata": {"name": "n"},
        "regarding": about,
        "reason": "R",
        "note": "N",
        "type": "Warning",
        "action": "A",
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "example.com/c",
        "reportingInstance": "i",
    }
    made = api.call("POST", new, fresh)
    return [
        made,
        api.call("GET", f"{new}/e"),
        api.call("GET", f"{old}/n"),
        [
            names_of(api.call("GET", old, fieldSelector=text).value)
            for text in ("involvedObject.name=p", "type=Warning", "reason=R,type=Normal")
        ],
    ]
