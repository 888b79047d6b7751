"""A process that ends with the one that started it, even if that one was killed without a word.

Only Linux can promise this. Elsewhere nothing happens here, and whoever must not be left alone needs another sign of it.
"""
import ctypes
import signal
import sys

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None   # loaded here: between fork and exec it is too late


def die_with_parent() -> None:
    """From now on; a parent that is gone already is not noticed. Fit to be a `preexec_fn`."""
    if LIBC is not None:
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
