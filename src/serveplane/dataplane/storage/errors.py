"""Why a download failed, in one sentence that holds no secret."""
from urllib.parse import urlsplit


class StorageError(Exception):
    """
    StorageError        the URI, the settings or the content is at fault: trying again does not help
    ├── NotFound        no such object, bucket, repository
    ├── Forbidden       credentials are missing, wrong or not enough
    ├── Unsafe          an archive or a listing that tries to leave its folder or to fill the disk
    ├── Changed         the source changed while it was read
    ├── Corrupt         the checksum does not match
    ├── DeadlineOver
    └── Interrupted     the connection broke, stalled or the server was busy: try again
    """


class NotFound(StorageError):
    pass


class Forbidden(StorageError):
    pass


class Unsafe(StorageError):
    pass


class Changed(StorageError):
    pass


class Corrupt(StorageError):
    pass


class DeadlineOver(StorageError):
    pass


class Interrupted(StorageError):
    pass


def shown(url: str) -> str:
    """A URL without user, password and query: either may hold a secret (a SAS token is a query).

    >>> shown("https://me:pw@host/a/b?sig=secret")
    'https://host/a/b'
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    return f"{parts.scheme}://{host}{f':{parts.port}' if parts.port else ''}{parts.path}" if host else url.partition("?")[0]


def refusal(status: int, url: str, said: str = "") -> StorageError:
    """What an HTTP status means for a download."""
    where = f"{shown(url)} answered {status}" + (f": {said}" if said else "")
    if status in (401, 403):
        return Forbidden(f"{where}; check the credentials of the service account")
    if status in (404, 410):
        return NotFound(where)
    if status in (408, 425, 429) or status >= 500:
        return Interrupted(where)
    if status == 412:
        return Changed(f"{where}: it changed while it was being downloaded")
    return StorageError(where)
