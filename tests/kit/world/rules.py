"""Who in the played world succeeds, and who fails in which way. Rules are data, so that a test can write them on its namespace."""
import enum
import fnmatch
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

Json = dict[str, Any]
RULES = "world.serveplane.test/rules"        # on a Namespace: a JSON list of rules for what lives in it
OUTCOME = "world.serveplane.test/outcome"    # on a pod (or its template): the outcome of this pod
OFF = "world.serveplane.test/off"            # on a Namespace: nothing is played here, somebody else does


class Outcome(enum.StrEnum):
    """What becomes of an object. The first and the last two are for every kind, the others for pods."""
    READY = "ready"
    IMAGE_PULL = "image-pull"                # Pending, ImagePullBackOff
    CRASH_LOOP = "crash-loop"                # CrashLoopBackOff after the exit code and message of the rule
    OUT_OF_MEMORY = "oom"                    # OOMKilled, again and again
    UNSCHEDULABLE = "unschedulable"
    UNBOUND_CLAIM = "unbound-claim"          # unschedulable, because a PersistentVolumeClaim has no volume
    INIT_RUNNING = "init-running"            # the first init container never ends
    INIT_ERROR = "init-error"                # the init container exits with code and message, again and again
    CONFIG_ERROR = "config-error"            # CreateContainerConfigError, such as a missing Secret
    PROBE_FAILING = "probe-failing"          # runs, but is never ready
    FAILED = "failed"                        # the pod ends with the exit code of the rule; for Jobs
    REFUSED = "refused"                      # the owner of this kind says no, with the message of the rule
    NOTHING = "nothing"                      # nobody looks at it


class Rule(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The first rule that matches an object decides. `kind` is "Pod", "HTTPRoute", "Knative" and so on; `name` a shell pattern."""
    outcome: Outcome
    kind: str = "Pod"
    name: str = "*"
    container: str = ""                      # which one fails; the first if empty
    exit_code: int = 1
    message: str = ""


READY = Rule(Outcome.READY)


def parse_rules(text: str) -> list[Rule]:
    return msgspec.json.decode(text, type=list[Rule]) if text else []


def annotation(*rules: Rule) -> dict[str, str]:
    """What to put on a Namespace to have these rules there.

    >>> annotation(Rule(Outcome.CRASH_LOOP, name="iris-*", exit_code=3))
    {'world.serveplane.test/rules': '[{"outcome":"crash-loop","name":"iris-*","exitCode":3}]'}
    """
    return {RULES: msgspec.json.encode(rules).decode()}


def rule_for(obj: Json, kind: str, of_namespace: Iterable[Rule], of_world: Iterable[Rule]) -> Rule:
    own: Mapping[str, str] = obj["metadata"].get("annotations") or {}
    if OUTCOME in own:
        return Rule(Outcome(own[OUTCOME]), kind)
    matching = (rule for rules in (of_namespace, of_world) for rule in rules
                if rule.kind == kind and fnmatch.fnmatchcase(obj["metadata"]["name"], rule.name))
    return next(matching, READY)
