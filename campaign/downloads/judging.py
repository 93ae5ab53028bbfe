"""What holds after a run of the download program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from campaign.violation import ViolationError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from campaign.downloads.program import DownloadPod, ProgramRun

CONFIGURATION, NOT_FOUND, INTEGRITY, DISK_FULL, NETWORK = 2, 3, 4, 5, 6
"""Exit codes of the program."""


def struck(whether: object, what: str) -> None:
    """The fault took place.

    Raises:
        ViolationError: it did not.
    """
    if not whether:
        raise ViolationError("fault", f"did not take place: {what}")


def fails(
    pod: DownloadPod,
    items: Mapping[str, Any],
    codes: int | Collection[int],
    *words: str,
    left: Collection[str] | None = (),
) -> ProgramRun:
    """Run the program, which has to fail as it ought to.

    Args:
        pod: where it runs.
        items: of the document.
        codes: exit codes that are right.
        words: parts of the error, the item first.
        left: files that may have been finished before; None where the caller looks for files.

    Raises:
        ViolationError: it succeeds, fails otherwise, or does not say why.
    """
    run = pod.run(items)
    right = {codes} if isinstance(codes, int) else set(codes)
    if run.code not in right:
        raise ViolationError("O1", f"exit code {run.code}, expected {sorted(right)}: {run.out[-600:]}")
    _check(pod, run)
    if missing := [word for word in (*words, "; ") if word not in run.line]:
        raise ViolationError("O10", f"the error does not have {missing}: {run.line}")
    if not run.line.startswith(words[:1]):
        raise ViolationError("O10", f"the error does not begin with the item: {run.line}")
    wanted = {"event": "failed", "exitCode": run.code, "message": run.line}
    if {name: run.termination.get(name) for name in wanted} != wanted:
        raise ViolationError("O5", f"termination message {run.termination}, expected {wanted}")
    if left is not None and (more := set(pod.files()).difference(left, ("volume/others",))):
        raise ViolationError("O3", f"left under a final name: {sorted(more)[:5]}")
    return run


def succeeds(pod: DownloadPod, items: Mapping[str, Any], files: Mapping[str, bytes]) -> ProgramRun:
    """Run the program, which has to bring exactly these files.

    Raises:
        ViolationError: it fails, or brings others.
    """
    run = pod.run(items)
    if run.code:
        raise ViolationError("O1", f"does not heal, exit code {run.code}: {run.out[-600:]}")
    _check(pod, run)
    if (run.termination.get("event"), run.termination.get("exitCode")) != ("done", 0):
        raise ViolationError("O5", f"termination message {run.termination}, expected that it is done")
    found = pod.files()
    if found != dict(files):
        differing = {name for name in found.keys() | files.keys() if found.get(name) != files.get(name)}
        raise ViolationError("O4", f"files that differ: {sorted(differing)[:5]}")
    return run


def _check(pod: DownloadPod, run: ProgramRun) -> None:
    pod.check_contained()
    pod.check_secret(run)
    if "Traceback" in run.out:
        raise ViolationError("O6", f"a traceback: {run.out[-1500:]}")
    if "internal error" in run.out:
        raise ViolationError("O10", f"an error without a cause: {run.line}")
