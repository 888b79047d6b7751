"""A webhook server over TLS for two API servers at once: what it says is in the object, what it was asked is kept by caller."""

import base64
import json
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.kit import credentials

Json = dict[str, Any]
SAYS = "hook.example.com/says"


class Hooks:
    """`url(api, hook)` is where a server's webhook lives; an object's annotation, or the hook's name, decides its answer."""

    def __init__(self, folder: Path) -> None:
        authority = credentials.Authority(folder)
        pair = authority.server("hook", ["127.0.0.1"])
        self.bundle = base64.b64encode(Path(authority.certificate).read_bytes()).decode()
        self.asked: dict[str, list[Json]] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair.certificate, pair.key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def client(self, api: str, hook: str) -> Json:
        return {"url": f"https://127.0.0.1:{self._server.server_port}/{api}/{hook}", "caBundle": self.bundle}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        hooks = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                _, api, hook = self.path.partition("?")[0].split("/")
                status, body = hooks.answer(api, hook, review)
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None: ...

        return Handler

    def answer(self, api: str, hook: str, review: Json) -> tuple[int, bytes]:
        request = review["request"]
        if hook != "canary":
            self.asked.setdefault(api, []).append({"hook": hook, **request})
        match hook:
            case "silent":
                time.sleep(3)
            case "broken":
                return 500, b"the hook is broken"
            case "garbled":
                return 200, b"<html>"
        response = {"uid": request["uid"], "allowed": True, **self._says(hook, request)}
        return 200, json.dumps({**review, "request": None, "response": response}).encode()

    def _says(self, hook: str, request: Json) -> Json:
        thing = request.get("object") or request.get("oldObject") or {}
        patches = {
            "first": [{"op": "add", "path": "/data/first", "value": str(len(thing.get("data") or {}))}],
            "second": [{"op": "add", "path": "/data/second", "value": "yes"}],
            "bad-patch": [{"op": "replace", "path": "/no/such/place", "value": 1}],
            "wrong-type": [{"op": "add", "path": "/data", "value": {"a": 7}}],
        }
        if hook in patches:
            patch = base64.b64encode(json.dumps(patches[hook]).encode()).decode()
            return {"patchType": "JSONPatch", "patch": patch}
        if hook == "canary":
            return {"allowed": False, "status": {"message": "tweet"}}
        if hook == "other-uid":
            return {"uid": "another"}
        return json.loads((thing.get("metadata", {}).get("annotations") or {}).get(SAYS, "{}"))
