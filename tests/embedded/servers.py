"""Two API servers, asked the same things: the real one from the testbed, and the embedded one as a program of its own.

The client is the standard library's, so that the judge shares nothing with what is judged.
"""

import http.client
import json
import re
import ssl
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

Json = dict[str, Any]
JSON_PATCH, MERGE = "application/json-patch+json", "application/merge-patch+json"
STRATEGIC, APPLY = "application/strategic-merge-patch+json", "application/apply-patch+yaml"
ADMIN_TOKEN = "suite-admin-token"


class Answer(NamedTuple):
    status: int
    value: Any
    headers: dict[str, str]


@dataclass
class Api:
    """One server as one user."""

    name: str
    url: str
    token: str
    ca: str
    agent: str = "suite/1.0"
    _local: threading.local = field(default_factory=threading.local, repr=False)

    def _connection(self) -> http.client.HTTPSConnection:
        if not hasattr(self._local, "connection"):
            self._local.connection = self.connect()
        return self._local.connection

    def connect(self, timeout: float = 30) -> http.client.HTTPSConnection:
        place = urlsplit(self.url)
        context = ssl.create_default_context(cafile=self.ca)
        return http.client.HTTPSConnection(place.hostname or "", place.port, context=context, timeout=timeout)

    def headers(self, content: str = "") -> dict[str, str]:
        found = {"User-Agent": self.agent, "Accept": "application/json"}
        if self.token:
            found["Authorization"] = f"Bearer {self.token}"
        return found | ({"Content-Type": content} if content else {})

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        content: str = "application/json",
        headers: dict[str, str] | None = None,
        **query: str,
    ) -> Answer:
        data = (
            body
            if isinstance(body, bytes)
            else None
            if body is None
            else json.dumps(body, separators=(",", ":")).encode()
        )
        target = path + (f"?{urlencode(query)}" if query else "")
        for attempt in (1, 2):
            connection = self._connection()
            try:
                connection.request(
                    method, target, data, {**self.headers(content if data is not None else ""), **(headers or {})}
                )
                response = connection.getresponse()
                text = response.read()
                break
            except (http.client.HTTPException, OSError):
                connection.close()
                del self._local.connection
                if attempt == 2:
                    raise
        value = json.loads(text) if text[:1] in (b"{", b"[") else text.decode(errors="replace")
        found: dict[str, str] = {}
        for name, item in response.getheaders():
            found[name.lower()] = f"{found[name.lower()]}, {item}" if name.lower() in found else item
        return Answer(response.status, value, found)

    def watch(self, path: str, seconds: int = 5, accept: str = "application/json", **query: str) -> Iterator[Json]:
        connection = self.connect(timeout=seconds + 10)
        options = urlencode({"watch": "true", "timeoutSeconds": str(seconds), **query})
        connection.request("GET", f"{path}?{options}", headers=self.headers() | {"Accept": accept})
        response = connection.getresponse()
        try:
            if response.status != 200:
                yield {"type": "REFUSED", "object": json.loads(response.read())}
                return
            while line := response.readline():
                yield json.loads(line)
        finally:
            connection.close()


class Embedded:
    """The embedded server as a process; `kill` is the hard way."""

    _options: tuple[str, ...] = ()

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self._options = options
        self.start()

    def command(self) -> list[str]:
        return [sys.executable, "-m", "serveplane.embedded.apiserver"]

    def start(self) -> None:
        options = ["--data", str(self.folder), "--admin-token", ADMIN_TOKEN, *self._options]
        self.process = subprocess.Popen([*self.command(), *options], stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the embedded API server did not start")
        self.place: Json = json.loads(line)

    def api(self, token: str = ADMIN_TOKEN, agent: str = "suite/1.0") -> Api:
        return Api("embedded", self.place["url"], token, self.place["ca"], agent)

    @property
    def kubeconfig(self) -> str:
        return str(self.place["kubeconfig"])

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=20)


# --- what two servers can never have in common, in one table

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_ACCESS = re.compile(r"kube-api-access-[a-z0-9]{5}")
_VERSION = re.compile(r"\(\d+\)")
_CHANGES = re.compile(
    r"((?:pod updates may not change|spec(?:\.persistentvolumesource)? is immutable after creation)[^\n]*)\n.*", re.DOTALL
)
_PATCHED = re.compile(r'(patch: |^)Invalid value: "(?:\{.*\}|map\[.*\])": ', re.DOTALL)
_UNDECLARED = re.compile(r"(failed to create typed patch object \([^)]*\)): .*field not declared in schema.*", re.DOTALL)
_NODE_PORT = re.compile(r"(\d+):3\d{4}/")
_AGE = re.compile(r"^\d+s$")
_GENERATED = re.compile(r"(gen-|Bad_)[a-z0-9]{5}")
_ADDRESS = re.compile(r"10\.\d+\.\d+\.\d+")
REPLACED: dict[str, str] = {
    "uid": "<uid>",
    "resourceVersion": "<version>",
    "nodePort": "<port>",
    "token": "<token>",
    "continue": "<continue>",
    "storageVersionHash": "<hash>",
    "selfLink": "<link>",
    "healthCheckNodePort": "<port>",
    "caBundle": "<ca>",
}
PATTERNS = (
    (_UUID, "<uid>"),
    (_TIME, "<time>"),
    (_ACCESS, "kube-api-access-<letters>"),
    (_ADDRESS, "<address>"),
    (_VERSION, "(<version>)"),
    (_GENERATED, r"\1<letters>"),
    (_CHANGES, r"\1"),
    (_UNDECLARED, r"\1: <undeclared>"),  # the real server stops there, after looking at some other fields of a Go map
    (_AGE, "<age>"),
    (_NODE_PORT, r"\1:<port>/"),
    (_PATCHED, r'\1Invalid value: "<patched>": '),
)


def normal(value: Any) -> Any:
    if isinstance(value, dict):
        found = {
            _text(key): REPLACED[key] if key in REPLACED and item else _member(key, item)
            for key, item in sorted(value.items())
        }
        return _without_order(found)
    if isinstance(value, list):
        return [normal(item) for item in value]
    return _text(value) if isinstance(value, str) else value


def _without_order(found: Json) -> Json:
    """Several faults of one object are told in the order of a Go map; they are compared as causes, so the message need not list them."""
    causes = (found.get("details") or {}).get("causes") if isinstance(found.get("details"), dict) else None
    if found.get("reason") == "Invalid" and causes and len(causes) > 1:
        found["message"] = found["message"].partition(" is invalid: ")[0]
    return found


def _member(key: str, item: Any) -> Any:
    """Causes come in the order of a Go map where several writers are in conflict, that is, in none."""
    found = normal(item)
    if key == "managedFields" and isinstance(found, list):  # by time, and writes of one second here may be of two there
        return sorted(found, key=lambda entry: [str(entry.get(name)) for name in ("operation", "manager", "subresource", "apiVersion")])
    return sorted(found, key=json.dumps) if key == "causes" and isinstance(found, list) else found


def _text(text: str) -> str:
    for pattern, name in PATTERNS:
        text = pattern.sub(name, text)
    return text


def _other_causes(ours: list[Json], real: list[Json], path: str) -> Iterator[str]:
    """One line for each cause that only one of them has."""
    mine, theirs = Counter(map(json.dumps, ours)), Counter(map(json.dumps, real))
    yield from (f"{path}: missing cause {cause}" for cause in sorted((theirs - mine).elements()))
    yield from (f"{path}: cause only here {cause}" for cause in sorted((mine - theirs).elements()))


def differences(ours: Any, real: Any, path: str = "") -> Iterator[str]:
    """Where two normalised values differ, place by place."""
    if isinstance(ours, dict) and isinstance(real, dict):
        for key in sorted({*ours, *real}):
            at = f"{path}.{key}"
            if key == "causes" and key in ours and key in real:
                yield from _other_causes(ours[key], real[key], at)
            elif key not in ours:
                yield f"{at}: missing, the real server has {json.dumps(real[key])[:300]}"
            elif key not in real:
                yield f"{at}: only here: {json.dumps(ours[key])[:300]}"
            else:
                yield from differences(ours[key], real[key], at)
    elif isinstance(ours, list) and isinstance(real, list) and len(ours) == len(real):
        for index, (one, other) in enumerate(zip(ours, real, strict=True)):
            yield from differences(one, other, f"{path}[{index}]")
    elif ours != real or type(ours) is not type(real):
        yield f"{path}: {json.dumps(ours)[:400]} here, {json.dumps(real)[:400]} there"
