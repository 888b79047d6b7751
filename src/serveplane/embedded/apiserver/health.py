"""Health, version and the like: what anybody may ask."""

import platform

from serveplane.embedded.apiserver import errors
from serveplane.embedded.apiserver.request import Answer, Request

PATHS = frozenset({"/healthz", "/livez", "/readyz", "/version", "/version/"})
PREFIXES = ("/healthz/", "/livez/", "/readyz/")
VERSION = {
    "major": "1",
    "minor": "34",
    "gitVersion": "v1.34.4+serveplane",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "python",
}


def answer(request: Request) -> Answer:
    if request.path.startswith("/version"):
        machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
        value = {**VERSION, "platform": f"{platform.system().lower()}/{machine}"}
        return Answer(200, errors.encoded(value))
    return Answer(200, b"ok", "text/plain; charset=utf-8")
