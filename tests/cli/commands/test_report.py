"""``kaiwo report``: GPU-hours from workloads, and their use from a Prometheus server."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from kaiwo.cli.commands import report as command
from kaiwo.cli.options import GlobalOptions
from kaiwo.client.errors import InvalidArgument, NotInstalled
from kaiwo.client.prometheus import PrometheusError, check_url, pod_use, read_answer, step_of, use_query
from kaiwo.client.report import GROUPS, GpuReport, attributed, gpu_report, report_of
from kaiwo.engine.errors import NotFound
from kaiwo.plugin.loader import load
from kaiwo.plugin.selection import PluginSelection
from kaiwo.plugin.vendors import Utilization
from kaiwo.testing.golden import assert_golden

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from kaiwo.engine.resource import Object

GOLDEN = Path(__file__).parents[1] / "golden"
END = datetime(2026, 1, 8, tzinfo=UTC)
START = END - timedelta(days=7)
AMD = Utilization(metric="gpu_gfx_activity")


def job(name: str, user: str, hours: int, *, gpus: int = 1, queue: str = "vision", **more: Any) -> Object:
    """A KaiwoJob that waited for an hour and has run so many until now."""
    began = END - timedelta(hours=hours)
    return {
        "kind": "KaiwoJob",
        "metadata": {
            "name": name,
            "namespace": more.get("namespace", "team"),
            "creationTimestamp": (began - timedelta(hours=1)).isoformat(),
        },
        "spec": {"user": user, "gpus": gpus, "clusterQueue": queue},
        "status": {"status": "RUNNING", "startTime": began.isoformat()},
    }


def workloads() -> list[Object]:
    """Of two users and one without a name, in two queues and two namespaces."""
    return [
        job("train", "ada@example.org", 10, gpus=4),
        job("train-more", "ada@example.org", 2, gpus=1, queue="speech"),
        job("eval", "bob@example.org", 20, namespace="other"),
        job("nobody", "", 1),
    ]


USED = {
    ("team", "train-0-abcde"): 8.0,
    ("team", "train-more-xyz12"): 1.5,
    ("other", "eval-k8s42"): 19.0,
    ("team", "deleted-job-qwert"): 3.0,
    ("gone", "train-0-abcde"): 2.0,
}


def test_groups_and_their_sum() -> None:
    """By user: reserved, used and idle hours; what no workload explains is kept apart."""
    found = report_of(workloads(), START, END, by="user", used=USED)
    rows = {row.group: row for row in found.items}
    ada = rows["ada@example.org"]
    assert (ada.workloads, ada.gpu_hours_reserved, ada.gpu_hours_used, ada.gpu_hours_idle) == (
        2,
        42,
        9.5,
        32.5,
    )
    assert ada.gpu_hours_waiting == 5
    assert list(rows) == ["ada@example.org", "bob@example.org", ""]
    assert (found.total.gpu_hours_reserved, found.total.gpu_hours_used) == (63, 28.5)
    assert found.used_by_others == 5


def test_without_prometheus_use_is_unknown_and_not_zero() -> None:
    """Nobody is called idle by a report that could not see the GPUs."""
    found = report_of(workloads(), START, END, by="queue")
    assert {(row.gpu_hours_used, row.gpu_hours_idle) for row in (*found.items, found.total)} == {(None, None)}
    assert "--prometheus" in found.sources.used
    assert any("deleted" in text for text in found.unseen)


def test_a_pod_belongs_to_the_longest_name() -> None:
    """``train-more-xyz`` is a pod of train-more, although train is a start of it, too."""
    shares, others = attributed(workloads(), USED)
    assert shares == {
        ("KaiwoJob", "team", "train"): 8.0,
        ("KaiwoJob", "team", "train-more"): 1.5,
        ("KaiwoJob", "other", "eval"): 19.0,
    }
    assert others == 5


@given(
    st.lists(
        st.builds(
            job,
            st.from_regex(r"[a-z]{1,4}(-[a-z]{1,4})?", fullmatch=True),
            st.sampled_from(["ada", "bob", ""]),
            st.integers(-5, 300),
            gpus=st.integers(0, 8),
            queue=st.sampled_from(["a", "b"]),
        ),
        max_size=8,
    ),
    st.dictionaries(
        st.tuples(st.just("team"), st.from_regex(r"[a-z]{1,4}(-[a-z]{1,4}){1,2}", fullmatch=True)),
        st.floats(0, 100),
        max_size=8,
    ),
)
def test_every_grouping_has_the_same_sum(objects: list[Object], used: dict[tuple[str, str], float]) -> None:
    """No hour is dropped or counted twice, whichever way the rows are cut."""
    shares, others = attributed(objects, used)
    assert sum(shares.values()) + others == pytest.approx(sum(used.values()))
    totals = set()
    for by in GROUPS:
        found = report_of(objects, START, END, by=by, used=used)
        assert sum(row.gpu_hours_reserved for row in found.items) == pytest.approx(
            found.total.gpu_hours_reserved, abs=0.01
        )
        totals.add((found.total.gpu_hours_reserved, found.total.workloads))
    assert len(totals) == 1


@pytest.fixture
def written(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[str, str]]:
    """What the command writes to both streams: ``written(found, "csv", width=60)``."""

    def text(found: GpuReport, form: str = "table", width: int = 0) -> tuple[str, str]:
        with pytest.MonkeyPatch.context() as patch:
            if width:
                patch.setattr("sys.stdout.isatty", lambda: True, raising=False)
                patch.setenv("COLUMNS", str(width))
            show = click.Command("show", callback=lambda: command.write(found, form))
            capsys.readouterr()
            show.main([], standalone_mode=False, obj=GlobalOptions(color=False))
        captured = capsys.readouterr()
        return captured.out, captured.err

    return text


@pytest.mark.parametrize("width", [60, 80, 200])
def test_the_table_at_several_widths(written: Callable[..., tuple[str, str]], width: int) -> None:
    """No line is longer than the terminal; sources and blind spots are on standard error."""
    out, err = written(report_of(workloads(), START, END, by="user", used=USED), width=width)
    assert max(len(line) for line in out.splitlines()) <= width
    assert_golden(out, GOLDEN / f"report_{width}.txt")
    assert {line.partition(":")[0] for line in err.splitlines()} == {
        "reserved", "used", "idle", "waiting", "not shown",
    }  # fmt: skip


def test_csv_can_be_opened_without_harm(written: Callable[..., tuple[str, str]]) -> None:
    """Names with commas and quotes survive; a name that is a formula is none in a spreadsheet."""
    objects = [job("a", '=HYPERLINK("x")', 1), job("b", 'Ada, "the first"', 1), job("c", "x\x1b[2J", 1)]
    rows = list(csv.reader(io.StringIO(written(report_of(objects, START, END, by="user"), "csv")[0])))
    assert rows[0][:4] == ["user", "workloads", "gpu_hours_reserved", "gpu_hours_used"]
    assert {row[0] for row in rows[1:]} == {'\'=HYPERLINK("x")', 'Ada, "the first"', "x [2J"}
    assert {row[3] for row in rows[1:]} == {""}


def test_json_is_the_record(written: Callable[..., tuple[str, str]]) -> None:
    """Programs get sources and blind spots with the figures."""
    found = json.loads(written(report_of(workloads(), START, END, by="user"), "json")[0])
    assert found["items"][0]["gpuHoursReserved"] == 42
    assert found["items"][0]["gpuHoursUsed"] is None
    assert set(found["sources"]) == {"reserved", "used", "idle", "waiting"}


def test_nothing_to_report_says_what_to_do(written: Callable[..., tuple[str, str]]) -> None:
    """An empty window names the ways out."""
    out, err = written(report_of([], START, END, by="user", scope="team"))
    assert out == ""
    assert err.startswith(
        "no GPU-hours in namespace team since 2026-01-01T00:00:00Z; try -A or a longer --since"
    )


class WithoutKinds:
    """Answers as an API server without Kaiwo's CRDs, in plain text."""

    async def pages(self, *_: object, **__: object) -> AsyncIterator[Any]:
        """Nothing is served here."""
        raise NotFound(404, "NotFound", "404 page not found")
        yield


def test_a_cluster_without_the_crds_is_named_as_that() -> None:
    """What is missing is the installation and no page."""
    plugins = load(PluginSelection(names=()))
    with pytest.raises(NotInstalled, match="CRDs are not installed"):
        asyncio.run(gpu_report(WithoutKinds(), plugins, None, since=timedelta(days=1)))  # type: ignore[arg-type]  # answers like a client


@pytest.mark.parametrize("url", ["prometheus:9090", "ftp://x", "http://", "", "file:///etc/passwd"])
def test_other_than_web_servers_are_refused(url: str) -> None:
    """Before anything is sent."""
    with pytest.raises(InvalidArgument, match="expected a URL such as"):
        check_url(url)


def test_the_query_takes_fewer_samples_of_longer_windows() -> None:
    """A sample counts for the time until the next one, so that the hours do not depend on the step."""
    assert [step_of(hours * 3600) for hours in (1, 24, 24 * 7, 24 * 365)] == [60, 60, 420, 3600]
    assert use_query(AMD, 3600, 60) == (
        "sum by (namespace, pod, exported_namespace, exported_pod) "
        "(sum_over_time(gpu_gfx_activity[3600s:60s])) * 60 / 360000"
    )


@pytest.mark.parametrize(
    ("values", "hours"),
    [(["1.5"], 1.5), (["1", "2"], 3), (["NaN"], None), (["+Inf"], None), (["-1"], None), ([None], None)],
)
def test_samples_that_are_no_hours_count_nothing(values: list[Any], hours: float | None) -> None:
    """An exporter may write anything."""
    sample = [{"metric": {"namespace": "n", "pod": "p"}, "value": [0, value]} for value in values]
    found = read_answer({"status": "success", "data": {"result": sample}}, AMD)
    assert found.get(("n", "p")) == hours


def test_use_belongs_to_the_pod_that_the_exporter_names() -> None:
    """Without honorLabels Prometheus renames its labels, and ``pod`` is that of the exporter itself."""
    scraped = {"namespace": "gpu-operator", "pod": "dcgm-exporter-x"}
    labels = {**scraped, "exported_namespace": "team", "exported_pod": "train-0"}
    results = [{"metric": labels, "value": [0, "2"]}, {"metric": {}, "value": [0, "3"]}]
    found = read_answer({"status": "success", "data": {"result": results}}, AMD)
    assert found == {("team", "train-0"): 2.0}


@pytest.mark.parametrize(
    "answer", [None, [], {}, {"status": "error", "error": "too many"}, {"status": "success"}]
)
def test_an_error_of_prometheus_is_reported(answer: Any) -> None:
    """Its own words, and no report that looks complete."""
    with pytest.raises(PrometheusError, match="query rejected by Prometheus"):
        read_answer(answer, AMD)


class Server:
    """A web server that answers like Prometheus."""

    def __init__(self, answer: str, status: int = 200) -> None:
        self.answer = answer
        self.status = status
        self.queries: list[str] = []

    async def handle(self, request: web.Request) -> web.Response:
        """Answer a query."""
        self.queries.append(request.query["query"])
        return web.Response(text=self.answer, status=self.status)

    async def ask(self, vendors: list[Utilization]) -> dict[tuple[str, str], float]:
        """The use that the client reads."""
        app = web.Application()
        app.router.add_get("/prefix/api/v1/query", self.handle)
        runner = web.AppRunner(app)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            host, port = runner.addresses[0][:2]
            return await pod_use(f"http://ada:secret@{host}:{port}/prefix/", vendors, START, END)
        finally:
            await runner.cleanup()


def test_all_vendors_are_asked_and_added() -> None:
    """One query for each vendor's metric; the URL may have a path."""
    sample = {"metric": {"namespace": "team", "pod": "train-0"}, "value": [0, "2"]}
    server = Server(json.dumps({"status": "success", "data": {"result": [sample]}}))
    nvidia = Utilization(metric="DCGM_FI_DEV_GPU_UTIL")
    assert asyncio.run(server.ask([AMD, nvidia])) == {("team", "train-0"): 4.0}
    assert [query.partition("sum_over_time(")[2].partition("[")[0] for query in server.queries] == [
        "gpu_gfx_activity", "DCGM_FI_DEV_GPU_UTIL",
    ]  # fmt: skip


@pytest.mark.parametrize(("text", "status"), [("<html>", 200), ("bad gateway", 502), ("", 500)])
def test_what_is_not_prometheus_is_named_without_the_password(text: str, status: int) -> None:
    """A login page or a broken proxy is no empty report."""
    with pytest.raises(PrometheusError, match="answers with") as error:
        asyncio.run(Server(text, status).ask([AMD]))
    assert "secret" not in str(error.value)


def test_no_server_at_all() -> None:
    """Refused connections end with one line that names the server."""
    with pytest.raises(PrometheusError, match=r"no answer from Prometheus at http://127\.0\.0\.1:1") as error:
        asyncio.run(pod_use("http://ada:secret@127.0.0.1:1", [AMD], START, END))
    assert "secret" not in str(error.value)
