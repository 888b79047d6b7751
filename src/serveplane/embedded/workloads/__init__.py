"""The controllers that turn workloads into pods, on the same library as every other controller here.

Each module holds what it decides as pure functions first, then the small controller that reads, decides and writes.
They know nothing of processes: pods are the node's business.
"""
