"""Validation of Kubernetes' own kinds: what their types require, and the rules that keep a cluster sane."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from serveplane.embedded.apiserver.crd import checks
from serveplane.embedded.apiserver.deleting import DEFINITIONS
from serveplane.embedded.apiserver.errors import Cause

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.core import Core
    from serveplane.embedded.apiserver.writing import Write


def problems(core: "Core", write: "Write") -> Iterator[Cause]:
    if write.resource.bucket == DEFINITIONS:
        yield from checks.problems(write.value, write.live)
