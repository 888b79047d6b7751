"""Byte streams through the API server: what `kubectl port-forward` speaks, from the upgrade down to a socket of the pod."""
