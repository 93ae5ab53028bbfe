"""Each part of the plugin follows the settings that it is given."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
import yaml

import kaiwo_batch_job.plugin
from kaiwo import testing
from kaiwo.api.errors import InvalidConfig
from kaiwo.api.workload import Workload
from kaiwo.plugin.lifecycle import Transition
from kaiwo.plugin.observation import Observation
from kaiwo.testing.builders import NOW
from kaiwo_site_defaults import plugin
from kaiwo_site_defaults.announcer import notify
from kaiwo_site_defaults.settings import SiteSettings

if TYPE_CHECKING:
    from kaiwo.plugin.registry import Plugins

PROXY = "http://proxy.example:3128"


@pytest.fixture
def loaded() -> Plugins:
    """This plugin, and one that runs jobs."""
    return testing.plugins(plugin, kaiwo_batch_job.plugin)


def env(loaded: Plugins, section: dict[str, Any], **spec: Any) -> list[dict[str, Any]]:
    """The proxy in a job's container."""
    config = testing.config(plugins={"site_defaults": section})
    child = yaml.safe_load(testing.render(testing.job(**spec), loaded, config=config))
    (container,) = child["spec"]["template"]["spec"]["containers"]
    return [item for item in container["env"] if item["name"] == "HTTPS_PROXY"]


def test_pods_get_the_proxy_of_the_settings(loaded: Plugins) -> None:
    """None without a setting; a variable of the user's stays as it is."""
    own = {"name": "HTTPS_PROXY", "value": "http://mine"}
    assert env(loaded, {}) == []
    assert env(loaded, {"httpsProxy": PROXY}) == [{"name": "HTTPS_PROXY", "value": PROXY}]
    assert env(loaded, {"httpsProxy": PROXY}, env=[own]) == [own]


def test_a_setting_of_the_wrong_type_is_named_with_its_field(loaded: Plugins) -> None:
    """As the operator and ``kaiwo plan`` say it."""
    with pytest.raises(InvalidConfig, match=r"^spec\.plugins\.site_defaults\.restartLimit: "):
        env(loaded, {"restartLimit": "often"})


def test_only_chosen_transitions_are_announced(caplog: pytest.LogCaptureFixture) -> None:
    """By the settings of the moment."""
    done = Transition(
        "KaiwoJob", "team", "train", "u", "RUNNING", "COMPLETE", "Done", "done", datetime.now(UTC)
    )
    asyncio.run(notify(done, SiteSettings()))
    assert caplog.messages == []
    asyncio.run(notify(done, SiteSettings(announce=["COMPLETE"])))
    assert caplog.messages == ["KaiwoJob team/train is COMPLETE: done"]


@pytest.mark.parametrize(("limit", "reason"), [(3, "RestartsTooOften"), (4, None)])
def test_restarts_are_a_finding_from_the_limit_on(limit: int, reason: str | None) -> None:
    """The limit itself counts."""
    pod = {
        "metadata": {"name": "train-x"},
        "status": {"containerStatuses": [{"name": "main", "restartCount": 3}]},
    }
    seen = Observation(
        Workload.from_object(testing.job()), {}, (pod,), None, queued=False, now=NOW,
        settings=SiteSettings(restart_limit=limit),
    )  # fmt: skip
    found = plugin.diagnose(seen)
    assert (found.reason if found else None) == reason
