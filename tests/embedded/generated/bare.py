"""The embedded server without the loops that are the controller manager's beside a real one.

The real server of these tests runs without a controller manager: nobody collects garbage there, empties a namespace, takes the protection
off a volume or counts what is used. So nobody does here either, and what both API servers do by themselves can be compared, event by event.
"""

import sys

from serveplane.embedded.apiserver import __main__ as program
from serveplane.embedded.apiserver.auth.aggregation import Aggregation
from serveplane.embedded.apiserver.gc import GarbageCollector
from serveplane.embedded.apiserver.namespaces import NamespaceController
from serveplane.embedded.apiserver.protection import Protection
from serveplane.embedded.apiserver.quotas import Quotas


async def _nothing(self: object) -> None:
    return None


if __name__ == "__main__":
    for loop in (Aggregation, GarbageCollector, NamespaceController, Protection, Quotas):
        loop.drain = _nothing  # type: ignore[method-assign, assignment]
    program.main(sys.argv[1:])
