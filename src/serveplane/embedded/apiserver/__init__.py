"""A Kubernetes API server in Python: unmodified clients cannot tell it from the real one for what they use.

It knows nothing of any custom kind, and can be used alone: `serveplane.embedded.testing` has the pytest fixture.
"""

from serveplane.embedded.apiserver.request import ADMIN, ANONYMOUS, User
from serveplane.embedded.apiserver.server import ApiServer

__all__ = ["ADMIN", "ANONYMOUS", "ApiServer", "User"]
