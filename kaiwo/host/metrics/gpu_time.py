"""Adds up GPU time by queue and user, as counters that a later process continues."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from kaiwo.host.metrics.figures import UNIT
from kaiwo.host.metrics.reason_classes import OTHER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kaiwo.host.metrics.figures import Figures

GpuLabels: TypeAlias = Literal["none", "queue", "user"]
"""What GPUs are told apart by: nothing, the queue, or queue and user."""

Owner: TypeAlias = tuple[str, str]
"""Queue and user, as far as they are told apart."""

MOST_OWNERS: Final = 500
"""Queues and users with figures of their own; those of all further ones are added up.

Of these, half at most are only waited for: many waiting workloads, each with another name of a user, must not
take the place of those who hold GPUs.
"""

LONGEST_USER: Final = 254
"""Characters of a user with figures of their own, as many as an e-mail address may have: the record of all
owners has to fit into a ConfigMap, which takes 1 MiB."""

_OTHERS: Final = (OTHER, OTHER)


@dataclass(slots=True)
class Account:
    """GPUs of one owner now, and GPU time so far.

    Attributes:
        pending: GPUs waited for.
        reserved: GPUs held, in thousandths, as the next two.
        used: those that are used.
        idle: those that are known not to be used.
        seconds: reserved, used and idle GPU-seconds.
    """

    pending: int = 0
    reserved: int = 0
    used: int = 0
    idle: int = 0
    seconds: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    _since: float = 0.0

    @property
    def is_empty(self) -> bool:
        """Whether no GPUs are waited for or held, nor were held."""
        return not (self.pending or self.reserved or any(self.seconds))

    @property
    def only_waits(self) -> bool:
        """Whether GPUs are waited for, and none are or were held."""
        return not self.reserved and not any(self.seconds)

    def settle(self, now: float) -> None:
        """Add the time until now."""
        elapsed = max(0.0, now - self._since) / UNIT
        self._since = now
        for at, rate in enumerate((self.reserved, self.used, self.idle)):
            self.seconds[at] += rate * elapsed

    def begin(self, now: float) -> None:
        """Count from now on."""
        self._since = now


class GpuTime:
    """The accounts of all owners.

    GPUs are followed always. Time is added up only while `counting`: in the process that leads.

    Accounts outlive their workloads, and names of users may be made up, so their number has a bound:
    `MOST_OWNERS`, and one for all others. Where one more is needed, the account with the least time, of those
    that hold no GPUs and wait for none, is added to that of the others. So no sum goes back, and who wants to
    displace an account has to hold GPUs for longer under as many other names.

    Attributes:
        counting: whether time is added up.
    """

    def __init__(self, labels: GpuLabels, clock: Callable[[], float]) -> None:
        """Start without workloads.

        Args:
            labels: what is told apart.
            clock: monotonic seconds.
        """
        self.counting = False
        self._labels = labels
        self._clock = clock
        self._accounts: dict[Owner, Account] = {}

    def add(self, figures: Figures) -> Owner | None:
        """Count a workload.

        Returns:
            Whose it counts as, for `remove`; None where it neither holds GPUs nor waits for any.
        """
        if not figures.pending and not figures.reserved:
            return None
        owner = self._owner(figures.queue, figures.user, holds=figures.reserved > 0)
        self._change(self._account(owner), figures, 1)
        return owner

    def remove(self, figures: Figures, owner: Owner | None) -> None:
        """Count a workload no longer.

        Args:
            figures: as they were added.
            owner: what `add` returned.
        """
        if owner is not None:
            self._change(self._accounts[owner], figures, -1)

    def accounts(self) -> Iterator[tuple[Owner, Account]]:
        """The accounts as of now."""
        now = self._clock()
        for owner, account in self._accounts.items():
            if self.counting:
                account.settle(now)
            yield owner, account

    def begin(self, record: object) -> None:
        """Continue from what an earlier process recorded.

        Args:
            record: what `record` returned; anything else counts as nothing.
        """
        now = self._clock()
        for account in self._accounts.values():
            account.seconds = [0.0, 0.0, 0.0]
        for queue, user, seconds in _read(record):
            account = self._account(self._owner(queue, user))
            account.seconds = [a + b for a, b in zip(account.seconds, seconds, strict=True)]
        for account in self._accounts.values():
            account.begin(now)
        self.counting = True

    def stop(self) -> None:
        """Count no more; another process leads."""
        self.counting = False

    def record(self) -> list[list[Any]]:
        """The time so far, as JSON."""
        return [
            [*owner, *(round(part, 3) for part in account.seconds)]
            for owner, account in sorted(self.accounts())
            if any(account.seconds)
        ]

    def add_reserved(self, queue: str, user: str, seconds: float) -> None:
        """Add time for which GPUs were held while no process counted."""
        self._account(self._owner(queue, user)).seconds[0] += seconds

    @property
    def in_use(self) -> bool:
        """Whether any GPU is held."""
        return any(account.reserved for account in self._accounts.values())

    def _change(self, account: Account, figures: Figures, sign: int) -> None:
        if self.counting:
            account.settle(self._clock())
        held = figures.reserved * UNIT
        account.pending += sign * figures.pending
        account.reserved += sign * held
        if figures.used is not None:
            account.used += sign * figures.used
            account.idle += sign * (held - figures.used)

    def _owner(self, queue: str, user: str, *, holds: bool = True) -> Owner:
        """Whose account counts something.

        Args:
            queue: of a workload.
            user: of a workload.
            holds: whether GPUs are or were held; False where they are only waited for.
        """
        if self._labels != "user":
            user = ""
        owner = ("" if self._labels == "none" else queue, user if len(user) <= LONGEST_USER else OTHER)
        if owner in self._accounts or owner == _OTHERS:
            return owner
        if self._is_full(holds=holds):
            self._make_room(holds=holds)
        return _OTHERS if self._is_full(holds=holds) else owner

    def _is_full(self, *, holds: bool) -> bool:
        if len(self._accounts) - (_OTHERS in self._accounts) >= MOST_OWNERS:
            return True
        return not holds and sum(account.only_waits for account in self._accounts.values()) >= MOST_OWNERS / 2

    def _make_room(self, *, holds: bool) -> None:
        """Free the accounts that say nothing, else the one that says the least."""
        kept = {name: account for name, account in self._accounts.items() if not account.is_empty}
        self._accounts = kept
        if not holds or not self._is_full(holds=True):
            return
        free = [name for name, one in kept.items() if not (one.pending or one.reserved or name == _OTHERS)]
        if free:
            least = kept.pop(min(free, key=lambda name: kept[name].seconds[0]))
            others = self._account(_OTHERS)
            others.seconds = [a + b for a, b in zip(others.seconds, least.seconds, strict=True)]

    def _account(self, owner: Owner) -> Account:
        found = self._accounts.get(owner)
        if found is None:
            found = self._accounts[owner] = Account()
            found.begin(self._clock())
        return found


def _read(record: object) -> Iterator[tuple[str, str, list[float]]]:
    """Queue, user and seconds; what is malformed is passed over, so that nobody's edit stops the operator."""
    for item in record if isinstance(record, list) else ():
        match item:
            case [str(queue), str(user), *numbers] if len(numbers) == 3:  # noqa: PLR2004  reserved, used, idle
                if all(_is_time(number) for number in numbers):
                    yield queue, user, [float(number) for number in numbers]


def _is_time(value: object) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and math.isfinite(value)
        and 0 <= value < 1e15  # noqa: PLR2004  thirty million years of one GPU
    )
