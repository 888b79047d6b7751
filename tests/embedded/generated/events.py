"""Events, in both of their groups."""

from tests.embedded.generated.values import odd_counts, one, rarely, some, texts

about = rarely(
    some({"kind": one("Pod", "Node"), "namespace": one("NS")}, name=one("p", "q"), uid=one("u"), fieldPath=one("spec.containers{c}")),
    one({}, {"namespace": "other", "name": "p"}),
)
MOMENTS = one("2026-01-01T00:00:00.000000Z", "2026-01-02T00:00:00.123456Z")
SECONDS = one("2026-01-01T00:00:00Z", "2026-01-02T01:02:03Z")
event_body = some(
    {"involvedObject": about},
    reason=one("Started", "Failed"),
    message=texts,
    type=rarely(one("Normal", "Warning"), one("X")),
    count=odd_counts,
    firstTimestamp=SECONDS,
    lastTimestamp=SECONDS,
    source=some(component=one("kubelet"), host=one("h")),
    eventTime=MOMENTS,
    reportingComponent=rarely(one("example.com/c", "c"), one("Bad Name!")),
    reportingInstance=one("i", "j" * 129),
    action=one("Start"),
    series=one({"count": 2, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}, {"count": 1}),
)
newer_event_body = some(
    {
        "regarding": about,
        "eventTime": MOMENTS,
        "reportingController": rarely(one("example.com/c"), one("", "Bad Name!")),
        "reportingInstance": one("i"),
        "action": rarely(one("Start", "Stop"), one("")),
        "reason": rarely(one("Started", "Failed"), one("")),
        "type": rarely(one("Normal", "Warning"), one("X", "")),
    },
    note=rarely(texts, one("n" * 1025)),
    series=one({"count": 2, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}, {"count": 1}),
    related=one({"kind": "Node", "name": "n"}),
    deprecatedCount=one(0, 1),
    deprecatedSource=some(component=one("kubelet", "")),
    deprecatedFirstTimestamp=SECONDS,
)
