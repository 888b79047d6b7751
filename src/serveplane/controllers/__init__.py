"""The controllers, one folder per kind: gather, decide, apply, one status write."""
