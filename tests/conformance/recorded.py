"""Where the recorded cases are."""
import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
GOLDEN = Path(os.environ.get("SERVEPLANE_GOLDEN") or REPOSITORY.parent / "shared" / "golden")
