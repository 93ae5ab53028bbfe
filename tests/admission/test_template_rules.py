"""The rules for embedded pod templates without a cluster; the policy is compared with them on a real one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kaiwo.admission.template_rules import RULES, broken_rules
from kaiwo.engine.resource import JOB
from kaiwo.plugin.backends import Backend

LISTED = Backend("acme", "KaiwoJob", JOB, (), pod_templates=(("run", "steps", "*", "template"),))
NAMES = ["run", "steps", "template", "spec", *{name for rule in RULES for name in rule.path}]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "default", "system-x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
)


def listed(*pods: object) -> object:
    """A spec with these embedded pod specs."""
    return {"run": {"steps": [{"template": {"spec": pod}} for pod in pods]}}


@given(JSON)
def test_no_shape_makes_the_rules_fail(value: object) -> None:
    """Whatever a user writes is judged without an error, as a spec and as a pod's spec."""
    broken_rules("KaiwoJob", value, [LISTED])
    broken_rules("KaiwoJob", listed(value), [LISTED])


def test_each_broken_rule_is_reported_once() -> None:
    """Several templates of a list are one line in the message."""
    pod = {"hostPID": True, "nodeName": "a"}
    at = "spec.run.steps[*].template.spec"
    found = [message.partition(":")[0] for message in broken_rules("KaiwoJob", listed(pod, pod), [LISTED])]
    assert found == [f"{at}.hostPID", f"{at}.nodeName"]


def test_a_number_is_no_boolean() -> None:
    """Only what Kubernetes takes as switched off passes."""
    assert broken_rules("KaiwoJob", listed({"hostPID": 0}), [LISTED])
    assert broken_rules("KaiwoJob", listed({"hostPID": False}), [LISTED]) == []


def test_another_kind_has_other_blocks() -> None:
    """A backend's places count for its own kind only."""
    assert broken_rules("KaiwoService", listed({"hostPID": True}), [LISTED]) == []
