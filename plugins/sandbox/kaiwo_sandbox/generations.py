"""The releases of Kueue, AppWrapper and KubeRay that a sandbox can run on the same Kubernetes."""

from __future__ import annotations

from dataclasses import dataclass

from kaiwo_sandbox.builds.binary_sets import (
    APPWRAPPER,
    CORE,
    KUBERAY,
    OLDER_APPWRAPPER,
    OLDER_KUBERAY,
    OLDER_KUEUE,
    BinarySet,
)
from kaiwo_sandbox.errors import SandboxError


@dataclass(frozen=True, slots=True)
class Generation:
    """One column of the version matrix.

    Attributes:
        name: the value of ``--generation``.
        addons: the binary set of each addon.
        versions: the release of each addon, without a leading "v".
    """

    name: str
    addons: dict[str, BinarySet]
    versions: dict[str, str]


NEWER = Generation(
    "newer",
    {"kueue": CORE, "appwrapper": APPWRAPPER, "kuberay": KUBERAY},
    {"kueue": "0.18.2", "appwrapper": "1.2.2", "kuberay": "1.6.1"},
)
OLDER = Generation(
    "older",
    {"kueue": OLDER_KUEUE, "appwrapper": OLDER_APPWRAPPER, "kuberay": OLDER_KUBERAY},
    {"kueue": "0.12.3", "appwrapper": "1.1.2", "kuberay": "1.4.2"},
)
GENERATIONS = {each.name: each for each in (NEWER, OLDER)}


def generation(name: str) -> Generation:
    """Return the generation called `name`.

    Raises:
        SandboxError: the name is unknown.
    """
    if name not in GENERATIONS:
        raise SandboxError(
            f'unknown generation "{name}" (known: {", ".join(GENERATIONS)})',
            hint="correct --generation; for tests, correct KAIWO_SANDBOX_GENERATION",
        )
    return GENERATIONS[name]
