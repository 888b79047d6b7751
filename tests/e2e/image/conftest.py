"""The file tree of the image, built once for the tests that run it."""

import os
import shutil
from pathlib import Path

import pytest

from tests.kit import image


@pytest.fixture(scope="package")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("chroot and mounts need root and util-linux")
    folder = tmp_path_factory.mktemp("image")
    folder.chmod(0o755)
    for parent in folder.parents:  # pytest keeps its folders to itself; another user must be able to walk through
        if parent.name.startswith("pytest-"):
            parent.chmod(0o755)
    image.build(folder, "kserve")
    return folder
