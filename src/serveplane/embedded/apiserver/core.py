"""The parts of the server, put together; every request handler gets this one object."""

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from serveplane.clock import Clock
from serveplane.embedded.apiserver import errors
from serveplane.embedded.apiserver.admission.chain import Admission
from serveplane.embedded.apiserver.auth.authenticate import Authenticator
from serveplane.embedded.apiserver.auth.rbac import Attributes, Authorizer
from serveplane.embedded.apiserver.auth.tokens import Signer
from serveplane.embedded.apiserver.convert import Converter
from serveplane.embedded.apiserver.crd.registrar import Registrar
from serveplane.embedded.apiserver.deleting import Deleting
from serveplane.embedded.apiserver.kinds.kinds import Kinds
from serveplane.embedded.apiserver.nodes import Nodes
from serveplane.embedded.apiserver.openapi import OpenApi
from serveplane.embedded.apiserver.request import Answer, Request
from serveplane.embedded.apiserver.resources import Registry, Resource
from serveplane.embedded.apiserver.watching import wait
from serveplane.embedded.apiserver.webhooks import Webhooks
from serveplane.embedded.store import Change, Conflict, Key, Record, Store
from serveplane.embedded.store.records import ADDED
from serveplane.objects import Json

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.writing import Write


CLAIMS = "persistentvolumeclaims"
VirtualResource = Callable[["Core", Request, Resource], Awaitable[Answer]]


class Core:
    def __init__(self, store: Store, clock: Clock) -> None:
        self.store = store
        self.clock = clock
        self.log = logging.getLogger("serveplane.apiserver")
        self.registry = Registry()
        self.openapi = OpenApi(self.registry)
        self.convert = Converter(self)
        self.deleting = Deleting()
        self.kinds = Kinds()
        self.admission = Admission(self)
        self.webhooks = Webhooks(self)
        self.registrar = Registrar(self)
        self.nodes = Nodes(clock)
        self.authorizer = Authorizer(self)
        self.authenticator = Authenticator(self, Signer())
        self.virtual: dict[tuple[str, str, str], VirtualResource] = {}
        """Resources without objects of their own (group, version, plural): who answers for them."""
        self._fresh: set[Key] = set()
        self._empties: set[tuple[str, Key]] = set()
        store.observe(CLAIMS, self._claim_changed)
        self._served_once: set[tuple[str, str]] = set()

    # --- admission

    async def admit(self, write: "Write") -> None:
        await self.admission.mutate(write)

    async def admit_finally(self, write: "Write") -> None:
        await self.admission.validate(write)

    async def admit_delete(self, write: "Write") -> None:
        await self.admission.delete(write)

    async def convert_between(self, source: Resource, wanted: Resource, value: Json) -> Json:
        """An object of one version as another version of the same resource has it."""
        if source is wanted or wanted.custom is None:
            return value
        return (await wanted.custom.definition.conversion.values(self, wanted, [value]))[0]

    def authorize_create(self, request: Request) -> None:
        """A PUT that creates needs the right to create, too."""
        target = request.target
        asked = Attributes(request.user, "create", target.group, target.resource, "", target.namespace, target.name)
        if not self.authorizer.allows(asked):
            raise errors.forbidden(
                target.resource, target.group, target.name, f'User "{request.user.name}" cannot create this resource'
            )

    # --- resources

    def is_served(self, resource: Resource) -> bool:
        return self.registry.find(resource.group, resource.version, resource.plural) is not None

    def stored_resource(self, bucket: str) -> Resource | None:
        """The resource in the version its objects are stored in."""
        return self.convert.storage_resource(bucket)

    def ever_served(self, api_version: str, kind: str) -> bool:
        return (api_version, kind) in self._served_once

    def remember_kind(self, api_version: str, kind: str) -> None:
        self._served_once.add((api_version, kind))

    # --- what is written once more than it is changed

    def _claim_changed(self, change: Change) -> None:
        (self._fresh.add if change.type == ADDED else self._fresh.discard)(change.record.key)

    def is_first_update(self, resource: Resource, value: Json) -> bool:
        """Whether this is the first update of a claim: the real server stores that even if nothing changes."""
        metadata = value["metadata"]
        return resource.bucket == CLAIMS and Key(metadata["namespace"], metadata["name"]) in self._fresh

    def has_empties(self, resource: Resource, key: Key) -> bool:
        """Whether the real server would hold empty labels, annotations or the like: it drops them with the next write, whatever that is."""
        return bool(self._empties) and (resource.bucket, key) in self._empties

    def keep_empties(self, resource: Resource, key: Key, kept: bool) -> None:
        if kept:
            self._empties.add((resource.bucket, key))
        elif self._empties:
            self._empties.discard((resource.bucket, key))

    # --- store

    async def wait_for_change(self, bucket: str, seconds: float) -> bool:
        return await wait(self.store.bucket(bucket).waiter(), seconds)

    async def adjust(self, resource: Resource, record: Record, edit: Callable[[Json], None]) -> None:
        """A change by the server itself: no admission, no owners. Ends the object if that was its last finalizer."""
        live, value = record.value(), record.value()
        edit(value)
        if self.store.get(resource.bucket, record.key) is not record:
            raise Conflict
        if value == live:
            return
        if self.deleting.is_finished(resource, value, live):
            self.store.delete(resource.bucket, record, value)
        else:
            self.store.update(resource.bucket, record, value)
        await self.store.acknowledged()
