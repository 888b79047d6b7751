"""One HTTP engine for everything that serves, calls or proxies: HTTP/1.1 by httptools on uvloop, small, strict and bounded."""
from serveplane.http.client import Client
from serveplane.http.client_connection import ClientResponse
from serveplane.http.errors import (
    BadResponse,
    ClientError,
    ClientTimeout,
    ConnectFailed,
    ConnectionLost,
    HttpError,
    PayloadTooLarge,
    PoolExhausted,
    ProtocolViolation,
    StatusError,
)
from serveplane.http.headers import Headers
from serveplane.http.limits import ClientLimits, Limits, Timeouts
from serveplane.http.loop import run
from serveplane.http.messages import Handler, Later, Peer, Request, Response, Upgrade
from serveplane.http.metrics import Metrics
from serveplane.http.origin import Origin
from serveplane.http.router import Router
from serveplane.http.server import LOOPBACK_HOSTS, Server, serve
from serveplane.http.tls import ClientTls, TlsConfig
from serveplane.http.tunnel import Tunnel

__all__ = [
    "LOOPBACK_HOSTS", "BadResponse", "Client", "ClientError", "ClientLimits", "ClientResponse", "ClientTimeout", "ClientTls",
    "ConnectFailed", "ConnectionLost", "Handler", "Headers", "HttpError", "Later", "Limits", "Metrics", "Origin", "PayloadTooLarge", "Peer",
    "PoolExhausted", "ProtocolViolation", "Request", "Response", "Router", "Server", "StatusError", "Timeouts", "TlsConfig", "Tunnel",
    "Upgrade", "run", "serve",
]
