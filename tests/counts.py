"""How often the stress tests repeat: small counts for `make test`, those of a release for `make soak`. One place, same code."""
import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Counts:
    leader_kills: int = 5
    leader_pauses: int = 2
    lease_seconds: int = 3
    takeover_slack: int = 60  # a machine that runs the whole suite may starve a replica for long
    store_kills: int = 20
    burst: int = 50
    generated_operations: int = 500
    primaries: int = 100
    resyncs: int = 3
    admission_in_flight: int = 100
    ca_resets: int = 5
    fuzzed_objects: int = 500
    slow_connections: int = 200
    connections: int = 1_000


SOAK = Counts(
    leader_kills=25, leader_pauses=25, lease_seconds=15, takeover_slack=5, store_kills=200, burst=1_000, generated_operations=5_000,
    primaries=2_000, resyncs=20, admission_in_flight=1_000, ca_resets=50, fuzzed_objects=20_000, slow_connections=2_000, connections=10_000,
)  # fmt: skip
COUNTS = SOAK if os.environ.get("SERVEPLANE_COUNTS") == "soak" else Counts()
SEED = int(os.environ.get("SERVEPLANE_SEED", "20261115"))
