"""What holds for a workload: the order of the places that say it, and values that cannot be read."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaiwo_gpu_preemption.environment import ProcessSettings
from kaiwo_gpu_preemption.policy import (
    PREFIX,
    VALUES,
    Defaults,
    TrackingPolicy,
    duration_text,
    own_annotations,
    tracking_policy,
)


@pytest.mark.parametrize(
    ("owner", "namespace", "tracked"),
    [
        ({}, {}, False),
        ({"enabled": "true"}, {}, True),
        ({}, {"enabled": "true"}, True),
        ({"threshold": "10"}, {}, True),
        ({}, {"policy": "Always"}, True),
        ({"enabled": "false"}, {"enabled": "true"}, False),
        ({"enabled": "false", "threshold": "10"}, {}, False),
        ({"enabled": "true"}, {"enabled": "false"}, True),
        ({}, {"enabled": "false", "policy": "Always"}, False),
    ],
)
def test_a_workload_is_tracked_where_its_owner_or_else_its_namespace_says_so(
    owner: dict[str, str], namespace: dict[str, str], tracked: bool
) -> None:
    """``enabled`` is implied by any other annotation; the owner's word comes first."""
    assert (tracking_policy(owner, namespace, Defaults()) is not None) is tracked


def test_nothing_that_is_set_gives_the_documented_defaults() -> None:
    """5 %, 10m, OnPressure, Max, 24h."""
    assert tracking_policy({"enabled": "true"}, {}, Defaults()) == TrackingPolicy(
        5.0, timedelta(minutes=10), "OnPressure", "Max", timedelta(hours=24)
    )


SAID = {
    "threshold": ("1", "2", "3", "4"),
    "grace-period": ("1m", "2m", "3m", "4m"),
    "policy": ("Always", "Report", "OnPressure", "Always"),
    "aggregation": ("Min", "Avg", "Max", "Min"),
    "ttl": ("1h", "2h", "3h", "0s"),
}


@pytest.mark.parametrize("name", SAID)
@pytest.mark.parametrize("first", range(4))
def test_the_owner_comes_before_the_namespace_the_config_and_the_environment(name: str, first: int) -> None:
    """Each value by itself."""
    places: list[dict[str, str]] = [{name: SAID[name][place]} if place >= first else {} for place in range(4)]
    found = tracking_policy(
        {"enabled": "true", **places[0]}, places[1], Defaults(config=places[2], environment=places[3])
    )
    assert found is not None
    attribute, read, _ = VALUES[name]
    assert getattr(found, attribute) == read(SAID[name][first])
    assert found.problems == ()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("threshold", "NaN"), ("threshold", "-1"), ("threshold", "101"), ("threshold", "busy"),
        ("grace-period", "soon"), ("grace-period", "-5m"), ("policy", "always"), ("aggregation", "Median"),
        ("ttl", "9" * 400 + "h"), ("treshold", "5"), ("enabled", "yes"),
    ],
)  # fmt: skip
def test_a_value_that_cannot_be_read_is_named(name: str, value: str) -> None:
    """The next one in the order holds, and the problem says which annotation it is and what is expected."""
    found = tracking_policy({name: value}, {}, Defaults())
    assert found is not None
    assert len(found.problems) == 1
    assert f"{PREFIX}{name}" in found.problems[0]
    assert "expected" in found.problems[0]


@given(st.dictionaries(st.text(max_size=20), st.text(max_size=20)))
def test_any_annotations_are_read_without_an_error(annotations: dict[str, str]) -> None:
    """Whoever made an object may write anything."""
    own = own_annotations({PREFIX + name: value for name, value in annotations.items()})
    found = tracking_policy(own, own, Defaults(own, own))
    assert found is None or 0 <= found.threshold <= 100


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, ProcessSettings()),
        (
            {"METRICS_ENDPOINT": "http://e/metrics"},
            ProcessSettings(enabled=True, endpoint="http://e/metrics"),
        ),
        ({"ENABLED": "true"}, ProcessSettings(enabled=True)),
        ({"ENABLED": "Yes"}, ProcessSettings(enabled=True)),
        ({"ENABLED": "1"}, ProcessSettings(enabled=True)),
        ({"ENABLED": "off", "METRICS_ENDPOINT": "http://e/"}, ProcessSettings(endpoint="http://e/")),
        (
            {"ENABLED": "perhaps", "METRICS_ENDPOINT": "http://e/"},
            ProcessSettings(enabled=True, endpoint="http://e/"),
        ),
        ({"ENABLED": "perhaps"}, ProcessSettings()),
        ({"ENABLED": "false", "METRICS_ENDPOINT": "http://e/"}, ProcessSettings(endpoint="http://e/")),
        ({"ENABLED": "true", "POLLING_INTERVAL": "1m"}, ProcessSettings(enabled=True, interval=60)),
        ({"ENABLED": "true", "POLLING_INTERVAL": "0s"}, ProcessSettings(enabled=True)),
        ({"METRICS_ENDPOINT": "exporter:5000"}, ProcessSettings()),
        (
            {"ENABLED": "true", "DEFAULT_TTL": "1h", "DEFAULT_THRESHOLD": "3"},
            ProcessSettings(enabled=True, defaults={"ttl": "1h", "threshold": "3"}),
        ),
    ],
)
def test_process_settings_come_from_the_environment(
    variables: dict[str, str], expected: ProcessSettings
) -> None:
    """Without any of them nothing is tracked; one that cannot be used leaves the default."""
    environment = {f"GPU_PREEMPTION_{name}": value for name, value in variables.items()}
    assert ProcessSettings.read({"PATH": "/bin", **environment}) == expected


@pytest.mark.parametrize(
    ("text", "written"), [("500ms", "1s"), ("90s", "90s"), ("2h0m0.5s", "7201s"), ("0", "0s")]
)
def test_a_part_of_a_second_is_not_for_ever(text: str, written: str) -> None:
    """A GpuWorkload with a ttl of 0s is kept for ever."""
    policy = tracking_policy({"ttl": text}, {}, Defaults())
    assert policy is not None
    assert duration_text(policy.ttl) == written


@pytest.mark.parametrize(
    ("name", "field", "variable"),
    [
        ("threshold", "defaultThreshold", "GPU_PREEMPTION_DEFAULT_THRESHOLD"),
        ("grace-period", "defaultGracePeriod", "GPU_PREEMPTION_DEFAULT_GRACE_PERIOD"),
        ("ttl", "defaultTTL", "GPU_PREEMPTION_DEFAULT_TTL"),
    ],
)
def test_a_default_that_cannot_be_read_is_named_as_it_is_set(name: str, field: str, variable: str) -> None:
    """In KaiwoConfig and in the environment there are no annotations."""
    policy = tracking_policy({"enabled": "true"}, {}, Defaults({name: "x"}, {name: "y"}))
    assert policy is not None
    config, environment = policy.problems
    assert config.startswith(f"gpuPreemption.{field} of KaiwoConfig is 'x', expected a ")
    assert environment.startswith(f"{variable} of the operator is 'y', expected a ")
