"""A played world around a bare control plane: kubelets, Knative, gateways; each may be told to fail."""
from tests.kit.world.engine import World, play
from tests.kit.world.rules import OFF, OUTCOME, RULES, Outcome, Rule, annotation

__all__ = ["OFF", "OUTCOME", "RULES", "Outcome", "Rule", "World", "annotation", "play"]
