"""What the host relies on in a contribution to pods."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kaiwo.api.workload import Workload
from kaiwo.plugin.facts import Allocation
from kaiwo.plugin.rendering import RenderInput, Resolved
from kaiwo.testing.assertions import require
from kaiwo.testing.pure import pure_result
from kaiwo.workload.errors import PluginError
from kaiwo.workload.metadata import system_labels
from kaiwo.workload.pods.contributions import contributed
from kaiwo.workload.pods.origins import Origins

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pydantic import BaseModel

    from kaiwo.engine.resource import Object
    from kaiwo.plugin.rendering import PodContribution


def assert_contribution_contract(
    contribution: PodContribution,
    workloads: Sequence[Object],
    *,
    templates: Sequence[Object] = (),
    settings: Sequence[BaseModel] = (),
) -> None:
    """Check a contribution with workloads and with pod templates that users embed.

    It is pure. It removes no container, adds no null, and leaves the labels of Kaiwo, as well as image,
    command and arguments of every container. What a template has, it keeps: the user's values win.

    Args:
        contribution: the contribution.
        workloads: at least one workload.
        templates: pod templates as users write them, beside one with a single container.
        settings: settings of the plugin, beside the defaults.

    Raises:
        AssertionError: what does not hold, with the workload's name.
    """
    require(workloads, "give at least one workload")
    container = {"name": "workload", "image": "registry.example/train:1", "command": ["python", "train.py"]}
    plain: Object = {"spec": {"containers": [container]}}
    defaults = [contribution.settings()] if contribution.settings else [None]
    for given in workloads:
        workload = Workload.from_object(given)
        for template in (plain, *templates):
            for chosen in (*defaults, *settings):
                _check(contribution, workload, template, chosen)


def _check(
    contribution: PodContribution, workload: Workload, template: Object, settings: BaseModel | None
) -> None:
    metadata = template.get("metadata", {})
    labels = {**metadata.get("labels", {}), **system_labels(workload)}
    before = {**template, "metadata": {**metadata, "labels": labels}}
    given = RenderInput(workload, Resolved(Allocation()), settings=settings)
    where = f"{workload.name}: {contribution.name}"
    after = pure_result(where, contribution.contribute, given, before)
    try:
        # The host's own checks of the result; it is given as it is.
        fixed = replace(contribution, contribute=lambda _inp, _template: after, settings=None)
        contributed(replace(given, contributions=(fixed,)), before, "spec.template", Origins())
    except PluginError as error:
        raise AssertionError(f"{where}: {error}") from error
    for path in _overwritten(before, after, ""):
        raise AssertionError(f"{where} changed or removed {path}, which the user wrote")


def _overwritten(before: Any, after: Any, path: str) -> Iterator[str]:
    """Where a value of the template is not there any more; items of lists may be joined by others."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in before.items():
            yield from _overwritten(value, after.get(key), f"{path}.{key}".lstrip("."))
    elif isinstance(before, list) and isinstance(after, list):
        for position, item in enumerate(before):
            named = isinstance(item, dict) and "name" in item
            same = [
                other
                for other in after
                if other == item or (named and isinstance(other, dict) and other.get("name") == item["name"])
            ]
            if not same:
                yield f"{path}[{position}]"
            elif named:
                yield from _overwritten(item, same[0], f"{path}[{position}]")
    elif before != after:
        yield path
