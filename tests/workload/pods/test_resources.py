from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaiwo.api.core_types import ResourceRequirements
from kaiwo.engine.quantity import parse_quantity
from kaiwo.workload.errors import SpecError
from kaiwo.workload.pods.origins import Origins
from kaiwo.workload.pods.resources import Needs, spec_defaults, with_resources

KEYS = ("amd.com/gpu", "nvidia.com/gpu", "nvidia.com/mig-*")


def made(
    own: dict[str, Any] | None = None, spec: dict[str, Any] | None = None, **needs: Any
) -> tuple[dict[str, Any], list[str]]:
    """Resources of a container and warnings."""
    defaults, warnings = spec_defaults(ResourceRequirements.parse(spec) if spec else None, KEYS)
    container = {} if own is None else {"resources": own}
    needs = {"primary": True, **needs}
    resources, more = with_resources(container, Needs(defaults, KEYS, **needs), "c", Origins())
    return resources, warnings + more


def both(**values: str) -> dict[str, dict[str, str]]:
    """Equal requests and limits."""
    return {"requests": values, "limits": values}


def test_a_primary_container_without_a_word_gets_the_defaults() -> None:
    """2 CPU and 16Gi, as request and limit."""
    assert made()[0] == both(cpu="2", memory="16Gi")


def test_other_containers_get_only_what_the_spec_says() -> None:
    """A side car takes no 16Gi, but follows spec.resources."""
    assert made(primary=False)[0] == {}
    assert made(spec={"limits": {"memory": "1Gi"}}, primary=False)[0] == {"limits": {"memory": "1Gi"}}


def test_generated_gpus_bring_cpu_and_memory_over_the_spec() -> None:
    """4 CPU and 32Gi per GPU win over spec.resources, which still adds what it alone knows."""
    resources, _ = made(
        spec={"requests": {"cpu": "1", "ephemeral-storage": "5Gi"}, "limits": {"memory": "1Gi"}},
        gpus=2,
        gpu_key="amd.com/gpu",
        generated=True,
    )
    common = {"cpu": "8", "memory": "64Gi", "amd.com/gpu": "2"}
    assert resources == {"requests": {**common, "ephemeral-storage": "5Gi"}, "limits": common}


def test_values_of_the_spec_that_gpus_replace_are_warned_about() -> None:
    """By the path of each; equal amounts, other resources and other containers are not."""
    spec = {
        "requests": {"cpu": "1", "memory": "65536Mi", "ephemeral-storage": "5Gi"},
        "limits": {"memory": "1Gi"},
    }
    gpus: dict[str, Any] = {"gpus": 2, "gpu_key": "amd.com/gpu"}
    cpu, memory = made(spec=spec, generated=True, **gpus)[1]
    assert cpu.startswith("spec.resources.requests.cpu: 1 is not used, the container with GPUs gets 8 (4 for")
    assert memory.startswith(
        "spec.resources.limits.memory: 1Gi is not used, the container with GPUs gets 64Gi"
    )
    assert made(spec=spec, **gpus)[1] == []
    assert made(spec=spec, generated=True, primary=False)[1] == []
    assert made(spec=spec, generated=True)[1] == []


def test_an_embedded_container_keeps_its_own_values() -> None:
    """GPUs do not change CPU and memory of a container that a user wrote."""
    resources, _ = made(both(cpu="1", memory="2Gi"), spec=both(cpu="9"), gpus=2, gpu_key="amd.com/gpu")
    assert resources["requests"] == {"cpu": "1", "memory": "2Gi", "amd.com/gpu": "2"}


def test_gpus_of_the_primary_container_are_overwritten_with_a_warning() -> None:
    """GPUs that the container requests are replaced by those of spec.gpus, whatever their vendor."""
    resources, warnings = made(both(**{"nvidia.com/mig-1g.10gb": "1"}), gpus=4, gpu_key="amd.com/gpu")
    assert resources["limits"]["amd.com/gpu"] == "4"
    assert "nvidia.com/mig-1g.10gb" not in resources["requests"]
    assert len(warnings) == 1
    assert made(both(**{"amd.com/gpu": "4"}), gpus=4, gpu_key="amd.com/gpu")[1] == []


def test_without_requested_gpus_those_of_the_container_stay() -> None:
    """A template that requests GPUs itself keeps them."""
    assert made(both(**{"amd.com/gpu": "1"}))[0]["limits"]["amd.com/gpu"] == "1"


def test_claimed_devices_reach_every_container() -> None:
    """Devices of spec.resources come beside a container's own, whose entry of the same name stays."""
    own = {"claims": [{"name": "camera", "request": "front"}, {"name": "radio"}]}
    claims = ({"name": "camera"}, {"name": "disk"})
    assert made(own, primary=False, claims=claims)[0]["claims"] == [
        {"name": "camera", "request": "front"},
        {"name": "disk"},
        {"name": "radio"},
    ]
    assert made(primary=False, claims=claims)[0] == {"claims": list(claims)}


def test_gpus_in_spec_resources_are_ignored_with_a_warning() -> None:
    """GPUs come from spec.gpus alone."""
    resources, warnings = made(spec=both(**{"amd.com/gpu": "4", "rdma/hca": "1"}))
    assert resources["limits"] == {"rdma/hca": "1", "cpu": "2", "memory": "16Gi"}
    assert warnings == ["spec.resources: amd.com/gpu is ignored; request GPUs with spec.gpus"]


@pytest.mark.parametrize(
    ("own", "spec", "requests", "limits"),
    [
        ({"limits": {"memory": "8Gi"}}, None, "8Gi", "8Gi"),
        ({"requests": {"memory": "64Gi"}}, None, "64Gi", "64Gi"),
        ({"limits": {"memory": "1Gi"}}, {"requests": {"memory": "4Gi"}}, "1Gi", "1Gi"),
        (None, {"requests": {"memory": "32Gi"}}, "32Gi", "32Gi"),
        (None, {"limits": {"memory": "4Gi"}}, "4Gi", "4Gi"),
        ({"limits": {"memory": "20Gi"}}, None, "16Gi", "20Gi"),
        ({"limits": {"memory": "2048Mi"}}, {"requests": {"memory": "2Gi"}}, "2Gi", "2048Mi"),
    ],
)
def test_a_request_never_exceeds_its_limit(
    own: dict[str, Any] | None, spec: dict[str, Any] | None, requests: str, limits: str
) -> None:
    """Values that are not set follow the ones that are."""
    resources, _ = made(own, spec)
    assert (resources["requests"]["memory"], resources["limits"]["memory"]) == (requests, limits)


def test_a_ray_head_shares_the_memory_of_its_pod() -> None:
    """Its setting is a default, too."""
    resources, _ = made(memory="16Gi", memory_from="KaiwoConfig", of_pod=frozenset({"memory"}))
    assert resources == both(cpu="2")


def test_a_ray_head_follows_its_own_setting() -> None:
    """Memory of a head: its own, then KaiwoConfig, then spec.resources; CPU is as of any container."""
    spec = both(memory="4Gi", cpu="3")
    resources, _ = made(spec=spec, memory="24Gi", gpus=0)
    assert resources["requests"] == {"memory": "24Gi", "cpu": "3"}
    assert made(both(memory="1Gi"), memory="24Gi")[0]["limits"]["memory"] == "1Gi"
    own, warnings = made(both(**{"amd.com/gpu": "1"}), gpus=0)
    assert "amd.com/gpu" not in own["limits"]
    assert warnings == ["c.resources: the GPUs written there are left out; a Ray head gets none"]


@pytest.mark.parametrize(
    ("own", "path"),
    [
        ([], "c.resources"),
        ({"requests": []}, "c.resources.requests"),
        ({"limits": {"cpu": "lots"}}, "c.resources.limits.cpu"),
    ],
)
def test_impossible_shapes_name_the_field(own: Any, path: str) -> None:
    """A list where a map belongs is answered, not crashed on."""
    with pytest.raises(SpecError) as caught:
        made(own)
    assert caught.value.path == path


amounts = st.sampled_from(["1", "500m", "2", "3000m", "4", "1e1"])
sides = st.dictionaries(st.sampled_from(["cpu", "memory"]), amounts)


resources = st.fixed_dictionaries({"requests": sides, "limits": sides})


@given(resources, resources, st.integers(0, 3), st.booleans())
def test_no_own_value_changes_and_requests_stay_below_limits(
    own: dict[str, dict[str, str]], spec: dict[str, dict[str, str]], gpus: int, generated: bool
) -> None:
    """For any mixture the container's own values survive, and only a user's own contradiction remains one."""
    result, _ = made(own, spec, gpus=gpus, gpu_key="amd.com/gpu", generated=generated)
    for side, values in own.items():
        assert values.items() <= result[side].items()
    for key in ("cpu", "memory"):
        contradicts = [
            key in given["requests"]
            and key in given["limits"]
            and parse_quantity(given["requests"][key]) > parse_quantity(given["limits"][key])
            for given in (own, spec)
        ]
        if not any(contradicts):
            assert parse_quantity(result["requests"][key]) <= parse_quantity(result["limits"][key])
