"""KServe's control plane in Python: the same API, child objects and programs, and a one-machine Kubernetes to run them on."""

__version__ = "0.1.0"
