"""How this library designates things: a `Kind` for a resource type, a `Key` for one object of it.

Objects themselves are plain JSON values; the few accessors here read their metadata without ever raising on a field that is absent.
"""

from typing import NamedTuple

from serveplane.objects import Json


class Kind(NamedTuple):
    """A resource type by the two fields every object carries.

    >>> Kind("apps/v1", "Deployment").group, Kind("v1", "Pod").group
    ('apps', '')
    """

    api_version: str
    kind: str

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]

    @property
    def version(self) -> str:
        return self.api_version.rpartition("/")[2]

    @property
    def path(self) -> str:
        """Where the group and version are served: the core group has a root of its own."""
        return f"/apis/{self.api_version}" if self.group else f"/api/{self.version}"

    def __str__(self) -> str:
        return f"{self.kind}.{self.api_version}"


class Key(NamedTuple):
    """One object among those of its kind; the namespace is empty for cluster-scoped ones."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class ObjectRef(NamedTuple):
    """One object among all."""

    kind: Kind
    namespace: str
    name: str

    @property
    def key(self) -> Key:
        return Key(self.namespace, self.name)

    def __str__(self) -> str:
        return f"{self.kind.kind}/{self.key}"


def kind_of(obj: Json) -> Kind:
    """The kind an object says it is; an object without one cannot be sent anywhere, so that raises."""
    try:
        return Kind(obj["apiVersion"], obj["kind"])
    except KeyError as missing:
        raise ValueError(f"the object has no {missing.args[0]}") from None


def key_of(obj: Json) -> Key:
    metadata = obj.get("metadata") or {}
    return Key(metadata.get("namespace") or "", metadata.get("name") or "")


def ref_of(obj: Json) -> ObjectRef:
    return ObjectRef(kind_of(obj), *key_of(obj))


def uid_of(obj: Json) -> str:
    return str((obj.get("metadata") or {}).get("uid") or "")


def controller_of(obj: Json) -> Json | None:
    """The one owner that manages this object, if it has one."""
    owners = (obj.get("metadata") or {}).get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), None)


def is_being_deleted(obj: Json) -> bool:
    return bool((obj.get("metadata") or {}).get("deletionTimestamp"))


def controller_reference(owner: Json) -> Json:
    """The owner reference that makes `owner` the controller of a child, as `controllerutil.SetControllerReference` writes it."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
