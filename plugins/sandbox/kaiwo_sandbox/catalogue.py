"""What the sandbox is made of: which programs exist, which set builds each, and from which package."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources

from kaiwo_sandbox.errors import SandboxError

KUBERNETES = "v1.36.3"

_GO_VERSION_PACKAGES = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
_MAJOR, _MINOR, _ = KUBERNETES.removeprefix("v").split(".")
_VERSION_FLAGS = " ".join(
    f"-X {package}.{variable}={value}"
    for package in _GO_VERSION_PACKAGES
    for variable, value in (
        ("gitVersion", KUBERNETES),
        ("gitMajor", _MAJOR),
        ("gitMinor", _MINOR),
        ("gitCommit", "kaiwo-sandbox"),
        ("gitTreeState", "clean"),
        ("buildDate", "1970-01-01T00:00:00Z"),
    )
)
"""Without these the server calls itself v0.0.0, and clients that parse its version misbehave."""


@dataclass(frozen=True, slots=True)
class Program:
    """One binary: its name in the sandbox and the Go package it is built from."""

    name: str
    package: str

    @property
    def built_as(self) -> str:
        """The file name that Go gives it: the last element of the path that is no major version."""
        elements = self.package.split("/")
        last = elements[-1]
        return elements[-2] if last[:1] == "v" and last[1:].isdigit() else last


@dataclass(frozen=True, slots=True)
class ManifestSource:
    """Files of a Go module that an addon needs at run time."""

    addon: str
    module: str
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BinarySet:
    """Programs that one wrapper module builds together, so that what they share is compiled once.

    Attributes:
        name: the set's directory under ``kaiwo_sandbox/builds``.
        programs: what it builds.
        ldflags: linker flags.
        minutes: how long a cold build takes on two cores, measured.
        manifests: files that are copied from its modules beside the binaries.
        source: a Go file under ``kaiwo_sandbox/builds`` that is the set's only program, in place of packages
            of other modules.
        earlier: keys of earlier definitions of this set that built the same programs from the same modules.
            A cache that has one of them needs no build.
    """

    name: str
    programs: tuple[Program, ...]
    ldflags: str
    minutes: float
    manifests: tuple[ManifestSource, ...] = ()
    source: str | None = None
    earlier: tuple[str, ...] = ()

    @property
    def files(self) -> dict[str, bytes]:
        """The wrapper module: its files by name."""
        builds = resources.files("kaiwo_sandbox.builds")
        found = {name: builds.joinpath(self.name, name).read_bytes() for name in ("go.mod", "go.sum")}
        if self.source is not None:
            found["main.go"] = builds.joinpath(self.source).read_bytes()
        return found


_STRIPPED = "-s -w"
_OWN_MODULES = "kaiwo.silogen.ai/sandbox"
_APPWRAPPER_MODULE = "github.com/project-codeflare/appwrapper"
_KUBERAY_MODULE = "github.com/ray-project/kuberay/ray-operator"
_KUEUE_FILES = ("config/components/crd/bases/*.yaml", "config/components/webhook/manifests.yaml")
_APPWRAPPER_FILES = ("config/crd/bases/*.yaml", "config/webhook/manifests.yaml")
_APPWRAPPER_SOURCE = "appwrapper.go"
"""The project's own program serves webhooks on every address of the machine at a fixed port."""


def _kuberay(name: str) -> BinarySet:
    return BinarySet(
        name=name,
        programs=(Program("ray-operator", _KUBERAY_MODULE),),
        ldflags=_STRIPPED,
        minutes=2,
        manifests=(ManifestSource("kuberay", _KUBERAY_MODULE, ("config/crd/bases/*.yaml",)),),
    )


def _appwrapper(name: str) -> BinarySet:
    return BinarySet(
        name=name,
        programs=(Program("appwrapper-controller", f"{_OWN_MODULES}/{name}"),),
        ldflags=_STRIPPED,
        minutes=1.5,
        manifests=(ManifestSource("appwrapper", _APPWRAPPER_MODULE, _APPWRAPPER_FILES),),
        source=_APPWRAPPER_SOURCE,
    )


CORE = BinarySet(
    name="core",
    programs=(
        Program("etcd", "go.etcd.io/etcd/server/v3"),
        Program("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
        Program("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"),
        Program("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"),
        Program("kwok", "sigs.k8s.io/kwok/cmd/kwok"),
        Program("kueue", "sigs.k8s.io/kueue/cmd/kueue"),
    ),
    ldflags=f"{_STRIPPED} {_VERSION_FLAGS}",
    minutes=9,
    manifests=(ManifestSource("kueue", "sigs.k8s.io/kueue", _KUEUE_FILES),),
    earlier=("5e0d00a35369e256",),
)
APPWRAPPER = _appwrapper("appwrapper")
KUBERAY = _kuberay("kuberay")
OLDER_KUEUE = BinarySet(
    name="older-kueue",
    programs=(Program("kueue", "sigs.k8s.io/kueue/cmd/kueue"),),
    ldflags=_STRIPPED,
    minutes=3,
    manifests=(ManifestSource("kueue", "sigs.k8s.io/kueue", _KUEUE_FILES),),
)
OLDER_APPWRAPPER = _appwrapper("older-appwrapper")
OLDER_KUBERAY = _kuberay("older-kuberay")

SETS = (CORE, APPWRAPPER, KUBERAY, OLDER_KUEUE, OLDER_APPWRAPPER, OLDER_KUBERAY)


@dataclass(frozen=True, slots=True)
class Generation:
    """One column of the version matrix: which controllers run on the same Kubernetes.

    Attributes:
        name: what ``--generation`` calls it.
        addons: the set that each addon comes from.
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
    """The generation of that name.

    Raises:
        SandboxError: there is none.
    """
    if name not in GENERATIONS:
        raise SandboxError(
            f"There is no generation {name!r}.",
            why=f"The sandbox has {' and '.join(GENERATIONS)}.",
            next_step="Correct --generation, or KAIWO_SANDBOX_GENERATION for tests.",
        )
    return GENERATIONS[name]


ADDON_PROGRAMS = {"kueue": "kueue", "kuberay": "ray-operator", "appwrapper": "appwrapper-controller"}
"""The program of each addon."""

BARE_PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
