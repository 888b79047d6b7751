"""AWS credentials and request signing (Signature Version 4)."""
import hashlib
import hmac
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

import msgspec

from serveplane import pod
from serveplane.clock import SYSTEM, Clock, parse_timestamp
from serveplane.dataplane.storage.connection import Connections, Headers, Trust
from serveplane.dataplane.storage.errors import Forbidden, StorageError

METADATA = "http://169.254.169.254"
_EARLY = timedelta(minutes=5)
_SHORT = 1 << 20


@dataclass(frozen=True)
class Credentials:
    key: str
    secret: str
    token: str = ""
    expires: datetime | None = None


Provider = Callable[[], Credentials | None]


class Signer:
    """Adds the Authorization header; renews temporary credentials before they end. Threads share one."""

    def __init__(self, provider: Provider, region: str, service: str = "s3", clock: Clock = SYSTEM) -> None:
        self._provider, self._region, self._service, self._clock = provider, region, service, clock
        self._lock = threading.Lock()
        self._credentials: Credentials | None = None
        self._keys: dict[tuple[str, str], bytes] = {}

    def __call__(self, method: str, url: str, headers: Headers) -> Headers:
        credentials, now = self._current(), self._clock.now()
        if credentials is None:
            return headers
        signed = {"host": _host(url), "x-amz-content-sha256": "UNSIGNED-PAYLOAD", "x-amz-date": now.strftime("%Y%m%dT%H%M%SZ")}
        if credentials.token:
            signed["x-amz-security-token"] = credentials.token
        authorization = self._authorization(method, url, signed, credentials, now)
        return {**headers, **{name: value for name, value in signed.items() if name != "host"}, "Authorization": authorization}

    def _current(self) -> Credentials | None:
        with self._lock:
            known = self._credentials
            if known is None or (known.expires is not None and known.expires - self._clock.now() < _EARLY):
                self._credentials = self._provider()
            return self._credentials

    def _authorization(self, method: str, url: str, signed: dict[str, str], credentials: Credentials, now: datetime) -> str:
        parts, names = urlsplit(url), ";".join(sorted(signed))
        query = "&".join(
            f"{quote(name, safe='~')}={quote(value, safe='~')}"
            for name, value in sorted(parse_qsl(parts.query, keep_blank_values=True))
        )
        lines = "".join(f"{name}:{signed[name].strip()}\n" for name in sorted(signed))
        canonical = "\n".join((method, quote(unquote(parts.path or "/"), safe="/~"), query, lines, names, signed["x-amz-content-sha256"]))
        day = now.strftime("%Y%m%d")
        scope = f"{day}/{self._region}/{self._service}/aws4_request"
        to_sign = "\n".join(("AWS4-HMAC-SHA256", signed["x-amz-date"], scope, hashlib.sha256(canonical.encode()).hexdigest()))
        signature = hmac.digest(self._key(credentials.secret, day), to_sign.encode(), "sha256").hex()
        return f"AWS4-HMAC-SHA256 Credential={credentials.key}/{scope}, SignedHeaders={names}, Signature={signature}"

    def _key(self, secret: str, day: str) -> bytes:
        if (secret, day) not in self._keys:
            key = ("AWS4" + secret).encode()
            for part in (day, self._region, self._service, "aws4_request"):
                key = hmac.digest(key, part.encode(), "sha256")
            self._keys[secret, day] = key
        return self._keys[secret, day]


def provider(environment: Mapping[str, str], trust: Trust) -> Provider:
    """The usual places, in the usual order: keys, web identity (EKS), container credentials, shared file, the machine's role."""
    get = environment.get
    if get("AWS_ACCESS_KEY_ID") and get("AWS_SECRET_ACCESS_KEY"):
        given = Credentials(environment["AWS_ACCESS_KEY_ID"], environment["AWS_SECRET_ACCESS_KEY"], get("AWS_SESSION_TOKEN", ""))
        return lambda: given
    if get("AWS_WEB_IDENTITY_TOKEN_FILE") and get("AWS_ROLE_ARN"):
        return lambda: _web_identity(environment, trust)
    if get("AWS_CONTAINER_CREDENTIALS_FULL_URI") or get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"):
        return lambda: _container(environment, trust)
    if (shared := _shared_file(environment)) is not None:
        return lambda: shared
    return (lambda: None) if get("AWS_EC2_METADATA_DISABLED", "").casefold() == "true" else _machine_role


def _web_identity(environment: Mapping[str, str], trust: Trust) -> Credentials:
    token = Path(pod.real_path(environment["AWS_WEB_IDENTITY_TOKEN_FILE"])).read_text().strip()
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or "us-east-1"
    endpoint = environment.get("AWS_ENDPOINT_URL_STS") or f"https://sts.{region}.amazonaws.com"
    form = urlencode(
        {
            "Action": "AssumeRoleWithWebIdentity",
            "Version": "2011-06-15",
            "RoleArn": environment["AWS_ROLE_ARN"],
            "RoleSessionName": environment.get("AWS_ROLE_SESSION_NAME", "storage-initializer"),
            "WebIdentityToken": token,
        }
    ).encode()
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
    answer = _fetched_json(Connections(trust), "POST", endpoint, headers, form)
    found = answer["AssumeRoleWithWebIdentityResponse"]["AssumeRoleWithWebIdentityResult"]["Credentials"]
    expires = found["Expiration"]
    moment = parse_timestamp(expires) if isinstance(expires, str) else datetime.fromtimestamp(float(expires), SYSTEM.now().tzinfo)
    return Credentials(found["AccessKeyId"], found["SecretAccessKey"], found["SessionToken"], moment)


def _container(environment: Mapping[str, str], trust: Trust) -> Credentials:
    url = (
        environment.get("AWS_CONTAINER_CREDENTIALS_FULL_URI")
        or "http://169.254.170.2" + environment["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"]
    )
    token = environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN", "")
    if file := environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"):
        token = Path(pod.real_path(file)).read_text().strip()
    return _temporary(_fetched_json(Connections(trust, 5.0), "GET", url, {"Authorization": token} if token else {}))


def _machine_role() -> Credentials | None:
    """The role of the node; a machine that is none of Amazon's simply does not answer."""
    connections = Connections(timeout=1.0)
    try:
        ttl = {"X-aws-ec2-metadata-token-ttl-seconds": "21600"}
        session = {"X-aws-ec2-metadata-token": connections.request("PUT", f"{METADATA}/latest/api/token", ttl).read(_SHORT).decode()}
        base = f"{METADATA}/latest/meta-data/iam/security-credentials/"
        role = connections.get(base, session).read(_SHORT).decode().split()[0]
        return _temporary(_fetched_json(connections, "GET", base + role, session))
    except (StorageError, OSError, IndexError):
        return None
    finally:
        connections.close()


def _temporary(answer: Any) -> Credentials:
    return Credentials(answer["AccessKeyId"], answer["SecretAccessKey"], answer.get("Token", ""), parse_timestamp(answer["Expiration"]))


def _shared_file(environment: Mapping[str, str]) -> Credentials | None:
    path = Path(environment.get("AWS_SHARED_CREDENTIALS_FILE") or os.path.expanduser("~/.aws/credentials"))
    if not path.is_file():
        return None
    import configparser
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(path)
    profile = environment.get("AWS_PROFILE", "default")
    if not parser.has_option(profile, "aws_access_key_id"):
        return None
    section = parser[profile]
    return Credentials(section["aws_access_key_id"], section.get("aws_secret_access_key", ""), section.get("aws_session_token", ""))


def _fetched_json(connections: Connections, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None) -> Any:
    try:
        return msgspec.json.decode(connections.request(method, url, headers, body).read(_SHORT))
    except msgspec.DecodeError:
        raise Forbidden("AWS credentials cannot be had: the token service did not answer with JSON") from None


def _host(url: str) -> str:
    parts = urlsplit(url)
    default = {"http": 80, "https": 443}[parts.scheme]
    return (parts.hostname or "") + (f":{parts.port}" if parts.port and parts.port != default else "")
