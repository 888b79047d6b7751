"""Stories told to a server, each giving a list of what was seen. Two servers that behave alike give equal lists."""

from tests.embedded.scenarios import applying, definitions, events, limits, reading, rights, subresources, writing
from tests.embedded.scenarios.telling import SCENARIOS

__all__ = ["SCENARIOS", "applying", "definitions", "events", "limits", "reading", "rights", "subresources", "writing"]
