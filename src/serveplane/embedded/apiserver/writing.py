"""CREATE and UPDATE, and the steps every write shares.

The order is the real server's: read the body, default, prepare (what the server alone decides), mutate by admission,
validate, record owners, write if nobody else did meanwhile.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from serveplane.clock import timestamp
from serveplane.embedded.apiserver import errors, managed, representation
from serveplane.embedded.apiserver.admission import quota
from serveplane.embedded.apiserver.incoming import incoming
from serveplane.embedded.apiserver.reading import found
from serveplane.embedded.apiserver.request import ADMIN, Answer, Request
from serveplane.embedded.apiserver.resources import Resource
from serveplane.embedded.store import Conflict, Key, Record
from serveplane.objects import Json

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.core import Core

ATTEMPTS = 5
QUOTA_KEEPER = Request("PUT", "", {}, {"user-agent": "kube-apiserver"}, b"", ADMIN)
"""The server itself, writing down what is used."""
CREATED_BY_UPDATE = frozenset(
    {
        "services", "endpoints", "events", "limitranges", "leases.coordination.k8s.io", "runtimeclasses.node.k8s.io",
        "roles.rbac.authorization.k8s.io", "rolebindings.rbac.authorization.k8s.io",
        "clusterroles.rbac.authorization.k8s.io", "clusterrolebindings.rbac.authorization.k8s.io",
    }
)  # fmt: skip
"""Kinds that a PUT creates where there is none."""
GUARDED = frozenset(
    {
        "customresourcedefinitions.apiextensions.k8s.io", "poddisruptionbudgets.policy", "leases.coordination.k8s.io",
        "runtimeclasses.node.k8s.io",
        "csidrivers.storage.k8s.io", "csistoragecapacities.storage.k8s.io", "volumeattachments.storage.k8s.io", "csinodes.storage.k8s.io",
        "mutatingwebhookconfigurations.admissionregistration.k8s.io", "validatingwebhookconfigurations.admissionregistration.k8s.io",
        "validatingadmissionpolicies.admissionregistration.k8s.io", "validatingadmissionpolicybindings.admissionregistration.k8s.io",
    }
)  # fmt: skip
"""Kinds of Kubernetes' own that a PUT may only change by saying which version it has seen; so is every custom resource."""
NAME_LENGTH = 63
STORED_AS = {
    "services": "services/specs", "endpoints": "services/endpoints", "nodes": "minions", "replicationcontrollers": "controllers",
    "ingresses.networking.k8s.io": "ingress",
}  # fmt: skip
"""Where the real server's keys differ from the plural; clients see them in one message."""


@dataclass
class Write:
    """One write on its way through the steps."""

    request: Request
    resource: Resource
    value: Json
    live: Json
    """The object as stored, empty for a create."""
    subresource: str = ""
    applied: bool = False
    """managedFields are already as server-side apply left them."""
    options: Json = field(default_factory=dict)
    """Of a deletion, as webhooks see them."""

    @property
    def operation(self) -> str:
        return "UPDATE" if self.live else "CREATE"


async def create(core: "Core", request: Request, resource: Resource) -> Answer:
    value = incoming(core, request, resource)
    data = await create_value(core, request, resource, value)
    return Answer(201, await shown(core, request, resource, data))


async def create_value(core: "Core", request: Request, resource: Resource, value: Json, applied: bool = False) -> bytes:
    """Store a new object; its bytes, as a GET would give them."""
    metadata = value["metadata"]
    namespace = _namespace(request, resource, metadata)
    if not applied:
        metadata.pop("managedFields", None)
        own(core, request, resource, value, {}, "")
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = metadata["generateName"][: NAME_LENGTH - 5] + core.clock.letters(5)
    core.kinds.begin(core, resource, value, request)
    write = Write(request, resource, value, {}, applied=applied)
    await core.admit(write)
    core.kinds.prepare_create(core, write)
    core.kinds.check_create(core, write)
    await core.admit_finally(write)
    key = Key(namespace, write.value["metadata"]["name"])
    return await _create_stored(core, write, key)


async def _create_stored(core: "Core", write: Write, key: Key) -> bytes:
    resource = write.resource
    core.kinds.committing(core, write)
    value = await core.convert.to_storage(resource, representation.typed(resource, write.value))
    charges = quota.charges(core, write)
    there = core.store.get(resource.bucket, key)
    if there is not None:
        raise errors.already_exists(
            resource.plural, resource.group, key.name, dying=b'"deletionTimestamp"' in there.data
        )
    if write.request.dry_run:
        return errors.encoded(value)
    _charge(core, charges)
    record = core.store.create(resource.bucket, key, value)
    core.keep_empties(resource, key, write.request.empties)
    await core.store.acknowledged()
    return record.data


def _namespace(request: Request, resource: Resource, metadata: Json) -> str:
    namespace = request.target.namespace if resource.namespaced else ""
    given = metadata.get("namespace", "")
    if resource.namespaced:
        if given and namespace and given != namespace:
            raise errors.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        if not namespace:
            raise errors.bad_request("an empty namespace may not be set during creation")
        metadata["namespace"] = namespace
    elif given:
        raise _no_namespace(resource, metadata)
    return namespace


def _no_namespace(resource: Resource, metadata: Json) -> errors.Refusal:
    cause = errors.Cause("FieldValueForbidden", "Forbidden: not allowed on this type", "metadata.namespace")
    return errors.invalid(resource.kind, resource.group, metadata.get("name", ""), [cause])


def own(core: "Core", request: Request, resource: Resource, value: Json, live: Json, subresource: str) -> None:
    """Set managedFields for everything but server-side apply, from what the client sent: what the server and admission add belongs
    to nobody, and what this endpoint does not write (`status`, or everything else) changes no owner.
    """
    moment = None if subresource == "scale" else now(core)  # the real server forgets the time on this one endpoint
    writer = managed.Writer(request.field_manager, "Update", resource.api_version, subresource, moment)
    reset = core.kinds.reset_fields(resource, subresource)
    entries = managed.after_update(live, value, writer, resource.shape, reset, core.kinds.empty(resource))
    if entries:
        value["metadata"]["managedFields"] = entries
    else:
        value["metadata"].pop("managedFields", None)


def now(core: "Core") -> str:
    return timestamp(core.clock.now())


Transform = Callable[[Json], Awaitable[Json]]
"""From the object as stored (in the requested version) to the object as wanted."""


async def update(core: "Core", request: Request, resource: Resource, subresource: str = "") -> Answer:
    value, name = _replacement(core, request, resource), request.target.name
    if (
        resource.bucket in CREATED_BY_UPDATE
        and not subresource
        and core.store.get(resource.bucket, _key(request, resource)) is None
    ):
        core.authorize_create(request)
        if value["metadata"].get("uid"):
            raise _other_uid(resource, value["metadata"], name, "")
        value["metadata"].pop("resourceVersion", None)
        data = await create_value(core, request, resource, value)
        return Answer(201, await shown(core, request, resource, data))

    if (resource.custom or resource.bucket in GUARDED) and not _seen_version(value["metadata"]):
        cause = errors.Cause(
            "FieldValueInvalid", "Invalid value: 0: must be specified for an update", "metadata.resourceVersion"
        )
        found(core, resource, request.target.namespace, name)
        raise errors.invalid(resource.plural, resource.group, name, [cause])

    unused = [value]

    async def replace(live: Json) -> Json:
        """What was sent; a second attempt reads it again, since the first has added to it."""
        return unused.pop() if unused else _replacement(core, request, resource)

    data = await change(core, request, resource, replace, subresource)
    return Answer(200, await shown(core, request, resource, data))


def _replacement(core: "Core", request: Request, resource: Resource) -> Json:
    value = incoming(core, request, resource)
    check_name(value, request.target.name)
    _same_namespace(request, resource, value)
    return value


def check_name(value: Json, name: str) -> None:
    """An update says whom it is about, in the object too."""
    given = (value.get("metadata") or {}).get("name")
    if not given:
        raise errors.bad_request(f"the name of the object ({name} based on URL) was undeterminable: name must be provided")
    if given != name:
        raise errors.bad_request(f"the name of the object ({given}) does not match the name on the URL ({name})")


def _key(request: Request, resource: Resource) -> Key:
    return Key(request.target.namespace if resource.namespaced else "", request.target.name)


def _same_namespace(request: Request, resource: Resource, value: Json) -> None:
    given = value["metadata"].get("namespace", "")
    if resource.namespaced:
        if given and given != request.target.namespace:
            raise errors.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        value["metadata"]["namespace"] = request.target.namespace


async def change(
    core: "Core",
    request: Request,
    resource: Resource,
    transform: Transform,
    subresource: str = "",
    applied: bool = False,
) -> bytes:
    """Read, transform, write; again if somebody else wrote in between and the client did not insist on a version."""
    for _ in range(ATTEMPTS):
        record = found(core, resource, request.target.namespace, request.target.name)
        try:
            return await change_record(core, request, resource, record, transform, subresource, applied)
        except Conflict:
            continue
    raise errors.conflict(resource.plural, resource.group, request.target.name)


async def change_record(
    core: "Core",
    request: Request,
    resource: Resource,
    record: Record,
    transform: Transform,
    subresource: str = "",
    applied: bool = False,
) -> bytes:
    live = await core.convert.from_storage(resource, record.value())
    wanted = await transform(core.convert.copied(live))
    _check_preconditions(resource, live, wanted)
    if not applied and live["metadata"].get("managedFields"):  # owners that nobody kept record of are not invented
        own(core, request, resource, wanted, live, subresource)
    write = Write(request, resource, wanted, live, subresource, applied)
    core.kinds.prepare_update(core, write)
    await core.admit(write)
    core.kinds.check_update(core, write)
    await core.admit_finally(write)
    return await _store(core, write, record)


def _check_preconditions(resource: Resource, live: Json, wanted: Json) -> None:
    metadata, name = wanted["metadata"], live["metadata"]["name"]
    uid = metadata.get("uid")
    if uid and uid != live["metadata"]["uid"]:
        raise _other_uid(resource, metadata, name, live["metadata"]["uid"])
    version = _seen_version(metadata)
    if version and version != live["metadata"]["resourceVersion"]:
        raise errors.conflict(resource.plural, resource.group, name)


def _seen_version(metadata: Json) -> str:
    """The version that the client insists on; zero is how Go writes that there is none."""
    version = metadata.get("resourceVersion") or ""
    if version and not (version.isascii() and version.isdigit()):
        raise errors.Refusal(500, "", f'strconv.ParseUint: parsing "{version}": invalid syntax')
    return "" if version == "0" else version


def _other_uid(resource: Resource, metadata: Json, name: str, live_uid: str) -> errors.Refusal:
    group = f"{resource.group}/" if resource.custom else ""
    plural = STORED_AS.get(resource.bucket, resource.plural)
    root = "" if resource.bucket == "events" and not live_uid else "/registry"
    place = f"{root}/{group}{plural}/{metadata.get('namespace', '')}/{name}".replace("//", "/")
    told = f"Precondition failed: UID in precondition: {metadata['uid']}, UID in object meta: {live_uid}"
    why = f"StorageError: invalid object, Code: 4, Key: {place}, ResourceVersion: 0, AdditionalErrorMsg: {told}"
    return errors.conflict(resource.plural, resource.group, name, why)


async def _store(core: "Core", write: Write, record: Record) -> bytes:
    resource = write.resource
    core.kinds.committing(core, write)
    value = representation.typed(resource, write.value)
    value["metadata"]["resourceVersion"] = write.live["metadata"]["resourceVersion"]
    settled = not core.is_first_update(resource, value) and core.has_empties(resource, record.key) == write.request.empties
    if settled and _same(value, representation.typed(resource, write.live)):  # nothing to write: no new version, no event
        return errors.encoded(value) if write.request.dry_run else await _plain(core, resource, record)
    stored = await core.convert.to_storage(resource, value)
    if core.store.get(resource.bucket, record.key) is not record:
        raise Conflict
    charges = quota.charges(core, write)
    if write.request.dry_run:
        return errors.encoded(stored)
    _charge(core, charges)
    core.keep_empties(resource, record.key, write.request.empties)
    if core.deleting.is_finished(resource, stored, write.live):
        written = core.store.delete(resource.bucket, record, stored)
    else:
        written = core.store.update(resource.bucket, record, stored)
    await core.store.acknowledged()
    return written.data


def _charge(core: "Core", charges: list[quota.Charge]) -> None:
    """In the turn of the write that it is for: nobody can come between."""
    resource = core.stored_resource(quota.BUCKET)
    assert resource is not None
    for charge in charges:
        live, value = charge.quota.value(), charge.quota.value()
        value["status"] = {**(value.get("status") or {}), "used": charge.used}
        own(core, QUOTA_KEEPER, resource, value, live, "status")
        core.store.update(quota.BUCKET, charge.quota, value)


async def _plain(core: "Core", resource: Resource, record: Record) -> bytes:
    await core.store.acknowledged()
    return record.data


def _same(new: Json, old: Json) -> bool:
    """Equal but for the times in managedFields, which alone are no reason to write."""
    if {**new, "metadata": None} != {**old, "metadata": None}:
        return False
    mine, theirs = dict(new["metadata"]), dict(old["metadata"])
    entries, others = mine.pop("managedFields", []), theirs.pop("managedFields", [])
    return mine == theirs and [_timeless(e) for e in entries] == [_timeless(e) for e in others]


def _timeless(entry: Json) -> Json:
    return {key: value for key, value in entry.items() if key != "time"}


async def shown(core: "Core", request: Request, resource: Resource, data: bytes) -> bytes:
    """The answer to a write, in the form and version that were asked for."""
    if resource.converts:
        data = await core.convert.one(resource, data)
    return representation.one(
        representation.negotiated(request.headers, core.clock), resource, data, request.query.get("includeObject", "")
    )
