"""Reading a Secret object."""
import base64

from serveplane.objects import Json


def secret_value(secret: Json, key: str) -> bytes | None:
    """A secret's value as bytes; `stringData` counts too, so that files can be rendered as they are written."""
    if key in (secret.get("stringData") or {}):
        return str(secret["stringData"][key]).encode()
    if key in (secret.get("data") or {}):
        return base64.b64decode(secret["data"][key] or "")
    return None


def secret_keys(secret: Json) -> frozenset[str]:
    return frozenset((*(secret.get("data") or {}), *(secret.get("stringData") or {})))
