"""Ray really runs: a job over a head and a worker, and a service that answers.

Ray comes from the package index. Its first start takes minutes: the image has about half a gigabyte.
"""

from __future__ import annotations

import contextlib
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import KAIWO_SERVICE

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.slow

MOST_SECONDS = 900
RESOURCES = {
    "requests": {"cpu": "200m", "memory": "1Gi"},
    "limits": {"cpu": "1", "memory": "2Gi"},
}
START = {"object-store-memory": "80000000"}
CLUSTER = {
    "headGroupSpec": {"rayStartParams": {"dashboard-host": "0.0.0.0", **START}},
    "workerGroupSpecs": [{"groupName": "workers", "rayStartParams": START}],
}
APPLICATIONS = """
applications:
- name: greeting
  import_path: greeting:app
  route_prefix: /
"""


@pytest.fixture(scope="module")
def small_head(configure: Callable[..., None]) -> None:
    """KaiwoConfig requests little memory for Ray heads."""
    configure(ray={"headPodMemory": "2Gi"})


def groups(pods: list[Any]) -> dict[str, list[str]]:
    """The names of Ray's pods by their kind: head, worker, or empty for the submitter."""
    found: dict[str, list[str]] = {}
    for pod in pods:
        found.setdefault(pod["metadata"]["labels"].get("ray.io/node-type", ""), []).append(
            pod["metadata"]["name"]
        )
    return found


@pytest.mark.timeout(MOST_SECONDS)
@pytest.mark.usefixtures("small_head")
def test_a_ray_job_computes_on_its_head_and_its_worker(
    lab: Any, ray_image: str, wait_for: Callable[..., Any]
) -> None:
    """Its log has what the program printed, and the cluster is gone afterwards."""
    lab.submit(
        "hosts",
        ray=True,
        image=ray_image,
        entrypoint="python /app/hosts.py",
        resources=RESOURCES,
        rayJob={"spec": {"rayClusterSpec": CLUSTER}},
    )
    pods = wait_for(
        "the submitter", lambda: len(found := groups(lab.pods("hosts"))) == 3 and found, seconds=480
    )
    status = lab.reaches("hosts", "COMPLETE", "FAILED", seconds=240)
    (submitter,) = pods[""]

    def printed() -> str:
        return str(lab.api.get(f"{lab.core}/pods/{submitter}/log"))

    assert status["status"] == "COMPLETE", printed()
    hosts = f"hosts: {' '.join(sorted([*pods['head'], *pods['worker']]))}\n"
    # The submitter still follows the log when KubeRay knows that the job has ended.
    wait_for("the program's line in the log", lambda: hosts in printed())
    wait_for("the end of the cluster", lambda: set(groups(lab.pods("hosts"))) <= {""})


def answer(url: str) -> str:
    """What the service answers; empty if it does not."""
    with contextlib.suppress(urllib.error.URLError, OSError):
        return str(urllib.request.urlopen(url, timeout=5).read().decode())
    return ""


@pytest.mark.timeout(MOST_SECONDS)
@pytest.mark.usefixtures("small_head")
def test_a_ray_service_answers(lab: Any, ray_image: str, wait_for: Callable[..., Any]) -> None:
    """READY when its application runs; then from this machine, and from another pod by its name."""
    lab.serve(
        "greeting",
        ray=True,
        image=ray_image,
        serveConfigV2=APPLICATIONS,
        env=[{"name": "GREETING", "value": "hello"}],
        resources=RESOURCES,
        rayService={"spec": {"rayClusterConfig": CLUSTER}},
    )
    lab.reaches("greeting", "READY", kind=KAIWO_SERVICE, seconds=480)
    service = lab.api.get(f"{lab.core}/services/greeting-serve-svc")
    url = f"http://{service['spec']['clusterIP']}:8000/from/here"
    said = wait_for("an answer", lambda: answer(url))
    names = [name for group in groups(lab.pods("greeting")).values() for name in group]
    assert said.startswith("hello /from/here ")
    assert said.split()[-1] in names
    lab.submit("asks", entrypoint="wget -qO- http://greeting-serve-svc:8000/from/a/pod")
    assert lab.reaches("asks", "COMPLETE", "FAILED")["status"] == "COMPLETE"
    assert lab.log("asks").startswith("hello /from/a/pod ")
    lab.delete("greeting", kind=KAIWO_SERVICE)
    wait_for("the end of its pods", lambda: not lab.pods("greeting"), seconds=120)
