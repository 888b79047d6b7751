"""The data folder of a one-machine cluster: what lies where, whose it is, and whether a cluster runs in it.

The folder is private (0700) and holds everything: objects, keys, kubeconfig, pods, logs. A lock that the system releases
when its holder dies says whether a cluster runs; `state.json` says where it listens.
"""
import contextlib
import fcntl
import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import msgspec

from serveplane.embedded.apiserver.endpoint import check_private

ENVIRONMENT = "SERVEPLANE_DATA"


class ClusterError(Exception):
    """Trouble that ends the command; the text is the one line that the user reads."""


class State(msgspec.Struct):
    """What a running cluster tells about itself."""
    pid: int = 0
    api: str = ""
    gateway: str = ""
    api_port: int = 0
    gateway_port: int = 0
    network: str = ""
    ready: bool = False


def default_folder(environment: Mapping[str, str] = os.environ) -> Path:
    if environment.get(ENVIRONMENT):
        return Path(environment[ENVIRONMENT])
    home = Path(environment.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    return home / "serveplane"


class Folder:
    """Names within the data folder."""

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser().absolute()
        self.kubeconfig = self.path / "kubeconfig"
        self.store = self.path / "store.db"
        self.node = self.path / "node"
        self.images = self.path / "images.toml"
        self.log = self.path / "up.log"
        self._state = self.path / "state.json"
        self._lock: IO[str] | None = None

    def make(self) -> None:
        try:
            check_private(self.path)
        except (OSError, PermissionError) as problem:
            raise ClusterError(f"the data folder {self.path} cannot be used: {problem}") from problem

    def lock(self) -> None:
        """Be the only cluster of this folder, until this process ends."""
        file = (self.path / "lock").open("a+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise ClusterError(f"a cluster already runs in {self.path} (pid {self.state().pid}); "
                               "stop it with `serveplane down`, or choose another folder with --data") from None
        self._lock = file

    def unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def is_running(self) -> bool:
        with contextlib.suppress(OSError), (self.path / "lock").open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return True
        return False

    def state(self) -> State:
        try:
            return msgspec.json.decode(self._state.read_bytes(), type=State)
        except (OSError, msgspec.DecodeError):
            return State()

    def write_state(self, state: State) -> None:
        fresh = self._state.with_suffix(".new")
        fresh.write_bytes(msgspec.json.encode(state))
        fresh.chmod(0o600)
        fresh.replace(self._state)

    def forget_state(self) -> None:
        """The cluster has stopped: its ports and network are remembered for the next time, the rest is not."""
        state = self.state()
        self.write_state(State(api_port=state.api_port, gateway_port=state.gateway_port, network=state.network))


def running(folder: Folder) -> State:
    """The state of the cluster that runs in a folder, or one line saying that none does."""
    if not folder.is_running():
        raise ClusterError(f"no cluster runs in {folder.path}; start one with `serveplane up`")
    return folder.state()
