"""What an administrator decides that matters to defaults and validation.

The ConfigMap is parsed in `settings`, which stands outside `api`; this is the little that admission needs of it.
"""

from collections.abc import Mapping

import msgspec

from serveplane.api.mode import Mode

GPU_RESOURCE_TYPES = ("nvidia.com/gpu", "amd.com/gpu", "intel.com/gpu", "habana.ai/gaudi")


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    default_mode: Mode = Mode.KNATIVE
    limits: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Default resource limits of containers that are the user's own; a missing key sets nothing."""
    requests: Mapping[str, str] = msgspec.field(default_factory=dict)
    art_version: str = ""
    auto_mount_token: bool = True
    local_models: bool = False
    """Whether services are matched with cached models."""
    gpu_resource_types: tuple[str, ...] = GPU_RESOURCE_TYPES
