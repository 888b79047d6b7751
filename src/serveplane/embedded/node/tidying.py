"""Folders of pods and volumes that were deleted while this node was away. Looked for once, at the start.

Only names that this node itself gives are touched: pods by uid, logs by namespace, name and uid, volumes made for claims.
"""
import logging
import shutil
from pathlib import Path

from serveplane.embedded.node.context import NodeContext
from serveplane.kube.kind import Kind

POD, VOLUME = Kind("v1", "Pod"), Kind("v1", "PersistentVolume")
MADE_FOR_CLAIMS = "var/lib/serveplane/volumes"

log = logging.getLogger(__name__)


async def remove_forgotten(context: NodeContext) -> int:
    """Remove what no object stands for any more; how many folders went."""
    pods = await context.client.list(POD, fields=f"spec.nodeName={context.name}")
    uids = {pod["metadata"]["uid"] for pod in pods}
    gone = [folder for folder in _folders(context.folder / "pods") if folder.name not in uids]
    gone += [folder for folder in _folders(context.folder / "logs") if folder.name.rpartition("_")[2] not in uids]
    made = _folders(context.host_root / MADE_FOR_CLAIMS) if context.host_root else []
    if made:
        names = {volume["metadata"]["name"] for volume in await context.client.list(VOLUME)}
        gone += [folder for folder in made if folder.name.startswith("pvc-") and folder.name not in names]
    for folder in gone:
        log.info("removing %s: nothing in the cluster stands for it", folder)
        shutil.rmtree(folder, ignore_errors=True)
    return len(gone)


def _folders(place: Path) -> list[Path]:
    return [entry for entry in place.iterdir() if entry.is_dir() and not entry.is_symlink()] if place.is_dir() else []
