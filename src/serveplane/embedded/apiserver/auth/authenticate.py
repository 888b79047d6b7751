"""Who is calling: a client certificate, a token, somebody acting for somebody else, or nobody."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import unquote

from serveplane.embedded.apiserver import errors
from serveplane.embedded.apiserver.auth import tokens
from serveplane.embedded.apiserver.auth.rbac import Attributes
from serveplane.embedded.apiserver.request import ANONYMOUS, User
from serveplane.http import Peer

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.core import Core

AUTHENTICATED, AUTHENTICATION = "system:authenticated", "authentication.k8s.io"
MOST_TOKENS = 4096


class Authenticator:
    """Signatures are checked once per token and remembered; whether account and pod still live is checked every time."""

    def __init__(self, core: "Core", signer: tokens.Signer) -> None:
        self._core = core
        self.signer = signer
        self._claims: dict[str, dict[str, object]] = {}
        self._static: dict[str, User] = {}

    def add_static(self, token: str, user: User) -> None:
        """A token known from the start, for the cluster's own parts."""
        self._static[token] = user

    def user(self, headers: Mapping[str, str], peer: Peer | None = None) -> User:
        found = self._certificate(peer) or self._bearer(headers.get("authorization", "")) or ANONYMOUS
        if "impersonate-user" in headers:
            return self._impersonated(found, headers)
        if any(name.startswith("impersonate-") for name in headers):
            raise errors.Refusal(500, "", "requested to impersonate without impersonating a user")
        return found

    def _certificate(self, peer: Peer | None) -> User | None:
        if peer is None or not peer.certificate:
            return None
        names = peer.subject.get("commonName") or ()
        if not names:
            raise errors.unauthorized()
        return User(names[-1], (*peer.subject.get("organizationName", ()), AUTHENTICATED))

    def _bearer(self, header: str) -> User | None:
        scheme, _, token = header.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return None
        known = self._static.get(token)
        if known is not None:
            return known
        try:
            verified = self.verified(token.strip())
        except tokens.BadToken:
            raise errors.unauthorized() from None
        if tokens.AUDIENCE not in verified.audiences:
            raise errors.unauthorized()
        return verified.user

    def verified(self, token: str) -> tokens.Verified:
        claims = self._claims.get(token)
        if claims is None:
            claims = self.signer.claims(token)
            if len(self._claims) >= MOST_TOKENS:
                self._claims.clear()
            self._claims[token] = claims
        try:
            return tokens.verified(self._core, claims)
        except (KeyError, TypeError):
            raise tokens.BadToken("invalid bearer token") from None

    def _impersonated(self, user: User, headers: Mapping[str, str]) -> User:
        """`kubectl --as`: allowed where RBAC grants `impersonate` on the user and on every group."""
        name = headers["impersonate-user"]
        groups = tuple(group.strip() for group in headers.get("impersonate-group", "").split(",") if group.strip())
        uid, extra = headers.get("impersonate-uid", ""), dict(_extra(headers))
        wanted = [("users", "", name), *(("groups", "", group) for group in groups)]
        if name.startswith("system:serviceaccount:") and name.count(":") == 3:
            _, _, namespace, account = name.split(":")
            wanted[0] = ("serviceaccounts", namespace, account)
            groups = groups or ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
        for resource, namespace, what in wanted:
            self._check_impersonation(user, Attributes(user, "impersonate", "", resource, "", namespace, what))
        if uid:
            self._check_impersonation(user, Attributes(user, "impersonate", AUTHENTICATION, "uids", "", "", uid))
        for key, items in extra.items():
            for item in items:
                self._check_impersonation(user, Attributes(user, "impersonate", AUTHENTICATION, "userextras", key, "", item))
        known = AUTHENTICATED if name != ANONYMOUS.name else "system:unauthenticated"
        return User(name, tuple(dict.fromkeys((*groups, known))), uid, extra)

    def _check_impersonation(self, user: User, asked: Attributes) -> None:
        if self._core.authorizer.allows(asked):
            return
        resource = f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource
        where = f'in the namespace "{asked.namespace}"' if asked.namespace else "at the cluster scope"
        why = f'User "{user.name}" cannot impersonate resource "{resource}" in API group "{asked.group}" {where}'
        raise errors.forbidden(asked.resource, asked.group, asked.name, why)


def _extra(headers: Mapping[str, str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    prefix = "impersonate-extra-"
    for name, value in headers.items():
        if name.startswith(prefix):
            yield unquote(name.removeprefix(prefix)), tuple(item.strip() for item in value.split(","))
