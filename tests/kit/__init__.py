"""What tests share: a real control plane, a client that is not the one under test, a played world, faults."""
