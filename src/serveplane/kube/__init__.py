"""A controller library on asyncio: client, informers, queue, lease, apply engine, events, webhook server.

Works with any Kubernetes API server; knows nothing of any particular kind.
"""

from serveplane.kube.client import Client, PatchType
from serveplane.kube.kind import Key, Kind, ObjectRef

__all__ = ["Client", "Key", "Kind", "ObjectRef", "PatchType"]
