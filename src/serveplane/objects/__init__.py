"""Pure Kubernetes arithmetic: quantities, selectors, merges, field sets, YAML. Knows no I/O and no kind of ours."""
from typing import Any

Json = dict[str, Any]
"""A Kubernetes object or a part of one, as plain JSON values."""
