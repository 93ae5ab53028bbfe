"""Addons: the controllers that a sandbox can run besides Kubernetes (Kueue, KubeRay and AppWrapper)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo_sandbox.addons.appwrapper import APPWRAPPER
from kaiwo_sandbox.addons.kuberay import KUBERAY
from kaiwo_sandbox.addons.kueue import KUEUE
from kaiwo_sandbox.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaiwo_sandbox.addons.base import Addon

ADDONS = {addon.name: addon for addon in (APPWRAPPER, KUBERAY, KUEUE)}


def load(names: Iterable[str]) -> list[Addon]:
    """Return the addons called `names`, each once, in alphabetical order.

    Raises:
        SandboxError: a name is unknown.
    """
    unique = sorted(set(names))
    for name in unique:
        if name not in ADDONS:
            raise SandboxError(
                f'unknown addon "{name}" (known: {", ".join(ADDONS)})',
                hint="correct the name in --with",
            )
    return [ADDONS[name] for name in unique]
