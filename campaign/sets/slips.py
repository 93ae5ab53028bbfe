"""Set N: what users often write wrong, a file each in ``campaign/slips``, and the verdict it has to get.

A file begins with comments: what the slip is, how it is submitted, and words that the verdict must have::

    # The field is called gpus.
    # check: plan
    # expect: spec.gpu: unknown field

``plan`` asks no cluster; ``cluster`` is ``kaiwo plan`` with the campaign's control plane; ``why`` submits the
workload and asks ``kaiwo why``.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from campaign.arena import PLUGINS
from campaign.case import Case, StandaloneCase
from campaign.violation import ViolationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from campaign.arena import Arena

DIRECTORY: Final = Path(__file__).parents[1] / "slips"
_COMMENT: Final = re.compile(r"^# (?:(check|expect): )?(.+)$", re.MULTILINE)
_LIMIT: Final = 90.0
_PAUSE: Final = 1.0


@dataclass(frozen=True, slots=True)
class Slip:
    """A mistake of a user.

    Attributes:
        file: with the mistake.
        about: what it is.
        check: ``plan``, ``cluster`` or ``why``.
        expect: parts of the verdict.
    """

    file: Path
    about: str
    check: str
    expect: tuple[str, ...]

    def lacks(self, verdict: str) -> list[str]:
        """What a verdict does not say."""
        return [part for part in self.expect if part not in verdict]


def slips() -> list[Slip]:
    """All of them, by name of the file."""
    found = []
    for file in sorted(DIRECTORY.glob("*.yaml")):
        said: dict[str, list[str]] = {"": [], "check": [], "expect": []}
        for key, text in _COMMENT.findall(file.read_text()):
            said[key].append(text)
        found.append(Slip(file, " ".join(said[""]), said["check"][0], tuple(said["expect"])))
    return found


def standalone() -> Iterator[StandaloneCase]:
    """The slips that are found without a cluster."""
    for slip in slips():
        if slip.check == "plan":
            yield StandaloneCase("N", slip.file.stem, partial(_planned, slip))


def cases() -> Iterator[Case]:
    """The slips that only a cluster shows."""
    for slip in slips():
        if slip.check != "plan":
            yield Case("N", slip.file.stem, partial(_on_cluster, slip))


async def _kaiwo(*args: str, home: Path, kubeconfig: Path | None) -> str:
    """What ``kaiwo`` writes for its user.

    Raises:
        ViolationError: it shows a traceback.
    """
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "KAIWO_PLUGINS": PLUGINS,
        **({"KUBECONFIG": str(kubeconfig)} if kubeconfig else {}),
    }
    process = await asyncio.create_subprocess_exec(
        Path(sys.executable).with_name("kaiwo"), *args,
        env=environment, cwd=home,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await process.communicate()
    text = (out + err).decode()
    if "Traceback" in text or "internal error" in text:
        raise ViolationError("O6", f"kaiwo {' '.join(args)}: {text[-1000:]}")
    # Objects that would be created are no verdict, nor are the comments that a file begins with.
    return err.decode() if args[0] == "plan" else text


async def _planned(slip: Slip, directory: Path) -> None:
    said = await _kaiwo("plan", str(slip.file), "--offline", home=directory, kubeconfig=None)
    _compare(slip, said)


async def _on_cluster(slip: Slip, arena: Arena) -> None:
    home, kubeconfig = arena.cluster.directory, arena.cluster.sandbox.kubeconfig
    where = ("-n", arena.namespace)
    if slip.check == "cluster":
        said = await _kaiwo("plan", str(slip.file), *where, home=home, kubeconfig=kubeconfig)
        _compare(slip, said)
        return
    await _kaiwo("submit", str(slip.file), *where, home=home, kubeconfig=kubeconfig)
    name = re.findall(r"^  name: (\S+)$", slip.file.read_text(), re.MULTILINE)[0]
    for _ in range(int(_LIMIT / _PAUSE)):
        said = await _kaiwo("why", name, *where, home=home, kubeconfig=kubeconfig)
        if not slip.lacks(said):
            return
        await asyncio.sleep(_PAUSE)
    _compare(slip, said)


def _compare(slip: Slip, said: str) -> None:
    if missing := slip.lacks(said):
        raise ViolationError("O10", f"the verdict lacks {', '.join(missing)}: {said:.800}")
