"""``kaiwo manage`` with a fake source: what is on the screen, and what the keys do."""

from __future__ import annotations

import asyncio
import statistics
import time
from pathlib import Path
from typing import Any

import pytest

from kaiwo.cli.manage.screens import shown_line
from kaiwo.engine.errors import Forbidden
from kaiwo.testing import assert_golden

GOLDEN = Path(__file__).parent / "golden"
SIZES = [(80, 24), (200, 60)]


@pytest.mark.parametrize("size", SIZES, ids=["80x24", "200x60"])
@pytest.mark.parametrize(
    ("screen", "keys"),
    [
        ("list", []),
        ("details", ["enter"]),
        ("logs", ["down", "l"]),
        ("delete", ["d"]),
        ("forward", ["f", "8", "0"]),
        ("help", ["question_mark"]),
        ("filter", ["slash", *"fail"]),
        ("nothing", ["slash", *"zzz", "enter"]),
    ],
)
async def test_each_screen_is_as_in_its_golden_file(
    fake: Any, screen: str, keys: list[str], size: tuple[int, int]
) -> None:
    """Errors come first, nothing is wider than the screen, and every screen names its keys."""
    source = fake.source(*fake.several())
    source.log = [["step 1", "step 2 " + "x" * 100], ["[red]done[/red]"]]
    app = fake.app(source)
    async with app.run_test(size=size) as pilot:
        await pilot.press(*keys)
        await pilot.pause(0.3 if screen == "logs" else None)
        text = fake.text(app)
    assert len(text.splitlines()) == size[1]
    assert max(map(len, text.splitlines())) <= size[0]
    assert_golden(text, GOLDEN / f"{screen}-{size[0]}x{size[1]}.txt")


async def test_all_namespaces_and_own_workloads(fake: Any) -> None:
    """-A shows the namespaces; with a known user only theirs are shown until m."""
    app = fake.app(fake.source(*fake.several()), namespace=None, user="bob")
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert [row.key.name for row in app.table.rows] == ["chat"]
        assert "workloads of bob" in fake.text(app)
        await pilot.press("m")
        assert len(app.table.rows) == 7
        assert "NAMESPACE" in fake.text(app)


async def test_a_filter_works_while_it_is_typed(fake: Any) -> None:
    """Each letter counts at once, several words must all match, Esc shows everything again."""
    app = fake.app(fake.source(*fake.several()))
    async with app.run_test() as pilot:
        await pilot.press("slash", *"job PEND")
        assert [row.key.name for row in app.table.rows] == ["waits"]
        await pilot.press("enter", "q")
        assert app.table.selected.key.name == "waits"
    async with fake.app(fake.source(*fake.several())).run_test() as pilot:
        await pilot.press("slash", "q", "escape")
        assert len(pilot.app.table.rows) == 7
        assert pilot.app.focused is pilot.app.table


async def test_the_selection_stays_with_its_workload_and_one_line_is_drawn(fake: Any) -> None:
    """A change of one workload draws one line; one that moves up does not change what is selected."""
    app = fake.app(source := fake.source(*fake.several()))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("down", "down", "down")
        assert app.table.selected.key.name == "waits"
        app.table.drawn_lines = 0
        source.change(fake.workload("train", "RUNNING", "PodsReady", age=7200, gpus=16))
        await pilot.pause()
        assert app.table.drawn_lines == 1
        source.change(fake.workload("chat", "FAILED", "X", kind="KaiwoService", age=1))
        await pilot.pause()
        assert app.table.selected.key.name == "waits"
        assert "> waits" in fake.text(app)


async def test_nothing_that_a_cluster_says_is_obeyed(fake: Any) -> None:
    """Escape sequences become blanks, rich's markup stays text; in the list, details, logs and questions."""
    evil = "\x1b[2J\x1b]0;x\x07[red]boo[/red]\u202e"
    source = fake.source(fake.workload("a", "FAILED", evil, message=evil, user=evil))
    source.page = f"Message: {evil}"
    source.log = [[evil, "[link=file:///etc]x[/link]"]]
    source.said = [evil]
    app = fake.app(source, user=evil)
    async with app.run_test(size=(200, 24)) as pilot:
        await pilot.pause()
        texts = [fake.text(app)]
        for keys in (["l"], ["escape", "d"], ["n", "enter"]):
            await pilot.press(*keys)
            await pilot.pause(0.2)
            texts.append(fake.text(app))
    assert "[red]boo[/red]" in texts[0]
    assert "[link=file:///etc]x[/link]" in texts[1]
    assert all(char.isprintable() or char == "\n" for text in texts for char in text)


async def test_problems_are_shown_while_they_last(fake: Any) -> None:
    """A lost API server or a missing right is a line, not a dialog; the list stays and the line goes."""
    app = fake.app(source := fake.source(*fake.several()))
    async with app.run_test(size=(80, 24)) as pilot:
        source.said = ["no answer from the API server, trying again"]
        app._show_state()
        await pilot.pause()
        assert "! no answer from the API server, trying again" in fake.text(app)
        assert "> typo" in fake.text(app)
        source.said = []
        app._show_state()
        await pilot.pause()
        assert "no answer" not in fake.text(app)
        assert "7 workloads: 1 error, 1 failed" in fake.text(app)


async def test_deleting_needs_a_yes(fake: Any) -> None:
    """Enter and Esc mean no; y deletes the workload that was shown, though others came above it."""
    app = fake.app(source := fake.source(*fake.several()))
    async with app.run_test() as pilot:
        await pilot.press("d", "enter", "d", "escape", "d", "n")
        assert source.deleted == []
        await pilot.press("d")
        source.change(fake.workload("first", "ERROR", age=1))
        await pilot.press("y")
        await pilot.pause()
        assert source.deleted == ["uid-typo"]
        assert "job/typo deleted" in fake.text(app)


async def test_an_error_of_a_key_is_reported_and_the_view_goes_on(fake: Any) -> None:
    """What the API server refuses stands in the state line."""
    source = fake.source(*fake.several())

    async def refuse(row: Any) -> str:
        raise Forbidden(403, message=f"kaiwojobs {row.key.name} is forbidden")

    source.delete = refuse
    source.details = refuse
    app = fake.app(source)
    async with app.run_test() as pilot:
        await pilot.press("d", "y")
        await pilot.pause()
        assert "not allowed: kaiwojobs typo is forbidden" in fake.text(app)
        await pilot.press("enter")
        await pilot.pause()
        assert "not allowed: kaiwojobs typo is forbidden" in fake.text(app)


async def test_details_are_read_again_when_their_workload_changes(fake: Any) -> None:
    """Not when another one does."""
    app = fake.app(source := fake.source(*fake.several()))
    async with app.run_test() as pilot:
        await pilot.press("enter")
        await pilot.pause()
        source.change(fake.workload("train", "FAILED"))
        await pilot.pause()
        assert source.reads == 1
        source.page = "Status: RUNNING"
        source.change(fake.workload("typo", "RUNNING", age=60))
        await pilot.pause()
        assert source.reads == 2
        assert "Status: RUNNING" in fake.text(app)
        await pilot.press("l")
        await pilot.pause(0.2)
        assert "logs of job/typo" in fake.text(app)
        await pilot.press("escape")
        assert "Enter details" in fake.text(app)


async def test_a_log_follows_its_end_until_somebody_scrolls_up(fake: Any) -> None:
    """New lines do not move what is being read; End follows again."""
    source = fake.source(*fake.several())
    go = asyncio.Event()

    async def logs(row: Any, notify: Any) -> Any:
        del row, notify
        yield [f"line {number}" for number in range(1000)]
        await go.wait()
        yield [f"line {number}" for number in range(1000, 2000)]

    source.logs = logs
    app = fake.app(source)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("l")
        await pilot.pause(0.3)
        assert "line 999" in fake.text(app)
        await pilot.press("pageup")
        before = fake.text(app)
        go.set()
        await pilot.pause(0.3)
        assert fake.text(app) == before
        await pilot.press("end")
        assert "line 1999" in fake.text(app)


async def test_a_line_of_megabytes_is_cut_on_the_screen(fake: Any) -> None:
    """A container may write without a line break; the keys work all the same."""
    assert shown_line("x" * 5000) == "x" * 4000 + " ... 1000 more characters (kaiwo logs)"
    source = fake.source(*fake.several())
    source.log = [["begin " + "\x1b[31mx" * 2_000_000, "next line"]]
    app = fake.app(source)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("l")
        await pilot.pause(0.3)
        assert "next line" in fake.text(app)
        await pilot.press("escape")
        assert "Enter details" in fake.text(app)


async def test_the_screen_changes_its_size(fake: Any) -> None:
    """The selected row stays visible, and texts are wrapped anew; a tiny screen is survived."""
    objects = [fake.workload(f"w-{number:03d}", "FAILED", age=number) for number in range(100)]
    source = fake.source(*objects)
    source.page = "Message: " + "word " * 60
    app = fake.app(source)
    async with app.run_test(size=(200, 60)) as pilot:
        await pilot.press(*["pagedown"] * 2, "up")
        name = app.table.selected.key.name
        for size in ((80, 24), (20, 5), (3, 2), (120, 30)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            assert app.table.selected.key.name == name
        assert f"> {name}" in fake.text(app)
        await pilot.press("enter")
        await pilot.pause()
        await pilot.resize_terminal(40, 24)
        await pilot.pause()
        assert sum("word" in line for line in fake.text(app).splitlines()) >= 8


async def test_details_are_laid_out_for_a_new_width(fake: Any) -> None:
    """Tables of the old width would be broken, or leave room unused; a new height changes nothing."""
    source = fake.source(fake.workload("train", "FAILED"))
    app = fake.app(source)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("enter")
        await pilot.pause(0.5)
        assert source.reads == 1
        await pilot.resize_terminal(80, 12)
        await pilot.pause(0.5)
        assert source.reads == 1
        source.page = "as wide as it is now"
        await pilot.resize_terminal(120, 24)
        for _ in range(100):
            await pilot.pause(0.05)
            if source.page in fake.text(app):
                break
        assert source.page in fake.text(app)


async def test_without_colours_the_selection_and_the_states_are_words(
    fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NO_COLOR: no cell has a colour, and nothing that matters is missing."""
    monkeypatch.setenv("NO_COLOR", "1")
    app = fake.app(fake.source(*fake.several()))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        strips = [
            strip.apply_filter(app._filters[-1], app.screen.background_colors[0])
            for strip in app.screen._compositor.render_strips()
        ]
        colors = {
            str(segment.style.color.name)
            for strip in strips
            for segment in strip
            if segment.style and segment.style.color
        }
        assert colors <= {"default"}
        assert "> typo" in fake.text(app)
        assert "ERROR" in fake.text(app)


async def test_a_port_is_forwarded_beside_the_view(fake: Any) -> None:
    """What the process says stands in the state line, its end too; letters are no port."""
    app = fake.app(fake.source(*fake.several()))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("f", "8", "x", "0", "enter")
        for _ in range(100):
            await pilot.pause(0.05)
            if "ended" in fake.text(app):
                break
        assert "port-forward to job/typo ended with exit code 0" in fake.text(app)
        assert app._forwards == []


async def test_a_terminal_that_cannot_be_left_is_reported(fake: Any) -> None:
    """A shell needs the terminal; without one nothing happens but a notice."""
    app = fake.app(fake.source(*fake.several()))
    async with app.run_test() as pilot:
        await pilot.press("e")
        assert "this terminal cannot be left to another program" in fake.text(app)


async def test_an_error_that_ends_the_reading_ends_the_view(fake: Any) -> None:
    """Bad credentials are reported by the command, after the screen is restored."""
    source = fake.source()
    source.error = Forbidden(401, message="Unauthorized")
    app = fake.app(source)
    async with app.run_test() as pilot:
        await pilot.pause()
    assert app.failure is source.error


async def test_a_key_costs_less_than_50_ms_of_cpu_with_2000_workloads(fake: Any) -> None:
    """The median of 30 keys, moving, paging and filtering; only lines on the screen are drawn."""
    words = ("RUNNING", "FAILED", "PENDING", "COMPLETE")
    objects = [fake.workload(f"w-{n:05d}", words[n % 4], "Reason", age=n) for n in range(2000)]
    app = fake.app(fake.source(*objects))
    async with app.run_test(size=(200, 60)) as pilot:
        await pilot.pause()
        spent = []
        for key in [*["down"] * 10, *["pagedown"] * 10, "slash", *"w-0001 run"]:
            app.table.drawn_lines = 0
            began = time.process_time()
            await pilot.press(key)
            spent.append(time.process_time() - began)
            # A key of the filter may draw the screen twice, and the ages once.
            assert app.table.drawn_lines <= 3 * 60
    assert statistics.median(spent) < 0.050
