"""What somebody sent, as one of the server's own types; for those types too that are never stored."""

from serveplane.embedded.apiserver import errors
from serveplane.embedded.apiserver.kinds import codec
from serveplane.embedded.apiserver.kinds.scalars import Walk, WrongType
from serveplane.objects import Json


def read_as(group: str, version: str, kind: str, value: Json, walk: Walk | None = None) -> Json:
    """A value as the server's own type would hold it; what it cannot hold is the client's mistake."""
    struct = codec.struct_for(group, version, kind)
    if struct is None:
        return value
    try:
        return struct.read(value, walk or Walk(), "")
    except WrongType as error:
        refusal = errors.bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {error}')
        refusal.misfit = str(error)
        raise refusal from None
