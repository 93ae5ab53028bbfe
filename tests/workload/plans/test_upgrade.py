"""A new version of the operator over children that an earlier one made, kept as files in ``earlier``."""

from __future__ import annotations

import copy
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

import kaiwo_batch_job.plugin
import kaiwo_deployment.plugin
import kaiwo_gpu_amd.plugin
import kaiwo_ray_job.plugin
import kaiwo_ray_service.plugin
from kaiwo.api.resolved_config import ResolvedConfig
from kaiwo.engine.resource import SERVICE
from kaiwo.testing import node, plugins
from kaiwo.testing.builders import NOW
from kaiwo.workload.gpus.nodes import node_fact
from kaiwo.workload.model import Apply, Create, Facts, Plan, Registry
from kaiwo.workload.plan import plan_object

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object

FILES = sorted((Path(__file__).parent / "earlier").glob("*.yaml"))
REGISTRY = Registry.of(
    plugins(
        kaiwo_batch_job.plugin,
        kaiwo_deployment.plugin,
        kaiwo_gpu_amd.plugin,
        kaiwo_ray_job.plugin,
        kaiwo_ray_service.plugin,
    )
)
NODES = tuple(
    node_fact(node(f"amd-{number}", gpus={"amd.com/gpu": 8}), REGISTRY.vendors) for number in range(2)
)
FACTS = Facts(now=NOW, config=ResolvedConfig.defaults(), nodes=NODES)


def earlier(file: Path) -> tuple[Object, Facts]:
    """A workload and the facts with its child and secondary resources, as an earlier version made them."""
    workload, child, *others = yaml.safe_load_all(file.read_text(encoding="utf-8"))
    for obj in (child, *others):
        obj["metadata"] |= {"uid": f"uid-of-{obj['kind']}", "creationTimestamp": "2026-01-02T03:04:06Z"}
    made = {"childUID": child["metadata"]["uid"], "allocation": {"backend": file.stem.partition("-")[0]}}
    workload["status"] = {"status": "RUNNING", **made}
    live = {(SERVICE, obj["metadata"]["name"]): obj for obj in others}
    made = frozenset(obj["metadata"]["uid"] for obj in (child, *others))
    return workload, dataclasses.replace(FACTS, live=child, made=made, auxiliaries=live)


def plan(workload: Object, facts: Facts) -> Plan:
    """Plan with the current version."""
    return plan_object(copy.deepcopy(workload), REGISTRY, facts)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_new_version_writes_nothing_to_children_that_an_earlier_one_made(file: Path) -> None:
    """No replacement and no rollout: what the templates have gained is for new children."""
    planned = plan(*earlier(file))
    assert planned.writes == ()
    assert planned.outcome is not None
    applied = {condition.type: condition.status for condition in planned.outcome.conditions}
    assert applied["SpecApplied"] == "True"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_new_children_differ_from_what_an_earlier_version_made(file: Path) -> None:
    """Or the test above would hold for any version."""
    workload, facts = earlier(file)
    fresh = {**workload, "status": {"childUID": "gone", "allocation": workload["status"]["allocation"]}}
    (created, *_) = plan(fresh, dataclasses.replace(facts, live=None)).writes
    assert isinstance(created, Create | Apply)
    live: Any = facts.live
    assert created.obj["spec"] != live["spec"]


def test_a_change_is_rolled_out_with_the_templates_that_the_deployment_was_made_with() -> None:
    """The image is new and nothing else: the selector is immutable, and no security context comes with it."""
    workload, facts = earlier(next(file for file in FILES if file.stem == "deployment"))
    workload["spec"]["image"] = "image:2"
    (applied,) = plan(workload, facts).writes
    assert isinstance(applied, Apply)
    wanted: Any = copy.deepcopy(facts.live)
    wanted["spec"]["template"]["spec"]["containers"][0]["image"] = "image:2"
    assert applied.obj["spec"] == wanted["spec"]
