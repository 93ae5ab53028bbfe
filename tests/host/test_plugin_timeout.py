"""A plugin that does not return is interrupted and then left alone for a while."""

from __future__ import annotations

import re
import signal
import threading
import time
from typing import TYPE_CHECKING

import pytest

from kaiwo.engine.workqueue import Key
from kaiwo.host.plugin_timeout import MANY, SUSPECT_SECONDS, PluginHung, TimeLimit

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def clock() -> list[float]:
    """A clock that stands still."""
    return [0.0]


@pytest.fixture
def limit(clock: list[float]) -> Iterator[TimeLimit]:
    """A guard with a short limit."""
    with TimeLimit(0.05, clock=lambda: clock[0]) as guard:
        yield guard


def loop_for_ever() -> None:
    """Compute without end."""
    while True:
        pass


def swallow_everything() -> None:
    """Compute without end, and take any error for a reason to go on."""
    while True:
        try:
            loop_for_ever()
        except Exception:  # noqa: BLE001, S112  the badly behaved plugin of this test
            continue


@pytest.mark.parametrize("hang", [loop_for_ever, swallow_everything, lambda: time.sleep(60)])
def test_code_that_hangs_is_interrupted(limit: TimeLimit, hang: object) -> None:
    """Endless loops, blocking calls, and code that swallows exceptions: each ends after the limit."""
    guarded = limit.wrap("acme", "render of plugin acme", hang)
    started = time.monotonic()
    with pytest.raises(PluginHung, match=re.escape("render of plugin acme did not return within 0.05 s")):
        guarded()
    assert time.monotonic() - started < 5


def test_results_and_errors_pass_through(limit: TimeLimit) -> None:
    """Code that returns is not changed in any way."""
    assert limit.wrap("acme", "x", lambda a, *, b: a + b)(1, b=2) == 3
    with pytest.raises(KeyError):
        limit.wrap("acme", "x", lambda: {}["no"])()
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


BAD, GOOD, FOREIGN = Key("team", "bad"), Key("team", "good"), Key("other", "bad")


def hang(limit: TimeLimit, key: Key) -> None:
    """Let plugin acme hang while it renders a workload."""
    with limit.planning(key), pytest.raises(PluginHung):
        limit.wrap("acme", "render", loop_for_ever)()


def limit_for(limit: TimeLimit, key: Key, plugin: str = "acme") -> float:
    """Seconds that a plugin has for a workload."""
    with limit.planning(key):
        return limit.limit_of(plugin)


def test_a_workload_that_made_a_plugin_hang_gets_a_short_limit_for_a_while(
    limit: TimeLimit, clock: list[float]
) -> None:
    """It costs little each time it is tried again; no other workload is concerned; trust comes back."""
    full = limit_for(limit, BAD)
    hang(limit, BAD)
    started = time.monotonic()
    for _ in range(20):
        hang(limit, BAD)
    assert time.monotonic() - started < 20 * full
    assert limit_for(limit, BAD) < full
    assert [limit_for(limit, key) for key in (GOOD, FOREIGN)] == pytest.approx([full, full])
    assert limit_for(limit, BAD, "other") == pytest.approx(full)
    clock[0] += SUSPECT_SECONDS
    assert limit_for(limit, BAD) == pytest.approx(full)


def test_many_workloads_that_make_a_plugin_hang_shorten_the_limit_of_their_namespace_alone(
    limit: TimeLimit,
) -> None:
    """A thousand of them must not stop the operator, nor take anything from another tenant."""
    full = limit_for(limit, GOOD)
    for number in range(MANY):
        assert limit_for(limit, GOOD) == pytest.approx(full)
        hang(limit, Key("team", f"bad-{number}"))
    assert limit_for(limit, GOOD) < full
    assert limit_for(limit, FOREIGN) == pytest.approx(full)


def test_what_hung_long_ago_is_forgotten_in_all_namespaces(limit: TimeLimit, clock: list[float]) -> None:
    """Whoever may make namespaces makes this memory no larger for good."""
    for number in range(5):
        hang(limit, Key(f"team-{number}", "bad"))
    assert len(limit._suspects) == 5
    clock[0] += SUSPECT_SECONDS
    hang(limit, BAD)
    assert list(limit._suspects) == [("acme", "team")]


def test_all_calls_for_one_plan_share_one_limit(limit: TimeLimit, clock: list[float]) -> None:
    """A thousand slow calls for a thousand items do not take a thousand times as long as one."""

    def slow() -> None:
        clock[0] += 0.04

    call = limit.wrap("acme", "check", slow)
    with limit.planning(BAD):
        call()
        assert limit.limit_of("acme") == pytest.approx(0.01)
        call()
        assert limit.limit_of("acme") == pytest.approx(0.001)
    assert limit_for(limit, BAD) == pytest.approx(0.05)


def test_a_guarded_call_inside_another_runs_under_the_outer_limit(limit: TimeLimit) -> None:
    """Nested calls neither fail nor end the outer limit."""
    inner = limit.wrap("inner", "inner", lambda: "value")
    outer = limit.wrap("outer", "outer", lambda: (inner(), loop_for_ever()))
    with pytest.raises(PluginHung, match="outer"):
        outer()


def test_outside_the_main_thread_calls_run_unguarded() -> None:
    """A command or test that plans in a thread works the same."""
    result: list[str] = []

    def work() -> None:
        with TimeLimit(0.05) as guard:
            result.append(guard.wrap("acme", "x", lambda: "done")())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert result == ["done"]
