"""Whatever a user sends is refused or shown with a reason; nothing crashes the operator or makes it spin."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import KAIWO_JOB
from kaiwo.engine.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from kaiwo.engine.resource import Object
    from kaiwo.testing.operator import OperatorProcess

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = pytest.mark.cluster

FITS = 131_071  # bytes; Linux takes no longer argument


def env(count: int) -> list[Object]:
    """That many environment variables."""
    return [{"name": f"VARIABLE_{number}", "value": "x" * 20} for number in range(count)]


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "text for a number": ({"gpus": "many"}, "gpus"),
    "fraction of a GPU": ({"gpus": 1.5}, "gpus"),
    "list for a map": ({"storage": []}, "storage"),
    "negative GPUs": ({"gpus": -1}, "gpus"),
    "2^31 replicas": ({"replicas": 2**31}, "replicas"),
    "no replicas": ({"replicas": 0}, "replicas"),
    "entrypoint of 1 MB": ({"entrypoint": "x" * 1_000_000}, "entrypoint"),
    "entrypoint one byte too long": ({"entrypoint": "x" * (FITS + 1)}, "entrypoint"),
    "both topology labels": (
        {"preferredTopologyLabel": "kaiwo/topology-rack", "requiredTopologyLabel": "kaiwo/topology-rack"},
        "Topology",
    ),
    "nonsense duration": ({"duration": "soon"}, "duration"),
    "unicode priority class": ({"priorityClass": "wichtig-ä"}, "priorityClass"),
}
"""What the API server refuses."""

SHOWN: dict[str, tuple[dict[str, Any], str]] = {
    "job is a list": ({"job": {"spec": []}}, "spec.job"),
    "template is a text": ({"job": {"spec": {"template": "x"}}}, "spec.job"),
    "containers is a map": ({"job": {"spec": {"template": {"spec": {"containers": {}}}}}}, "containers"),
    "impossible policy": (
        {"job": {"spec": {"template": {"spec": {
            "restartPolicy": "Always", "containers": [{"name": "a", "image": "b"}]}}}}},
        "restartPolicy",
    ),
    "misspelt field of the Job": ({"job": {"spec": {"backofLimit": 2}}}, "spec.backofLimit"),
    "illegal variable name": ({"env": [{"name": "A=B", "value": "x"}]}, "env"),
}  # fmt: skip
"""What the workload's status reports, with the field."""

TAKEN: dict[str, dict[str, Any]] = {
    "entrypoint of 128 KiB less one": {"entrypoint": "#" + "x" * (FITS - 1)},
    "unicode everywhere": {
        "user": "Jürgen Ünïcode 🚀", "entrypoint": "echo 'ünïcode 🚀'",
        "env": [{"name": "HI", "value": "héllo 🚀"}],
    },
    "duplicate variables": {"env": [{"name": "A", "value": "first"}, {"name": "A", "value": "last"}]},
    "vendor in capitals": {"gpus": 1, "gpuVendor": "AMD"},
}  # fmt: skip
"""What works although it looks odd."""


@pytest.fixture
async def watched(operator: Start) -> AsyncIterator[OperatorProcess]:
    """An operator that must still work at the end of the test, without having logged a defect."""
    process = await operator()
    yield process
    assert (await asyncio.to_thread(process.readyz_when_up))[0] == 200
    assert "Traceback" not in process.log


@pytest.mark.usefixtures("watched")
async def test_what_cannot_be_is_refused_with_the_field(lab: Any) -> None:
    """Each of the documented kinds of nonsense is stopped at the API server, in words that name its field."""
    for number, (spec, field) in enumerate(REFUSED.values()):
        with pytest.raises(ApiError, match=field):
            await lab.submit(f"refused-{number}", **spec)
    assert await lab.jobs() == []


@pytest.mark.usefixtures("watched")
async def test_what_only_the_api_server_can_judge_is_shown_in_its_words(lab: Any) -> None:
    """A Job that the API server would refuse is an ERROR of the workload with the field's path."""
    for number, (what, (spec, field)) in enumerate(SHOWN.items()):
        await lab.submit(f"shown-{number}", **spec)
        message = (await lab.reaches(f"shown-{number}", "ERROR"))["message"]
        assert field in message, f"{what}: {message}"
    assert await lab.jobs() == []


@pytest.mark.usefixtures("watched")
async def test_unusual_but_valid_input_works(lab: Any) -> None:
    """Long scripts, unicode, duplicate variables (the last wins), vendors in capitals."""
    for number, spec in enumerate(TAKEN.values()):
        await lab.submit(f"taken-{number}", **spec)
    for number in range(len(TAKEN)):
        await lab.reaches(f"taken-{number}", "COMPLETE")
    jobs = {job["metadata"]["name"]: job for job in await lab.jobs()}
    container = jobs["taken-2"]["spec"]["template"]["spec"]["containers"][0]
    assert [item["value"] for item in container["env"] if item["name"] == "A"] == ["last"]


@pytest.mark.usefixtures("watched")
async def test_as_many_variables_as_are_allowed_run_and_more_are_refused(lab: Any) -> None:
    """The API server refuses one more with the field and the limit; at the limit the workload runs."""
    with pytest.raises(ApiError, match=r"spec\.env: Too many: 4097: must have at most 4096 items"):
        await lab.submit("more", env=env(4097))
    await lab.submit("many", env=env(4096))
    await lab.reaches("many", "COMPLETE")


@pytest.mark.usefixtures("watched")
async def test_unknown_fields_are_warned_of_and_dropped(lab: Any) -> None:
    """The API server prunes what no plugin declares; the rest of the workload runs."""
    await lab.submit("typo", gpu=8)
    await lab.reaches("typo", "COMPLETE")
    stored = await lab.client.get(KAIWO_JOB, lab.namespace, "typo")
    assert "gpu" not in stored["spec"]


@pytest.mark.usefixtures("watched")
async def test_names_of_63_characters_run_and_of_64_are_refused_with_the_limit(lab: Any) -> None:
    """The longest legal name works to the end; one more is answered with the limit."""
    await lab.submit("n" * 63)
    await lab.reaches("n" * 63, "COMPLETE")
    for name, words in (("n" * 64, "63"), ("dotted.name", "name")):
        with pytest.raises(ApiError, match=words):
            await lab.submit(name)
    with pytest.raises(ApiError, match="47"):
        await lab.submit("r" * 48, ray=True, entrypoint="python main.py")


async def test_a_refused_object_is_not_sent_again_and_again_but_at_once_after_a_correction(
    operator: Start, lab: Any, proxy: Any, tmp_path: Any
) -> None:
    """One request per refusal; the corrected spec runs within seconds."""
    await operator(kubeconfig=proxy.write_kubeconfig(tmp_path / "kubeconfig"))
    await lab.submit("wrong", env=[{"name": "A=B", "value": "x"}])
    await lab.reaches("wrong", "ERROR", reason="InvalidSpec")
    await asyncio.sleep(5)
    tries = [w for w in proxy.writes() if w.method == "POST" and w.path.endswith("/jobs")]
    assert len(tries) == 1

    right = {"spec": {"env": [{"name": "A", "value": "x"}]}}
    await lab.client.merge_patch(KAIWO_JOB, lab.namespace, "wrong", right)
    await lab.reaches("wrong", "COMPLETE")


@pytest.mark.usefixtures("watched")
async def test_a_nonsensical_status_does_no_harm(lab: Any) -> None:
    """Somebody writes rubbish into the status of a running workload: the operator writes the truth again."""
    await lab.submit("rubbish", pods={"kaiwo-sandbox/forever": "true"})
    was = (await lab.reaches("rubbish", "RUNNING"))["reason"]
    rubbish = {"status": {"status": "PENDING", "reason": "Nonsense", "conditions": None}}
    await lab.client.merge_patch(KAIWO_JOB, lab.namespace, "rubbish", rubbish, subresource="status")
    await lab.reaches("rubbish", "RUNNING", reason=was)
