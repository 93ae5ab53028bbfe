"""When another case may start."""

from __future__ import annotations

from campaign.machine import Machine, Sample, parse

STAT = """cpu  100 0 50 700 300 0 0 0 0 0
cpu0 50 0 25 350 150 0 0 0 0 0
ctxt 1
procs_running 5
"""


class Clock:
    """A machine under a clock of the test."""

    def __init__(self) -> None:
        self.now, self.idle, self.runnable = 100.0, 1000.0, 0

    def time(self) -> float:
        """Seconds."""
        return self.now

    def sample(self) -> Sample:
        """The machine at this moment."""
        return Sample(self.idle, self.runnable)


def _machine(clock: Clock) -> Machine:
    return Machine(clock.sample, clock.time, cores=2)


def _pass(clock: Clock, machine: Machine, seconds: float) -> None:
    for _ in range(int(seconds * 4)):
        clock.now += 0.25
        machine.observe()


def test_the_time_for_which_the_disk_is_waited_for_is_idle() -> None:
    """A core that waits for a disk can do something else."""
    assert parse(STAT, ticks=100) == Sample(idle=10.0, runnable=5)


async def test_no_case_starts_while_threads_wait_for_a_core() -> None:
    """Cases that run would get slower until they fail."""
    clock = Clock()
    machine = _machine(clock)
    machine.running = 20
    clock.runnable = 6
    await machine.admit(1.0)
    _pass(clock, machine, 10)
    assert not machine.has_time()


async def test_a_case_starts_as_soon_as_a_core_is_idle() -> None:
    """Time in which nothing runs is lost."""
    clock = Clock()
    machine = _machine(clock)
    machine.running = 20
    clock.runnable = 6
    await machine.admit(1.0)
    _pass(clock, machine, 10)
    clock.runnable = 1
    _pass(clock, machine, 4)
    assert machine.has_time()


async def test_cases_do_not_start_before_the_work_of_the_one_before_shows() -> None:
    """All that wait would start at once on a machine that is idle at one moment."""
    clock = Clock()
    machine = _machine(clock)
    await machine.admit(8.0)
    _pass(clock, machine, 1.5)
    assert not machine.has_time()
    _pass(clock, machine, 1.0)
    assert machine.has_time()


async def test_cases_go_on_beside_other_work() -> None:
    """The later, the more of them run already."""
    clock = Clock()
    machine = _machine(clock)
    clock.runnable = 50
    machine.running = 5
    await machine.admit(1.0)
    _pass(clock, machine, 4)
    assert not machine.has_time()
    _pass(clock, machine, 2)
    assert machine.has_time()


def test_how_much_was_idle_is_a_share_of_all_cores() -> None:
    """Who makes the campaign quicker reads it first."""
    clock = Clock()
    machine = _machine(clock)
    clock.now += 100
    clock.idle += 50
    assert str(machine) == "2 cores, idle for 50 of 200 s (25%)"
