"""The programs of a sandbox, the Go package of each, and the binary set that builds it."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources

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
"""Linker flags with the version. Without them /version reports v0.0.0, and clients parse that."""


@dataclass(frozen=True, slots=True)
class Program:
    """One program: its name in the sandbox and the Go package that it is built from."""

    name: str
    package: str

    @property
    def built_as(self) -> str:
        """The file name that ``go build`` gives it: the last path element that is not a major version."""
        elements = self.package.split("/")
        last = elements[-1]
        return elements[-2] if last[:1] == "v" and last[1:].isdigit() else last


@dataclass(frozen=True, slots=True)
class ManifestSource:
    """Files of a Go module that an addon needs at run time, such as its CRDs."""

    addon: str
    module: str
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BinarySet:
    """Programs that one wrapper module builds together, so that shared packages are compiled once.

    Attributes:
        name: the directory of the wrapper module under ``kaiwo_sandbox/builds``.
        programs: the programs to build.
        ldflags: linker flags.
        minutes: duration of a cold build on two cores, measured.
        minutes_after_core: the same when the core was built before, whose packages it shares.
        manifests: files that are copied from the modules to the cache.
        source: a Go file under ``kaiwo_sandbox/builds`` with the set's only program. Without it the programs
            are packages of other modules.
        earlier: cache keys of earlier definitions of this set with the same programs and modules. A cache
            with one of these keys needs no build.
    """

    name: str
    programs: tuple[Program, ...]
    ldflags: str
    minutes: float
    manifests: tuple[ManifestSource, ...] = ()
    source: str | None = None
    earlier: tuple[str, ...] = ()
    minutes_after_core: float | None = None

    @property
    def files(self) -> dict[str, bytes]:
        """The files of the wrapper module, by name."""
        builds = resources.files("kaiwo_sandbox.builds")
        found = {name: builds.joinpath(self.name, name).read_bytes() for name in ("go.mod", "go.sum")}
        if self.source is not None:
            found["main.go"] = builds.joinpath(self.source).read_bytes()
        return found


_STRIPPED = "-s -w"
_MODULE_PREFIX = "kaiwo.silogen.ai/sandbox"
_APPWRAPPER_MODULE = "github.com/project-codeflare/appwrapper"
_KUBERAY_MODULE = "github.com/ray-project/kuberay/ray-operator"
_KUEUE_FILES = ("config/components/crd/bases/*.yaml", "config/components/webhook/manifests.yaml")
_APPWRAPPER_FILES = ("config/crd/bases/*.yaml", "config/webhook/manifests.yaml")
_APPWRAPPER_MANIFESTS = (ManifestSource("appwrapper", _APPWRAPPER_MODULE, _APPWRAPPER_FILES),)
_APPWRAPPER_SOURCE = "appwrapper.go"
"""The project's own program serves webhooks on all addresses of the machine at a fixed port."""

_KUBERAY_MANIFESTS = (ManifestSource("kuberay", _KUBERAY_MODULE, ("config/crd/bases/*.yaml",)),)

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
    minutes=6,
    manifests=(ManifestSource("kueue", "sigs.k8s.io/kueue", _KUEUE_FILES),),
    earlier=("5e0d00a35369e256",),
)
APPWRAPPER = BinarySet(
    name="appwrapper",
    programs=(Program("appwrapper-controller", f"{_MODULE_PREFIX}/appwrapper"),),
    ldflags=_STRIPPED,
    minutes=1.5,
    minutes_after_core=0.2,
    manifests=_APPWRAPPER_MANIFESTS,
    source=_APPWRAPPER_SOURCE,
)
KUBERAY = BinarySet(
    name="kuberay",
    programs=(Program("ray-operator", f"{_MODULE_PREFIX}/kuberay"),),
    ldflags=_STRIPPED,
    minutes=2,
    minutes_after_core=0.2,
    manifests=_KUBERAY_MANIFESTS,
    source="kuberay.go",
    earlier=("b4b09d96e0dcea55",),
)
OLDER_KUEUE = BinarySet(
    name="older-kueue",
    programs=(Program("kueue", "sigs.k8s.io/kueue/cmd/kueue"),),
    ldflags=_STRIPPED,
    minutes=3,
    manifests=(ManifestSource("kueue", "sigs.k8s.io/kueue", _KUEUE_FILES),),
)
OLDER_APPWRAPPER = BinarySet(
    name="older-appwrapper",
    programs=(Program("appwrapper-controller", f"{_MODULE_PREFIX}/older-appwrapper"),),
    ldflags=_STRIPPED,
    minutes=1.5,
    manifests=_APPWRAPPER_MANIFESTS,
    source=_APPWRAPPER_SOURCE,
)
OLDER_KUBERAY = BinarySet(
    name="older-kuberay",
    programs=(Program("ray-operator", _KUBERAY_MODULE),),
    ldflags=_STRIPPED,
    minutes=2,
    manifests=_KUBERAY_MANIFESTS,
)

NODE = BinarySet(
    name="node",
    programs=(
        Program("kubelet", "k8s.io/kubernetes/cmd/kubelet"),
        Program("kube-proxy", "k8s.io/kubernetes/cmd/kube-proxy"),
    ),
    ldflags=f"{_STRIPPED} {_VERSION_FLAGS}",
    minutes=4,
)
COREDNS = BinarySet(
    name="coredns",
    programs=(Program("coredns", f"{_MODULE_PREFIX}/coredns"),),
    ldflags=_STRIPPED,
    minutes=2,
    source="coredns.go",
)

HELM = BinarySet(
    name="helm", programs=(Program("helm", "helm.sh/helm/v4/cmd/helm"),), ldflags=_STRIPPED, minutes=3
)

SETS = (CORE, APPWRAPPER, KUBERAY, OLDER_KUEUE, OLDER_APPWRAPPER, OLDER_KUBERAY, NODE, COREDNS, HELM)

ADDON_PROGRAMS = {"kueue": "kueue", "kuberay": "ray-operator", "appwrapper": "appwrapper-controller"}
"""The program of each addon, by addon name."""

CORE_PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
"""The programs of every sandbox."""

NODE_PROGRAMS = {"kubelet": NODE, "kube-proxy": NODE, "coredns": COREDNS}
"""The programs of a real node, and the binary set of each."""
