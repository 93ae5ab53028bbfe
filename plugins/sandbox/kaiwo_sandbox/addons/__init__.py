"""The controllers that a sandbox can have besides Kubernetes: Kueue, KubeRay and AppWrapper."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo_sandbox.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaiwo_sandbox.addons.base import Addon

NAMES = ("kuberay", "appwrapper", "kueue")
"""In the order they start: Kueue comes last, because it looks which job kinds exist when it starts."""


def load(names: Iterable[str]) -> list[Addon]:
    """The addons called `names`, in starting order.

    Raises:
        SandboxError: there is none of that name.
    """
    wanted = set(names)
    for name in sorted(wanted):
        if name not in NAMES:
            raise SandboxError(
                f"There is no addon {name!r}.",
                why=f"The sandbox can start {', '.join(sorted(NAMES))}.",
                next_step="Correct the name in --with.",
            )
    return [_load(name) for name in NAMES if name in wanted]


def _load(name: str) -> Addon:
    if name == "kueue":
        from kaiwo_sandbox.addons.kueue import KUEUE

        return KUEUE
    if name == "kuberay":
        from kaiwo_sandbox.addons.kuberay import KUBERAY

        return KUBERAY
    from kaiwo_sandbox.addons.appwrapper import APPWRAPPER

    return APPWRAPPER
