"""ServiceAccount tokens: signed (ES256), bound to an account and possibly to a pod, node or secret."""

import base64
import datetime
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from serveplane.embedded.apiserver.pki import write_private
from serveplane.embedded.apiserver.request import User
from serveplane.embedded.store import Key
from serveplane.objects import Json

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.core import Core

ISSUER = "https://kubernetes.default.svc.cluster.local"
AUDIENCE = ISSUER
BUCKETS = {"pod": "pods", "node": "nodes", "secret": "secrets"}
SIZE = 32


class BadToken(Exception):
    """Not one of ours, or no longer good; the text says why."""


@dataclass(frozen=True)
class Verified:
    user: User
    audiences: tuple[str, ...]
    expires: float


class Signer:
    """The key of one cluster, kept in a file if there is one."""

    def __init__(self, path: Path | None = None) -> None:
        if path is not None and path.exists():
            loaded = serialization.load_pem_private_key(path.read_bytes(), None)
            if not isinstance(loaded, ec.EllipticCurvePrivateKey):
                raise ValueError(f"{path} is no EC key")
            self._key = loaded
        else:
            self._key = ec.generate_private_key(ec.SECP256R1())
            if path is not None:
                pem = self._key.private_bytes(
                    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
                )
                write_private(path, pem)
        point = self._key.public_key().public_numbers()
        self._jwk = {
            "kty": "EC",
            "crv": "P-256",
            "alg": "ES256",
            "use": "sig",
            "x": _b64(point.x.to_bytes(SIZE, "big")),
            "y": _b64(point.y.to_bytes(SIZE, "big")),
        }
        self.key_id = _b64(hashlib.sha256(msgspec.json.encode(self._jwk)).digest())

    def keys(self) -> Json:
        return {"keys": [{**self._jwk, "kid": self.key_id}]}

    def signed(self, claims: Json) -> str:
        head = _b64(msgspec.json.encode({"alg": "ES256", "kid": self.key_id}))
        message = f"{head}.{_b64(msgspec.json.encode(claims))}"
        r, s = decode_dss_signature(self._key.sign(message.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{message}.{_b64(r.to_bytes(SIZE, 'big') + s.to_bytes(SIZE, 'big'))}"

    def claims(self, token: str) -> Json:
        """The content of a token we signed."""
        try:
            head, body, signature = token.split(".")
            header = msgspec.json.decode(_unb64(head))
            raw = _unb64(signature)
            if header.get("alg") != "ES256" or len(raw) != 2 * SIZE:
                raise BadToken("unexpected signature algorithm")
            encoded = encode_dss_signature(int.from_bytes(raw[:SIZE], "big"), int.from_bytes(raw[SIZE:], "big"))
            self._key.public_key().verify(encoded, f"{head}.{body}".encode(), ec.ECDSA(hashes.SHA256()))
            claims: Json = msgspec.json.decode(_unb64(body))
        except (ValueError, AttributeError, TypeError, InvalidSignature):
            raise BadToken("invalid bearer token") from None
        return claims


def issue(
    core: "Core", signer: Signer, account: Json, audiences: list[str], seconds: int, bound: Json | None
) -> tuple[str, str]:
    """A new token for a ServiceAccount, and when it expires."""
    metadata = account["metadata"]
    now = core.clock.now().replace(microsecond=0)
    until = now + datetime.timedelta(seconds=seconds)
    inner: Json = {
        "namespace": metadata["namespace"],
        "serviceaccount": {"name": metadata["name"], "uid": metadata["uid"]},
    }
    inner |= bound or {}
    start = int(now.timestamp())
    claims = {
        "aud": audiences,
        "exp": int(until.timestamp()),
        "iat": start,
        "iss": ISSUER,
        "jti": core.clock.uuid(),
        "kubernetes.io": inner,
        "nbf": start,
        "sub": f"system:serviceaccount:{metadata['namespace']}:{metadata['name']}",
    }
    return signer.signed(claims), until.strftime("%Y-%m-%dT%H:%M:%SZ")


def verified(core: "Core", claims: Json) -> Verified:
    """Who a token speaks for, if it still speaks for anybody: account and bound objects must be the same ones still."""
    now = core.clock.now().timestamp()
    if claims.get("iss") != ISSUER or now >= claims.get("exp", 0) or now < claims.get("nbf", 0) - 1:
        raise BadToken("token has expired" if now >= claims.get("exp", 0) else "invalid bearer token")
    inner: Json = claims["kubernetes.io"]
    namespace, account = inner["namespace"], inner["serviceaccount"]
    _check_alive(core, "serviceaccounts", Key(namespace, account["name"]), account["uid"])
    extra: dict[str, tuple[str, ...]] = {"authentication.kubernetes.io/credential-id": (f"JTI={claims['jti']}",)}
    for kind, bucket in BUCKETS.items():
        bound = inner.get(kind)
        if bound is None:
            continue
        if kind != "node" or "pod" not in inner:
            _check_alive(core, bucket, Key("" if kind == "node" else namespace, bound["name"]), bound["uid"])
        extra[f"authentication.kubernetes.io/{kind}-name"] = (bound["name"],)
        extra[f"authentication.kubernetes.io/{kind}-uid"] = (bound["uid"],)
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return Verified(User(claims["sub"], groups, account["uid"], extra), tuple(claims["aud"]), claims["exp"])


def _check_alive(core: "Core", bucket: str, key: Key, uid: str) -> None:
    record = core.store.get(bucket, key)
    if record is None or record.value()["metadata"]["uid"] != uid:
        raise BadToken("service account token has been invalidated")


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _unb64(text: str) -> Any:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
