"""scikit-learn is imported without scipy's statistics, which are there all the same for whoever asks. In processes of their own:
the tests beside this one have long imported everything."""
import subprocess
import sys

import pytest

START = """
import sys
from serveplane.dataplane.modelserver.formats.light_scipy import defer_statistics
defer_statistics()
loaded = lambda: "scipy.stats._continuous_distns" in sys.modules
"""


@pytest.mark.parametrize("program", [
    "import sklearn.svm; assert not loaded(); from sklearn.metrics._ranking import rankdata as rank; assert list(rank([3, 1])) == [2, 1]",
    "import scipy.stats; assert not loaded(); assert scipy.stats.norm.cdf(0) == 0.5; assert type(scipy.stats) is type(sys)",
    "from scipy.stats import norm; assert loaded()",
    "import scipy.stats.mstats; from scipy import stats; assert stats.mstats.gmean and not hasattr(stats, 'nothing')",
], ids=["promised", "attribute", "by name", "a module inside"])
def test_the_stand_in_becomes_the_module(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", START + program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
