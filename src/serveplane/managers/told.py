"""What a webhook process is told by its manager."""
import msgspec

from serveplane.objects import Json


class Told(msgspec.Struct, frozen=True, kw_only=True):
    kubeconfig: str
    namespace: str
    """The control plane's own."""
    namespaces: tuple[str, ...]
    """Those that are watched; all when empty."""
    log_level: str
    log_encoder: str
    tls_min_version: str
    user_agent: str

    @staticmethod
    def read(value: Json) -> "Told":
        return msgspec.convert(value, Told)
