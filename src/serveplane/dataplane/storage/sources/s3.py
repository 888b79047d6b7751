"""S3 and everything that speaks its protocol, by the environment that KServe's webhook writes."""
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from serveplane.dataplane.storage.connection import Authorize, Connections, Response, Trust, no_credentials, words_of
from serveplane.dataplane.storage.errors import StorageError, refusal
from serveplane.dataplane.storage.files import Checksum, Listing, Patterns, RemoteFile, below, checked
from serveplane.dataplane.storage.sources.aws import Signer, provider
from serveplane.dataplane.storage.sources.spec import with_storage_spec
from serveplane.dataplane.storage.sources.trust import trust_from

_PAGE_BYTES = 16 << 20
_ELSEWHERE = (301, 307, 400, 403)       # how a bucket of another region may answer, with that region in a header
_REGION = re.compile(r"[a-z0-9-]{2,32}")
_MD5 = re.compile(r"[0-9a-f]{32}")


class Elsewhere(Exception):
    """The bucket is in another region than the one asked: each signs for itself."""

    def __init__(self, region: str) -> None:
        super().__init__(region)
        self.region = region


def listing(uri: str, patterns: Patterns, environment: Mapping[str, str]) -> Listing:
    environment = with_storage_spec(environment)
    try:
        return _listing(uri, patterns, environment)
    except Elsewhere as found:
        try:
            return _listing(uri, patterns, {**environment, "AWS_REGION": found.region})
        except Elsewhere:
            raise StorageError(f"{uri}: its region cannot be found out") from None


def _listing(uri: str, patterns: Patterns, environment: Mapping[str, str]) -> Listing:
    bucket, _, prefix = uri.removeprefix("s3://").partition("/")
    if not bucket:
        raise StorageError(f"{uri} names no bucket")
    prefix = prefix.lstrip("/")
    trust, base = trust_of(environment), base_url(bucket, environment)
    authorize = _authorize(environment, trust)
    objects = list(_objects(base, prefix.rstrip("/"), authorize, trust, region_of(environment)))
    exact = [file for file in objects if file.path == prefix]
    files = [_placed(file, prefix) for file in exact or objects]
    return Listing(checked([file for file in files if file is not None], Patterns() if exact else patterns, uri), authorize, trust)


def base_url(bucket: str, environment: Mapping[str, str]) -> str:
    """Where the bucket is: the given endpoint by path, or Amazon's by host name."""
    region = region_of(environment)
    endpoint = environment.get("AWS_ENDPOINT_URL") or _legacy_endpoint(environment)
    if environment.get("S3_USE_ACCELERATE", "").casefold() == "true":
        return f"https://{bucket}.s3-accelerate.amazonaws.com"
    if not endpoint or endpoint.rstrip("/") == "https://s3.amazonaws.com":
        endpoint = f"https://s3.{region}.amazonaws.com"
        virtual = "." not in bucket   # a dot would not match Amazon's certificate
    else:
        virtual = environment.get("S3_USER_VIRTUAL_BUCKET", "").casefold() == "true"
    parts = urlsplit(endpoint.rstrip("/"))
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise StorageError(f"AWS_ENDPOINT_URL must be an http(s) address, not {endpoint[:100]!r}")
    return (
        f"{parts.scheme}://{bucket}.{parts.netloc}{parts.path}"
        if virtual
        else f"{parts.scheme}://{parts.netloc}{parts.path}/{quote(bucket)}"
    )


def region_of(environment: Mapping[str, str]) -> str:
    return environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or "us-east-1"


def trust_of(environment: Mapping[str, str]) -> Trust:
    verify = environment.get("S3_VERIFY_SSL", "").casefold() not in ("0", "false")
    return trust_from(environment, verify, environment.get("AWS_CA_BUNDLE", ""))


def _legacy_endpoint(environment: Mapping[str, str]) -> str:
    host = environment.get("S3_ENDPOINT", "")
    return f"{'http' if environment.get('S3_USE_HTTPS', '1') in ('0', 'false') else 'https'}://{host}" if host else ""


def _authorize(environment: Mapping[str, str], trust: Trust) -> Authorize:
    if environment.get("awsAnonymousCredential", "").casefold() == "true":
        return no_credentials
    return Signer(provider(environment, trust), region_of(environment))


def _objects(base: str, prefix: str, authorize: Authorize, trust: Trust, region: str) -> Iterator[RemoteFile]:
    """Every object whose key begins with the prefix, page by page."""
    import xml.etree.ElementTree as ElementTree
    connections, token = Connections(trust), ""
    try:
        while True:
            query = {"list-type": "2", "prefix": prefix, **({"continuation-token": token} if token else {})}
            response = connections.get(f"{base}?{urlencode(query)}", authorize=authorize, accept=(200, *_ELSEWHERE))
            _check_region(response, region)
            answer = response.read(_PAGE_BYTES)
            try:
                page = ElementTree.fromstring(answer)
            except ElementTree.ParseError as error:
                raise StorageError(f"the listing of the bucket is not XML: {error}") from error
            for found in page.iterfind("{*}Contents"):
                if (file := _file(base, found)) is not None:
                    yield file
            token = page.findtext("{*}NextContinuationToken") or ""
            if not token:
                return
    finally:
        connections.close()


def _check_region(response: Response, asked: str) -> None:
    if response.status not in _ELSEWHERE:
        return
    region = response.header("x-amz-bucket-region")
    if _REGION.fullmatch(region) and region != asked:
        raise Elsewhere(region)
    raise refusal(response.status, response.url, words_of(response))


def _file(base: str, found: Any) -> RemoteFile | None:
    key, size = found.findtext("{*}Key") or "", int(found.findtext("{*}Size") or 0)
    if key.endswith("/") or size == 0:   # folders' markers, and what KServe leaves out too
        return None
    etag = (found.findtext("{*}ETag") or "").strip('"')
    return RemoteFile(
        key,
        f"{base}/{quote(key, safe='/~')}",
        size,
        etag=etag,
        checksum=Checksum("md5", etag) if _MD5.fullmatch(etag) else None,
    )


def _placed(file: RemoteFile, prefix: str) -> RemoteFile | None:
    path = below(file.path, prefix)
    return None if path is None else RemoteFile(path, file.url, file.size, etag=file.etag, checksum=file.checksum)
