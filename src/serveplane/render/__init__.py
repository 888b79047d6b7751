"""Spec and facts in, child objects out. Pure: what is rendered here is the same in the controller, in `plan` and in tests."""
