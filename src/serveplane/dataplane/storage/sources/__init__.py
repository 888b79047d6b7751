"""Which URI is read by what. Modules are imported when their scheme is met."""
import importlib
import os
import re
from collections.abc import Mapping

from serveplane.dataplane.storage.errors import StorageError
from serveplane.dataplane.storage.files import Listing, Patterns

_BY_PREFIX = {
    "s3://": "s3", "gs://": "gcs", "hf://": "huggingface", "oci://": "oci", "oci+fetch://": "oci",
    "hdfs://": "hdfs", "webhdfs://": "hdfs", "modelscope://": "unsupported", "pvc://": "unsupported",
}
_AZURE_BLOB = re.compile(r"https://[^/]+?\.(blob\.core\.windows\.net|z\d{1,2}\.blob\.storage\.azure\.net)/.+")
_AZURE_FILE = re.compile(r"https://[^/]+?\.(file\.core\.windows\.net|z\d{1,2}\.file\.storage\.azure\.net)/.+")
_GIT = re.compile(r"https://.+\.git(\?.*)?$")


def listing(uri: str, patterns: Patterns, environment: Mapping[str, str] = os.environ) -> Listing:
    """What is to be read for this URI, asked of the source itself."""
    module = importlib.import_module(f"serveplane.dataplane.storage.sources.{reader(uri)}")
    found: Listing = module.listing(uri, patterns, environment)
    return found


def reader(uri: str) -> str:
    """The name of the module that reads it.

    >>> [reader(uri) for uri in ("s3://b/k", "https://a.blob.core.windows.net/c/k", "https://host/m.joblib")]
    ['s3', 'azure', 'web']
    """
    for prefix, name in _BY_PREFIX.items():
        if uri.startswith(prefix):
            return name
    if _AZURE_BLOB.match(uri):
        return "azure"
    if _AZURE_FILE.match(uri) or _GIT.match(uri):
        return "unsupported"
    if uri.startswith(("http://", "https://")):
        return "web"
    scheme = uri.partition("://")[0]
    raise StorageError(f"no storage has the scheme {scheme}://; there are file, http, https, s3, gs, hf and oci")
