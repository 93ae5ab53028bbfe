"""How ``kaiwo doctor`` writes its report, and its exit code, without a cluster."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kaiwo.cli import kit
from kaiwo.cli.commands import doctor
from kaiwo.client.doctor import run
from kaiwo.client.doctor.result import DoctorCheck, DoctorReport, DoctorScope
from kaiwo.engine.errors import ConnectionBroken, Forbidden
from kaiwo.plugin.registry import Plugins

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

HOSTILE = DoctorCheck(name="gpus", state="failed", message="node \x1b[2J[red]x\u202e", fix="kubectl \x07 get")


def test_a_fix_stands_below_its_check_and_nothing_escapes() -> None:
    """Names of nodes and messages come from the cluster."""
    assert doctor.lines(HOSTILE, marks=doctor.MARKS) == [
        "✘ failed  gpus: node  [2J[red]x ",
        "          fix: kubectl   get",
    ]
    assert doctor.lines(HOSTILE, marks=doctor.ASCII_MARKS)[0].startswith("x failed")


def test_the_summary_counts_the_states() -> None:
    """Zero is left out."""
    fine = DoctorCheck(name="a", state="ok", message="")
    assert doctor.summary(DoctorReport(checks=(fine, fine, HOSTILE), failed=1)) == "2 ok, 1 failed"


def test_an_api_server_that_does_not_answer_is_one_failed_check(
    cli: Callable[..., Any], home: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 1 and one line instead of fifteen that say the same; JSON carries it as a record."""
    kubeconfig = home / "kubeconfig"
    kubeconfig.write_text(
        json.dumps(
            {
                "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "users": [{"name": "u", "user": {}}],
                "current-context": "x",
            }
        )
    )
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    result = cli("doctor", "-o", "json")
    report = json.loads(result.out)
    assert result.code == kit.FAILED
    assert (report["failed"], [check["name"] for check in report["checks"]]) == (1, ["api-server"])
    assert report["checks"][0]["fix"].startswith("kubectl cluster-info")
    table = cli("doctor")
    assert "✘ failed  api-server: http://127.0.0.1:9" in table.out
    assert (table.code, table.err) == (kit.FAILED, "1 failed\n")


class HalfDeadApi:
    """An API server that answers /version and then nothing, in different ways."""

    class connection:  # noqa: N801  stands for an attribute
        """Where it is."""

        server = "https://api"

    def server_time(self) -> None:
        """No clock."""

    async def get_json(self, path: str) -> Any:
        """Answers only the first check."""
        if path == "/version":
            return {"gitVersion": "v1"}
        raise ConnectionBroken("reset")

    async def get(self, *_: Any) -> Any:
        """Never allowed."""
        raise Forbidden(403, message='cannot get resource "x" in API group "g" at the cluster scope')

    async def served(self, kinds: Any) -> Any:
        """Everything."""
        return frozenset(kinds)

    async def create(self, *_: Any) -> Any:
        """A defect."""
        raise ZeroDivisionError

    async def list(self, *_: Any, **__: Any) -> Any:
        """Never answers."""
        import asyncio

        await asyncio.sleep(60)
        yield {}


async def test_one_bad_check_neither_delays_nor_hides_the_others() -> None:
    """What hangs, is denied, breaks or has a defect stays with its check."""
    from kaiwo.plugin.loader import load

    scope = DoctorScope(load(), "team", operator="kaiwo-operator", installation="kaiwo-system")
    report = await run.check_cluster(HalfDeadApi(), scope, timeout=0.3)  # type: ignore[arg-type]
    found = {check.name: (check.state, check.message) for check in report.checks}
    assert found["api-server"][0] == "ok"
    assert found["rights"] == ("unknown", "internal error: ZeroDivisionError: ")
    assert found["gpus"] == ("unknown", "no answer within 0.3 s")
    assert found["config"] == ("unknown", "not allowed to get x.g in the cluster")
    assert found["ray.io"] == ("unknown", "no answer: reset")
    assert report.failed == 0


async def test_without_plugins_the_core_is_still_checked() -> None:
    """The host names no plugin."""
    scope = DoctorScope(Plugins(), "team", operator="kaiwo-operator", installation="kaiwo-system")
    report = await run.check_cluster(HalfDeadApi(), scope, timeout=0.1)  # type: ignore[arg-type]
    assert {"api-server", "rights", "crds", "config", "webhooks"} <= {check.name for check in report.checks}
