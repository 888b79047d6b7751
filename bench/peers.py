"""Virtual environments for the programs that we are measured and tested beside: each its own, kept in the user's cache folder."""
import hashlib
import os
import subprocess
import sys
from pathlib import Path

CACHE = Path(os.environ.get("SERVEPLANE_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "serveplane")
KSERVE = ("kserve==0.21.0", "scikit-learn==1.9.1")
KSERVE_STORAGE = ("kserve-storage==0.21.0",)
OBSTORE = ("obstore==0.12.1",)
MLSERVER = ("mlserver==1.7.1", "mlserver-sklearn==1.7.1")
TRITON = ("tritonclient[all]==2.73.0",)


def environment(packages: tuple[str, ...]) -> Path | None:
    """The python of an environment with these packages; made once, None if they cannot be installed here."""
    folder = CACHE / ("peer-" + hashlib.sha256("\n".join((sys.version, *packages)).encode()).hexdigest()[:16])
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        try:
            subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True, capture_output=True)
            install = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--retries", "1", "--timeout", "20", *packages]
            subprocess.run(install, check=True, capture_output=True, timeout=400)
            subprocess.run([python, "-m", "compileall", "-q", folder / "lib"], check=False, capture_output=True)
        except (subprocess.SubprocessError, OSError):
            return None
        (folder / "complete").touch()
    return python
