"""A CustomResourceDefinition as the server uses it: versions, schemas, printer columns, conversion."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from serveplane.embedded.apiserver.resources import Resource
from serveplane.objects import Json

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.crd.conversion import Conversion
    from serveplane.embedded.apiserver.crd.schema import Node


@dataclass(eq=False)
class Definition:
    """What all versions of one custom resource share."""

    name: str
    group: str
    plural: str
    value: Json
    conversion: "Conversion"
    versions: list["Version"] = field(default_factory=list)
    storage_resource: Resource | None = None

    @property
    def converts(self) -> bool:
        """Whether there is more than one version, served or not: only then can stored and asked-for differ."""
        return len(self.value["spec"]["versions"]) > 1


@dataclass(eq=False)
class Version:
    """One version of a custom resource."""

    definition: Definition
    name: str
    value: Json
    schema: Json
    """Its `openAPIV3Schema`, empty if it has none."""
    program: "Node"
    """The schema compiled for pruning, defaulting and validation."""

    @property
    def has_status(self) -> bool:
        return "status" in (self.value.get("subresources") or {})

    @property
    def scale(self) -> Json | None:
        return (self.value.get("subresources") or {}).get("scale")

    @property
    def columns(self) -> list[Json]:
        return self.value.get("additionalPrinterColumns") or []

    @property
    def selectable_fields(self) -> tuple[str, ...]:
        return tuple(entry["jsonPath"].removeprefix(".") for entry in self.value.get("selectableFields") or ())
