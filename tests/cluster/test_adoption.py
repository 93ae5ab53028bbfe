"""Plain Jobs with the label ``managed`` become part of a KaiwoJob, and end with it."""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import KAIWO_JOB
from kaiwo.client.pods import list_pods
from kaiwo.engine.resource import EVENT, JOB, NAMESPACE, Resource
from kaiwo.testing.operator import until
from kaiwo.workload.labels import ADOPTED, MANAGED, REQUESTED_BY

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object
    from kaiwo.testing.fault_proxy import FaultProxy
    from kaiwo.testing.operator import OperatorProcess

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = pytest.mark.cluster

CRON_JOB = Resource("batch", "v1", "CronJob", "cronjobs")
FOREVER = {"kaiwo-sandbox/forever": "true"}


class Jobs:
    """What a user of plain Jobs does and sees."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.client = client
        self.namespace = namespace

    def job(
        self,
        name: str,
        *,
        gpus: int = 1,
        pods: dict[str, str] | None = None,
        labels: dict[str, str] | None = None,
        metadata: Object | None = None,
        **spec: Any,
    ) -> Object:
        """A Job with the label; ``pods`` are annotations by which the fake nodes act."""
        container = {
            "name": "main",
            "image": "registry.example/train:1",
            "resources": {"limits": {"amd.com/gpu": str(gpus)}} if gpus else {},
        }
        template = {
            "metadata": {"annotations": pods or {}},
            "spec": {"restartPolicy": "Never", "containers": [container]},
        }
        head = {"name": name, "labels": {MANAGED: "true"} if labels is None else labels}
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {**head, "namespace": self.namespace, **(metadata or {})},
            "spec": {"template": template, "backoffLimit": 0, **spec},
        }

    async def create(self, name: str, **job: Any) -> Object:
        """Create a Job."""
        return await self.client.create(JOB, self.job(name, **job))

    async def kaiwojob(self, name: str, holds: Callable[[Object], bool] = bool) -> Object:
        """Wait for the KaiwoJob of a name, and until something holds for it."""
        found = await until(
            self.client, KAIWO_JOB, self.namespace, name, lambda obj: obj is not None and holds(obj)
        )
        assert found is not None
        return found

    async def owned(self, name: str) -> Object:
        """Wait until a Job has a controller; the Job."""
        found = await until(
            self.client, JOB, self.namespace, name, lambda job: job is not None and owner(job) is not None
        )
        assert found is not None
        return found

    async def gone(self, kind: Resource, name: str, uid: str = "") -> None:
        """Wait until an object, or the one with that uid, is gone."""
        await until(
            self.client, kind, self.namespace, name,
            lambda obj: obj is None or (uid != "" and obj["metadata"]["uid"] != uid),
        )  # fmt: skip

    async def kaiwojobs(self) -> list[str]:
        """Names of the KaiwoJobs of the namespace."""
        return [obj["metadata"]["name"] async for obj in self.client.list(KAIWO_JOB, self.namespace)]

    async def events(self, name: str, reason: str) -> list[str]:
        """Messages of the Events about a Job with a reason, once there is one."""
        for _ in range(60):
            found = [
                event["message"]
                async for event in self.client.list(EVENT, self.namespace)
                if (event["involvedObject"].get("kind"), event["involvedObject"].get("name")) == ("Job", name)
                and event["reason"] == reason
            ]
            if found:
                return found
            await asyncio.sleep(0.5)
        return []


@pytest.fixture
def jobs(client: Client, namespace: str) -> Jobs:
    """The user's side."""
    return Jobs(client, namespace)


@pytest.fixture
async def other(client: Client) -> AsyncIterator[Jobs]:
    """The same in a second namespace, which the operator does not watch."""
    name = f"other-{secrets.token_hex(4)}"
    await client.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield Jobs(client, name)
    await client.delete(NAMESPACE, None, name)


def owner(job: Object) -> Object | None:
    """The controller of a Job."""
    return next((o for o in job["metadata"].get("ownerReferences", []) if o.get("controller")), None)


def has(status: str, reason: str = "") -> Callable[[Object], bool]:
    """Whether a KaiwoJob has a status."""
    return lambda obj: (
        obj.get("status", {}).get("status") == status
        and (not reason or obj["status"].get("reason") == reason)
    )


async def test_a_labelled_job_gets_a_kaiwojob_that_mirrors_it_to_its_end(
    operator: Start, jobs: Jobs, condition: Any
) -> None:
    """User, copy, GPUs and status are the Job's; the Job itself is not changed but for its owner."""
    await operator()
    before = await jobs.create(
        "train",
        gpus=2,
        metadata={"annotations": {REQUESTED_BY: "jane"}},
        pods={"kaiwo-sandbox/run-time": "3s"},
    )
    running = await jobs.kaiwojob("train", has("RUNNING"))
    [pod] = await list_pods(jobs.client, running)
    assert owner(pod)["uid"] == before["metadata"]["uid"]  # type: ignore[index]
    done = await jobs.kaiwojob("train", has("COMPLETE"))

    job = await jobs.owned("train")
    assert owner(job)["uid"] == done["metadata"]["uid"]  # type: ignore[index]
    assert job["spec"] == before["spec"]
    assert job["metadata"]["labels"] == before["metadata"]["labels"]
    assert done["spec"]["user"] == "jane"
    assert done["spec"]["job"]["spec"]["template"]["spec"] == before["spec"]["template"]["spec"]
    assert "selector" not in done["spec"]["job"]["spec"]
    status = done["status"]
    assert status["childUID"] == job["metadata"]["uid"]
    assert (status["allocation"]["backend"], status["allocation"]["gpus"]) == ("batch_job", 2)
    assert status["startTime"] <= status["completionTime"]
    assert condition(running["status"], "Adopted")["status"] == "True"
    assert condition(status, "SpecApplied")["status"] == "True"
    assert await jobs.events("train", "Adopted")


async def test_a_job_that_ends_at_once_and_one_that_ended_before_the_operator_are_shown(
    operator: Start, jobs: Jobs
) -> None:
    """What counts is what there is: a finished Job is adopted as a running one is."""
    await jobs.create("old")
    await until(
        jobs.client,
        JOB,
        jobs.namespace,
        "old",
        lambda job: bool(job and job.get("status", {}).get("succeeded")),
    )
    await operator()
    await jobs.create("quick", pods={"kaiwo-sandbox/run-time": "1ms"})
    await jobs.kaiwojob("old", has("COMPLETE"))
    await jobs.kaiwojob("quick", has("COMPLETE"))


async def test_a_job_that_fails_fails_its_kaiwojob(operator: Start, jobs: Jobs) -> None:
    """FAILED, with the Job's own reason."""
    await operator()
    await jobs.create("bad", pods={"kaiwo-sandbox/exit-code": "3"})
    failed = await jobs.kaiwojob("bad", has("FAILED"))
    assert failed["status"]["reason"] == "BackoffLimitExceeded"


async def test_deleting_either_deletes_both(operator: Start, jobs: Jobs) -> None:
    """The KaiwoJob takes its Job with it; the Job its KaiwoJob, and is not created again."""
    await operator()
    for name in ("first", "second"):
        await jobs.create(name, pods=FOREVER)
        await jobs.kaiwojob(name, has("RUNNING"))
    await jobs.client.delete(KAIWO_JOB, jobs.namespace, "first")
    await jobs.gone(JOB, "first")
    await jobs.client.delete(JOB, jobs.namespace, "second", propagation="Background")
    await jobs.gone(KAIWO_JOB, "second")
    await asyncio.sleep(2)
    assert [job async for job in jobs.client.list(JOB, jobs.namespace)] == []
    assert await jobs.kaiwojobs() == []


async def test_what_happened_while_no_operator_ran_is_caught_up_with(operator: Start, jobs: Jobs) -> None:
    """Deleted Jobs take their KaiwoJobs along; a successor of the same name, and new Jobs, get their own."""
    process = await operator()
    for name in ("deleted", "replaced"):
        await jobs.create(name, pods=FOREVER)
        await jobs.kaiwojob(name, has("RUNNING"))
    first = await jobs.kaiwojob("replaced")
    await asyncio.to_thread(process.kill)
    for name in ("deleted", "replaced"):
        await jobs.client.delete(JOB, jobs.namespace, name, propagation="Background")
        await jobs.gone(JOB, name)
    successor = await jobs.create("replaced", pods=FOREVER)
    await jobs.create("new", pods=FOREVER)

    await asyncio.to_thread(process.start().wait_ready)

    await jobs.gone(KAIWO_JOB, "deleted")
    await jobs.gone(KAIWO_JOB, "replaced", uid=first["metadata"]["uid"])
    again = await jobs.kaiwojob("replaced", has("RUNNING"))
    assert again["status"]["childUID"] == successor["metadata"]["uid"]
    await jobs.kaiwojob("new", has("RUNNING"))
    await jobs.gone(JOB, "deleted")


async def test_a_generated_name_works(operator: Start, jobs: Jobs) -> None:
    """The KaiwoJob has the name that the API server made up."""
    await operator()
    job = jobs.job("unused", metadata={"generateName": "sweep-"})
    del job["metadata"]["name"]
    created = await jobs.client.create(JOB, job)
    name = created["metadata"]["name"]
    assert name.startswith("sweep-")
    await jobs.kaiwojob(name, has("COMPLETE"))


async def test_jobs_of_a_cronjob_and_jobs_without_the_label_are_left_alone(
    operator: Start, jobs: Jobs
) -> None:
    """No KaiwoJob, no Event, although the CronJob's template has the label."""
    await operator()
    template = jobs.job("unused")
    cron = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "nightly", "namespace": jobs.namespace},
        "spec": {
            "schedule": "0 0 1 1 *",
            "suspend": True,
            "jobTemplate": {"metadata": {"labels": {MANAGED: "true"}}, "spec": template["spec"]},
        },
    }
    live = await jobs.client.create(CRON_JOB, cron)
    reference = {
        "apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly",
        "uid": live["metadata"]["uid"], "controller": True,
    }  # fmt: skip
    await jobs.create("nightly-1", metadata={"ownerReferences": [reference]}, pods=FOREVER)
    await jobs.create("plain", labels={}, pods=FOREVER)
    await jobs.create("other-value", labels={MANAGED: "yes"}, pods=FOREVER)
    await jobs.create("marker")
    await jobs.kaiwojob("marker", has("COMPLETE"))
    await asyncio.sleep(1)
    assert await jobs.kaiwojobs() == ["marker"]
    about = [
        event["involvedObject"]["name"]
        async for event in jobs.client.list(EVENT, jobs.namespace)
        if event.get("source", {}).get("component") == "kaiwo" and event["involvedObject"]["kind"] == "Job"
    ]
    assert about == ["marker"]


async def test_a_kaiwojob_of_a_users_with_that_name_is_not_taken_over(
    operator: Start, jobs: Jobs, lab: Any
) -> None:
    """The Job gets one Event that says why and what to do; the Job is adopted once the name is free."""
    await operator()
    await lab.submit("taken", gpus=4096)
    await lab.reaches("taken", "ERROR")
    await jobs.create("taken", pods=FOREVER)
    [message] = await jobs.events("taken", "NameConflict")
    assert "KaiwoJob taken exists and was not made for it" in message
    assert "Delete the KaiwoJob, or create the Job under another name" in message
    job = await jobs.client.get(JOB, jobs.namespace, "taken")
    assert owner(job) is None
    await jobs.client.delete(KAIWO_JOB, jobs.namespace, "taken")
    await jobs.kaiwojob("taken", has("RUNNING"))


async def test_a_forged_kaiwojob_gets_nobodys_job(operator: Start, jobs: Jobs, lab: Any) -> None:
    """The label of an adopted Job, by a user, makes no owner: deleting the KaiwoJob deletes no Job."""
    process = await operator()
    await asyncio.to_thread(process.kill)
    job = await jobs.create("mine", pods=FOREVER)
    await lab.submit("mine", metadata={"labels": {ADOPTED: job["metadata"]["uid"]}})
    await lab.submit("stray", metadata={"labels": {ADOPTED: "no-such-uid"}})
    await asyncio.to_thread(process.start().wait_ready)

    [message] = await jobs.events("mine", "NameConflict")
    assert "Kaiwo did not create it" in message
    await jobs.kaiwojob("stray", has("ERROR", "NotAdopted"))
    assert owner(await jobs.client.get(JOB, jobs.namespace, "mine")) is None
    await jobs.client.delete(KAIWO_JOB, jobs.namespace, "mine")
    adopted = await jobs.kaiwojob("mine", has("RUNNING"))
    assert adopted["status"]["childUID"] == job["metadata"]["uid"]
    assert (await jobs.client.get(JOB, jobs.namespace, "mine"))["metadata"]["uid"] == job["metadata"]["uid"]


async def test_a_changed_spec_changes_nothing_and_says_so(
    operator: Start, jobs: Jobs, condition: Any
) -> None:
    """SpecApplied=False/NotApplied names the Job as the place to edit."""
    await operator()
    await jobs.create("fixed", pods=FOREVER)
    await jobs.kaiwojob("fixed", has("RUNNING"))
    before = await jobs.client.get(JOB, jobs.namespace, "fixed")
    patch = {"spec": {"job": {"spec": {"activeDeadlineSeconds": 3}}, "duration": "5s"}}
    await jobs.client.merge_patch(KAIWO_JOB, jobs.namespace, "fixed", patch)
    said = await jobs.kaiwojob(
        "fixed", lambda obj: condition(obj.get("status", {}), "SpecApplied").get("status") == "False"
    )
    applied = condition(said["status"], "SpecApplied")
    assert applied["reason"] == "NotApplied"
    assert "Edit the Job itself" in applied["message"]
    assert (await jobs.client.get(JOB, jobs.namespace, "fixed"))["spec"] == before["spec"]


async def test_without_its_label_an_adopted_job_stays_adopted(operator: Start, jobs: Jobs) -> None:
    """Taking the label away later ends nothing; the Job's end still ends the KaiwoJob."""
    await operator()
    await jobs.create("unlabelled", pods=FOREVER)
    await jobs.kaiwojob("unlabelled", has("RUNNING"))
    patch = {"metadata": {"labels": {MANAGED: None}}}
    await jobs.client.merge_patch(JOB, jobs.namespace, "unlabelled", patch)
    await asyncio.sleep(2)
    await jobs.kaiwojob("unlabelled", has("RUNNING"))
    await jobs.client.delete(JOB, jobs.namespace, "unlabelled", propagation="Background")
    await jobs.gone(KAIWO_JOB, "unlabelled")


async def test_a_label_that_comes_later_is_enough(operator: Start, jobs: Jobs) -> None:
    """A running Job is adopted as it is; its pods are not restarted."""
    await operator()
    before = await jobs.create("later", labels={}, pods=FOREVER)
    await asyncio.sleep(1)
    assert await jobs.kaiwojobs() == []
    patch = {"metadata": {"labels": {MANAGED: "true"}}}
    await jobs.client.merge_patch(JOB, jobs.namespace, "later", patch)
    await jobs.kaiwojob("later", has("RUNNING"))
    assert (await jobs.owned("later"))["metadata"]["uid"] == before["metadata"]["uid"]


async def test_a_large_job_is_adopted_without_a_copy(operator: Start, jobs: Jobs, condition: Any) -> None:
    """A Job of 1 MB is not stored twice; the condition Adopted says so."""
    await operator()
    job = jobs.job("large", pods=FOREVER)
    container = job["spec"]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": f"V{number}", "value": "x" * 10_000} for number in range(100)]
    await jobs.client.create(JOB, job)
    adopted = await jobs.kaiwojob("large", has("RUNNING"))
    assert adopted["spec"]["job"] == {}
    assert "has no copy of it" in condition(adopted["status"], "Adopted")["message"]


async def test_only_watched_namespaces_count(operator: Start, jobs: Jobs, other: Jobs) -> None:
    """A labelled Job in a namespace that the operator does not watch stays as it is."""
    await operator()
    await other.create("elsewhere", pods=FOREVER)
    await jobs.create("here", pods=FOREVER)
    await jobs.kaiwojob("here", has("RUNNING"))
    await asyncio.sleep(1)
    assert await other.kaiwojobs() == []


async def test_nothing_is_adopted_in_the_operators_own_namespace(operator: Start, jobs: Jobs) -> None:
    """The operator's own namespace is never written to."""
    process = await operator(env={"KAIWO_OPERATOR_NAMESPACE": jobs.namespace})
    await jobs.create("inside", pods=FOREVER)
    await asyncio.sleep(3)
    assert await jobs.kaiwojobs() == []
    assert "inside" not in process.log


async def test_a_plugin_that_is_switched_off_adopts_nothing(operator: Start, jobs: Jobs) -> None:
    """Without the backend that declares it there is no adoption."""
    await operator(plugins="deployment,gpu_amd")
    await jobs.create("plain", pods=FOREVER)
    await asyncio.sleep(2)
    assert await jobs.kaiwojobs() == []


WRITES = r"/(jobs|kaiwojobs)(/|$)"


@pytest.mark.parametrize("lose_answer", [False, True], ids=["before", "carried-out"])
@pytest.mark.parametrize("writes", [1, 2, 3])
async def test_killed_between_any_two_writes_the_end_is_the_same(
    operator: Start, jobs: Jobs, proxy: FaultProxy, tmp_path: Path, *, writes: int, lose_answer: bool
) -> None:
    """One KaiwoJob, which owns the Job: whichever write was stopped, or carried out without an answer."""
    passing = writes if lose_answer else writes - 1
    crashed = proxy.crash_after(passing, lose_answer=lose_answer, path=WRITES)
    process = await operator(kubeconfig=proxy.write_kubeconfig(tmp_path / "kubeconfig"))
    before = await jobs.create("crash", pods=FOREVER)
    await asyncio.wait_for(crashed.wait(), 30)
    await asyncio.to_thread(process.kill)
    proxy.clear()

    await asyncio.to_thread(process.start().wait_ready)
    adopted = await jobs.kaiwojob("crash", has("RUNNING"))

    job = await jobs.owned("crash")
    assert job["metadata"]["uid"] == before["metadata"]["uid"] == adopted["status"]["childUID"]
    assert owner(job)["uid"] == adopted["metadata"]["uid"]  # type: ignore[index]
    created = [
        w for w in proxy.writes() if w.method == "POST" and w.path.endswith("/kaiwojobs") and w.code == 201
    ]
    assert len(created) <= 1


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [("POST", "/kaiwojobs$", 500), ("POST", "/kaiwojobs$", 403), ("PATCH", "/jobs/flaky$", 409)],
)
async def test_a_refused_write_is_repeated(
    operator: Start, jobs: Jobs, proxy: FaultProxy, tmp_path: Path, *, method: str, path: str, code: int
) -> None:
    """Conflicts and errors of the API server delay the adoption, and no more."""
    fault = proxy.answer(code, method=method, path=path, times=1)
    await operator(kubeconfig=proxy.write_kubeconfig(tmp_path / "kubeconfig"))
    await jobs.create("flaky", pods=FOREVER)
    await fault.wait()
    await jobs.kaiwojob("flaky", has("RUNNING"))
    await jobs.owned("flaky")


async def test_a_refused_kaiwojob_is_reported_once_on_the_job(
    operator: Start, jobs: Jobs, proxy: FaultProxy, tmp_path: Path
) -> None:
    """What the API server says, where, and that the Job goes on."""
    fault = proxy.answer(403, method="POST", path="/kaiwojobs$", times=None)
    await operator(kubeconfig=proxy.write_kubeconfig(tmp_path / "kubeconfig"))
    await jobs.create("refused", pods=FOREVER)
    await fault.wait()
    [message] = await jobs.events("refused", "AdoptionRefused")
    assert "the API server refused KaiwoJob refused" in message
    assert "The Job is left as it is" in message


async def test_nothing_is_written_at_rest_and_after_a_restart(
    operator: Start, jobs: Jobs, proxy: FaultProxy, tmp_path: Path
) -> None:
    """Two KaiwoJobs with a POST, an owner and two statuses; then no write at all, not on restart either."""
    process = await operator(kubeconfig=proxy.write_kubeconfig(tmp_path / "kubeconfig"))
    await jobs.create("done")
    await jobs.create("runs", pods=FOREVER)
    await jobs.kaiwojob("done", has("COMPLETE"))
    await jobs.kaiwojob("runs", has("RUNNING"))
    await asyncio.sleep(3)
    before = len(proxy.writes())
    assert await asyncio.to_thread(process.stop) == 0
    await asyncio.to_thread(process.start().wait_ready)
    await asyncio.sleep(4)
    assert proxy.writes()[before:] == []
