"""``kaiwo queue``: what it reads, what it writes at several widths, and what it does without rights."""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest

from kaiwo.cli.commands import queue as command
from kaiwo.cli.options import GlobalOptions
from kaiwo.cli.output.queue_view import readable_amount
from kaiwo.client import queue as client_queue
from kaiwo.client.errors import PluginFailed
from kaiwo.client.queue import (
    QueueNotFound,
    QueuesUnknown,
    describe_queue,
    list_queues,
    waits_of,
)
from kaiwo.engine.errors import Forbidden, NotFound
from kaiwo.plugin.loader import load
from kaiwo.plugin.selection import PluginSelection
from kaiwo.testing.golden import assert_golden

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from kaiwo.client.queue_records import QueueDetails, QueueList
    from kaiwo.engine.resource import Object, Resource

GOLDEN = Path(__file__).parents[1] / "golden"
GPU = "amd.com/gpu"
NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
PLUGINS = load(PluginSelection(names=("batch_job", "kueue")))


class Api:
    """Answers lists from objects by plural; without rights as the API server does."""

    def __init__(self, objects: dict[str, list[Object]], *, allowed: str = "", kinds: str = "") -> None:
        self.objects = objects
        self.allowed = allowed
        self.kinds = kinds.split()

    async def list(self, kind: Resource, namespace: str | None = None) -> AsyncIterator[Object]:
        """The objects; with a namespace in `allowed`, only there and only of `kinds`."""
        if kind.plural not in self.objects:
            raise NotFound(404, "NotFound", "the server could not find the requested resource")
        if self.allowed and (namespace != self.allowed or kind.plural not in self.kinds):
            raise Forbidden(403, "Forbidden", f"{kind} is forbidden")
        for obj in self.objects[kind.plural]:
            if namespace in (None, obj["metadata"].get("namespace")):
                yield obj

    async def get_json(self, path: str) -> Object:
        """The visibility interface is not served."""
        raise NotFound(404, "NotFound", path)


def queue(name: str, nominal: int, used: int, **spec: Any) -> Object:
    """A ClusterQueue of the cohort research."""
    quota = [{"name": GPU, "nominalQuota": str(nominal)}]
    group = {"coveredResources": [GPU], "flavors": [{"name": "mi300x", "resources": quota}]}
    reserved = [{"name": "mi300x", "resources": [{"name": GPU, "total": str(used)}]}]
    return {
        "metadata": {"name": name},
        "spec": {"cohortName": "research", "resourceGroups": [group], **spec},
        "status": {"flavorsReservation": reserved, "reservingWorkloads": 1},
    }


def queued(name: str, gpus: int, minute: int, *, admitted: bool = False, **more: Any) -> Object:
    """A Workload of a KaiwoJob in the queue vision, or of a plain Job."""
    job = more.pop("job", True)
    labels = {"name": name, "type": "job", "run-id": f"run-{name}", "user": "x"} if job else {}
    template = {
        "metadata": {"labels": {f"kaiwo.silogen.ai/{key}": value for key, value in labels.items()}},
        "spec": {"containers": [{"resources": {"limits": {GPU: str(gpus)}}}]},
    }
    held = {"flavors": {GPU: "mi300x"}, "resourceUsage": {GPU: str(gpus)}, "count": 1, "name": "main"}
    admission = {"admission": {"clusterQueue": "vision", "podSetAssignments": [held]}} if admitted else {}
    since = {"lastTransitionTime": f"2026-01-01T11:{minute:02}:30Z"}
    waits = {"type": "QuotaReserved", "status": "False", "message": f"insufficient unused quota for {GPU}"}
    states = [{"type": kind, "status": "True", **since} for kind in ("QuotaReserved", "Admitted")]
    return {
        "metadata": {
            "name": f"job-{name}",
            "namespace": "team",
            "uid": f"uid-{name}",
            "creationTimestamp": f"2026-01-01T11:{minute:02}:00Z",
            "ownerReferences": [{"kind": "Job", "name": name, "controller": True}],
        },
        "spec": {
            "queueName": "vision",
            "podSets": [{"name": "main", "count": 1, "template": template}],
            **more,
        },
        "status": {"conditions": states if admitted else [waits], **admission},
    }


def kaiwo_job(name: str, status: str, reason: str = "", message: str = "", **spec: Any) -> Object:
    """A KaiwoJob."""
    return {
        "kind": "KaiwoJob",
        "metadata": {"name": name, "namespace": "team", "uid": f"run-{name}"},
        "spec": {"user": "ada@example.org", **spec},
        "status": {
            "status": status, "reason": reason, "message": message, "startTime": "2026-01-01T11:10:00Z",
        },
    }  # fmt: skip


def scene() -> dict[str, list[Object]]:
    """Two admitted jobs, one of which can never start, and three that wait."""
    return {
        "clusterqueues": [queue("speech", 4, 0), queue("vision", 8, 10)],
        "cohorts": [],
        "localqueues": [
            {
                "metadata": {"name": "vision", "namespace": "team"},
                "spec": {"clusterQueue": "vision"},
                "status": {"pendingWorkloads": 3, "reservingWorkloads": 2},
            }
        ],
        "workloads": [
            queued("first", 8, 0, admitted=True),
            queued("stuck", 2, 20, admitted=True),
            queued("large", 6, 10),
            queued("urgent", 4, 30, priority=100),
            queued("plain", 1, 40, job=False),
            queued("huge", 50, 50),
        ],
        "kaiwojobs": [
            kaiwo_job("first", "RUNNING", duration="2h"),
            kaiwo_job("stuck", "STARTING", "ImagePullBackOff", "image registry.example/x:1 does not exist"),
            kaiwo_job("large", "PENDING"),
            kaiwo_job("urgent", "PENDING", duration="1h"),
            kaiwo_job("huge", "PENDING"),
        ],
        "kaiwoservices": [],
    }


def listed(api: Api) -> QueueList:
    """All queues."""
    return asyncio.run(list_queues(api, PLUGINS, "team"))  # type: ignore[arg-type]  # answers like a client


def described(api: Api, name: str = "vision") -> QueueDetails:
    """One queue."""
    return asyncio.run(describe_queue(api, PLUGINS, "team", name))  # type: ignore[arg-type]  # likewise


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time stands still."""

    class Clock(datetime):
        """Is always the moment of the tests."""

        @classmethod
        def now(cls, tz: Any = None) -> Any:
            """The moment of the tests."""
            del tz
            return NOW

    monkeypatch.setattr(command, "datetime", Clock)
    monkeypatch.setattr(client_queue, "datetime", Clock)


@pytest.fixture
def written(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[str, str]]:
    """What the command writes to both streams: ``written(found, width=60, output="wide")``."""

    def text(found: QueueList | QueueDetails, width: int = 0, **chosen: Any) -> tuple[str, str]:
        with contextlib.ExitStack() as stack:
            if width:
                patch = stack.enter_context(pytest.MonkeyPatch.context())
                patch.setattr("sys.stdout.isatty", lambda: True, raising=False)
                patch.setenv("COLUMNS", str(width))
            show = click.Command("show", callback=lambda: command.write(found))
            capsys.readouterr()
            show.main([], standalone_mode=False, obj=GlobalOptions(**chosen))
        captured = capsys.readouterr()
        return captured.out, captured.err

    return text


def test_amounts_of_bytes_are_readable(written: Callable[..., tuple[str, str]]) -> None:
    """A quota that was measured on nodes is an odd number of bytes; JSON has it exactly."""
    mine = queue("vision", 8, 2)
    group = mine["spec"]["resourceGroups"][0]
    group["coveredResources"] += ["memory"]
    group["flavors"][0]["resources"] += [{"name": "memory", "nominalQuota": "1979120929996"}]
    found = listed(Api({**scene(), "clusterqueues": [mine]}))
    text = written(found)[0]
    assert "1.8Ti" in text
    assert "1979120929996" not in text
    assert "1979120929996" in written(found, output="json")[0]


def test_a_vendor_that_a_flavor_does_not_have_is_left_out(written: Callable[..., tuple[str, str]]) -> None:
    """Kueue's flavors name every resource of their group; only a queue without any keeps the zero."""
    mine = queue("vision", 8, 2)
    group = mine["spec"]["resourceGroups"][0]
    other = "nvidia.com/gpu"
    group["coveredResources"] += [other]
    group["flavors"][0]["resources"] += [{"name": other, "nominalQuota": "0"}]
    alone = {"name": "h100", "resources": [{"name": GPU, "nominalQuota": "0"}]}

    def amounts(flavors: list[Object]) -> list[tuple[str, str]]:
        group["flavors"] = flavors
        lines = written(listed(Api({**scene(), "clusterqueues": [mine]})))[0].partition("\n\n")[0]
        return [(line.split()[2], line.split()[3]) for line in lines.splitlines()[1:]]

    mi300x = group["flavors"][0]
    assert amounts([mi300x]) == [("mi300x", GPU), ("mi300x", other)]
    alone["resources"].append({"name": other, "nominalQuota": "4"})
    assert amounts([mi300x, alone]) == [("mi300x", GPU), ("h100", other)]


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("memory", "123695058124", "115.2Gi"),
        ("memory", "64Gi", "64Gi"),
        ("memory", "1000", "1000"),
        ("ephemeral-storage", "1536Mi", "1.5Gi"),
        ("hugepages-2Mi", "1048576", "1Mi"),
        ("cpu", "500m", "500m"),
        (GPU, "2048", "2048"),
        ("memory", "", ""),
    ],
)
def test_an_amount_for_people(resource: str, amount: str, text: str) -> None:
    """Bytes have the largest unit that fits; what is counted stays a number."""
    assert readable_amount(resource, amount) == text


@pytest.mark.parametrize("width", [60, 80, 200])
def test_the_pages_at_several_widths(written: Callable[..., tuple[str, str]], width: int) -> None:
    """No line is longer than the terminal, no word is cut, and nothing is left out."""
    api = Api(scene())
    everything = written(listed(api), width, color=False)[0]
    one = written(described(api), width, color=False)[0]
    text = f"$ kaiwo queue\n{everything}\n$ kaiwo queue vision\n{one}"
    assert max(len(line) for line in text.splitlines()) <= width
    assert_golden(text, GOLDEN / f"queue_{width}.txt")


def test_a_pipe_gets_plain_columns(written: Callable[..., tuple[str, str]]) -> None:
    """One line for each quota, whatever its length."""
    lines = written(listed(Api(scene())))[0].splitlines()
    assert lines[2].split() == ["vision", "research", "mi300x", GPU, "8", "10", "2", "0", "2", "61"]


def test_who_holds_the_quota_and_does_not_run_is_named() -> None:
    """An admitted job that can never start holds quota; those that wait for it learn of it and its cause."""
    found = described(Api(scene()))
    large = next(item for item in found.waiting if item.workload.name == "large")
    assert [(item.workload.name, item.message) for item in large.needs[0].held_by] == [
        ("first", ""),
        ("stuck", "STARTING/ImagePullBackOff: image registry.example/x:1 does not exist"),
    ]
    assert [(item.workload.name, item.reason) for item in large.went_first] == [
        ("stuck", "queue is BestEffortFIFO: it requests no more, and fitted while this one did not")
    ]
    assert [(item.workload.name, item.reason) for item in large.ahead] == [
        ("urgent", "higher priority (100, this one 0)")
    ]
    assert large.estimate == "2026-01-01T13:10:00Z"
    assert (
        large.estimate_basis
        == "if KaiwoJob team/first ends with its `duration`, which does not end it by itself"
    )
    assert not large.estimate_is_latest


def test_an_enforced_time_limit_gives_a_latest_start() -> None:
    """Kubernetes ends a Job at its activeDeadlineSeconds, and so the one that waits for it starts then."""
    objects = scene()
    objects["kaiwojobs"][0]["spec"] = {"job": {"spec": {"activeDeadlineSeconds": 7200}}}
    urgent = described(Api(objects)).waiting[0]
    assert urgent.estimate == "2026-01-01T13:10:00Z"
    assert urgent.estimate_basis == "at the latest end of `activeDeadlineSeconds` of KaiwoJob team/first"
    assert urgent.estimate_is_latest


def test_workloads_that_are_not_of_kaiwo_count(written: Callable[..., tuple[str, str]]) -> None:
    """A plain Job stands in the queue under its own kind."""
    found = described(Api(scene()))
    assert [
        (item.workload.kind, item.position) for item in found.waiting if item.workload.name == "plain"
    ] == [("Job", 3)]
    assert "Job team/plain" in written(found)[0]


def test_a_forged_label_names_nobody() -> None:
    """Anybody may label pods as a KaiwoJob's; the queued object is shown where there is no such KaiwoJob."""
    objects = scene()
    objects["kaiwojobs"] = [job for job in objects["kaiwojobs"] if job["metadata"]["name"] != "first"]
    holder = described(Api(objects)).holders[0].workload
    assert (holder.kind, holder.name, holder.user) == ("Job", "first", "")


def test_json_is_the_record(written: Callable[..., tuple[str, str]]) -> None:
    """Programs get fields in camel case, the same as the client's records."""
    found = json.loads(written(described(Api(scene())), output="json")[0])
    assert found["queue"]["quotas"][0]["borrowed"] == "2"
    assert found["waiting"][0]["estimateBasis"].startswith("if KaiwoJob team/first ends with its `duration`")
    assert set(json.loads(written(listed(Api(scene())), output="json")[0])) == {"items", "unplaced", "unseen"}
    assert written(listed(Api(scene())), output="name")[0] == "speech\nvision\n"


@pytest.mark.parametrize(
    ("kinds", "queues", "unseen"),
    [
        pytest.param(
            "workloads localqueues kaiwojobs kaiwoservices", ["vision"],
            [
                "quotas and cohorts", "positions, and workloads of other namespaces",
                "who else may use a queue",
            ],
            id="one namespace",
        ),
        pytest.param(
            "localqueues", ["vision"],
            ["quotas and cohorts", "workloads and their order", "who else may use a queue"],
            id="queues only",
        ),
        pytest.param(
            "workloads", ["vision"],
            [
                "quotas and cohorts", "positions, and workloads of other namespaces",
                "who may use a queue",
            ],
            id="workloads only",
        ),
        pytest.param(
            "", [], ["quotas and cohorts", "workloads and their order", "who may use a queue"], id="nothing"
        ),
    ],
)  # fmt: skip
def test_missing_rights_are_named_and_the_rest_is_shown(
    written: Callable[..., tuple[str, str]], kinds: str, queues: list[str], unseen: list[str]
) -> None:
    """A scientist who may list her namespace alone sees her queue, and which rights are missing."""
    found = listed(Api(scene(), allowed="team", kinds=kinds))
    assert [item.name for item in found.items] == queues
    assert [text.partition(":")[0] for text in found.unseen] == unseen
    out, err = written(found)
    assert all(f"warning: not shown: {text}" in err for text in unseen)
    assert ("vision" in out) is bool(queues)


def test_expired_credentials_are_no_missing_right() -> None:
    """401 is reported as it is, not as an empty cluster."""

    class Expired(Api):
        """Knows nobody."""

        async def list(self, kind: Resource, namespace: str | None = None) -> AsyncIterator[Object]:
            """Refuse."""
            if kind.plural:
                raise Forbidden(401, "Unauthorized", f"{kind}{namespace}")
            yield {}

    with pytest.raises(Forbidden):
        listed(Expired({}))


def test_without_kueue_or_a_queue_system_it_says_so() -> None:
    """A cluster without Kueue, and a command line without the plugin."""
    with pytest.raises(QueuesUnknown, match="kueue is not installed"):
        listed(Api({"kaiwojobs": [], "kaiwoservices": []}))
    plugins = load(PluginSelection(names=("batch_job",)))
    with pytest.raises(QueuesUnknown, match="no queue system is loaded"):
        asyncio.run(list_queues(Api({}), plugins, "team"))  # type: ignore[arg-type]  # as above


def test_an_unknown_queue_gets_a_suggestion() -> None:
    """A misspelt name, and the exit code of what is not found."""
    with pytest.raises(QueueNotFound, match='queue "visoin" not found') as error:
        described(Api(scene()), "visoin")
    assert error.value.exit_code == 3
    assert error.value.next_step == (
        'did you mean "vision"?; kaiwo status visoin shows the place of a workload'
    )


def test_an_empty_cluster_says_what_to_do(written: Callable[..., tuple[str, str]]) -> None:
    """No queues: who makes one, and how."""
    empty: dict[str, list[Object]] = {name: [] for name in scene()}
    out, err = written(listed(Api(empty)))
    assert (out, err.startswith("no queues; an administrator makes one")) == ("", True)


def test_what_one_workload_waits_for() -> None:
    """For ``kaiwo status`` and ``kaiwo why``; one that runs waits for nothing."""
    objects = scene()
    for name, positions in (("urgent", [1]), ("first", [])):
        job = next(obj for obj in objects["kaiwojobs"] if obj["metadata"]["name"] == name)
        waits = asyncio.run(waits_of(Api(objects), PLUGINS, job))  # type: ignore[arg-type]  # as above
        assert [item.position for item in waits] == positions


def test_escape_sequences_of_others_are_not_written(written: Callable[..., tuple[str, str]]) -> None:
    """A message of the cluster cannot move the cursor."""
    objects = scene()
    for workload in objects["workloads"]:
        workload["metadata"]["ownerReferences"][0]["name"] = "\x1b[2Jgone"
        workload["status"]["conditions"][0]["message"] = "\x1b[2Jgone"
    objects["kaiwojobs"] = []
    stray = {**objects["workloads"][4], "metadata": {**objects["workloads"][4]["metadata"], "uid": "u"}}
    stray["spec"] = {**stray["spec"], "queueName": "absent"}
    objects["workloads"].append(stray)
    for width in (0, 60):
        pages = (listed(Api(objects)), described(Api(objects)))
        for page in pages:
            out = written(page, width, output="wide", color=False)[0]
            assert "gone" in out
            assert "\x1b[2J" not in out


def test_a_long_queue_is_shortened_and_wide_shows_all(written: Callable[..., tuple[str, str]]) -> None:
    """Sixty wait: fifty lines and a number."""
    objects = scene()
    objects["workloads"] += [queued(f"more-{n}", 1, n % 60) for n in range(60)]
    found = described(Api(objects))
    assert len(found.waiting) == 64
    assert "  and 14 more (-o wide)\n" in written(found)[0]
    assert "and 14 more" not in written(found, output="wide")[0]
    assert [item.explained for item in found.waiting].count(True) == 50


@pytest.mark.parametrize("attribute", ["usage", "usage_paths"])
def test_a_queue_system_that_fails_is_named(attribute: str) -> None:
    """Status and why go on without the queue, and the error is not called a defect of Kaiwo."""

    def fail(_: object) -> None:
        raise KeyError("quota")

    broken = replace(
        PLUGINS,
        loaded=tuple(
            replace(
                plugin,
                queue_systems=tuple(replace(system, **{attribute: fail}) for system in plugin.queue_systems),
            )
            for plugin in PLUGINS.loaded
        ),
    )
    with pytest.raises(PluginFailed, match="plugin kueue failed to report its queues: KeyError: 'quota'"):
        asyncio.run(list_queues(Api(scene()), broken, "team"))  # type: ignore[arg-type]  # as above
