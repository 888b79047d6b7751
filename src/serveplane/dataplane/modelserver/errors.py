"""Why a request or a model failed, as the HTTP status that says so."""


class ServingError(Exception):
    """Anything a client is told in one sentence.

    ServingError          500, the model itself is at fault
    ├── InvalidInput      400, the request is at fault; the message starts with the path of the mistake
    ├── ModelNotFound     404
    ├── NotSupported      501, the model has no such verb
    ├── ModelNotReady     503, loading, unloaded or failed to load
    ├── Overloaded        503 with Retry-After, the queue is full
    └── CannotLoad        500, why a model cannot be served at all; ends up in the status of its InferenceService
    """

    status = 500


class InvalidInput(ServingError):
    status = 400

    def __init__(self, reason: str, at: str = "") -> None:
        super().__init__(f"{at}: {reason}" if at else reason)


class ModelNotFound(ServingError):
    status = 404

    def __init__(self, name: str) -> None:
        super().__init__(f"Model with name {name} does not exist.")


class NotSupported(ServingError):
    status = 501


class ModelNotReady(ServingError):
    status = 503

    def __init__(self, name: str, detail: str = "") -> None:
        super().__init__(f"Model with name {name} is not ready." + (f" {detail}" if detail else ""))


class Overloaded(ServingError):
    status = 503
    retry_after = 1


class CannotLoad(ServingError):
    """A model that cannot be served, with what to do about it."""
