"""HDFS. No Python client of it is maintained well enough to be trusted with Kerberos keytabs, so it is refused with a way out."""
from collections.abc import Mapping

from serveplane.dataplane.storage.errors import StorageError
from serveplane.dataplane.storage.files import Listing, Patterns


def listing(uri: str, patterns: Patterns, environment: Mapping[str, str]) -> Listing:
    raise StorageError("hdfs:// and webhdfs:// cannot be downloaded by this storage initializer; bring your own by a "
                       "ClusterStorageContainer that supports the prefix, or copy the model to s3:// or a PersistentVolumeClaim")
