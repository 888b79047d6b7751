"""ClusterStorageContainer v1alpha1: a container that downloads models from URIs of some shape."""

from typing import Annotated

from serveplane.api.expressions import matches, tame
from serveplane.api.model import Model, Named, Part, read, rules
from serveplane.api.problem import SPEC, FieldError
from serveplane.objects import Json

INIT_CONTAINER = "initContainer"


class UriFormat(Model):
    prefix: str | None = None
    regex: str | None = None

    def matches(self, uri: str) -> bool:
        """A prefix decides if there is one; otherwise the expression is searched anywhere in the URI. A broken one matches nothing.
        """
        if self.prefix:
            return uri.startswith(self.prefix)
        return bool(self.regex and matches(self.regex, uri))


class StorageContainerSpec(Model):
    container: Annotated[Json, Part("core.v1.Container")]
    supported_uri_formats: tuple[UriFormat, ...]
    workload_type: Annotated[str, rules(default=INIT_CONTAINER)] = INIT_CONTAINER
    supports_multi_model_download: Annotated[bool, rules(default=False)] = False


class ClusterStorageContainer(Named):
    spec: StorageContainerSpec
    disabled: bool = False

    def supports(self, uri: str) -> bool:
        return any(form.matches(uri) for form in self.spec.supported_uri_formats)


def problems(obj: Json) -> list[FieldError]:
    formats = read(ClusterStorageContainer, obj).spec.supported_uri_formats
    return [
        FieldError(
            SPEC / "supportedUriFormats" / index / "regex",
            "is no expression that can be searched: broken, or with repeats inside repeats",
        )
        for index, form in enumerate(formats)
        if form.regex and not form.prefix and tame(form.regex) is None
    ]
