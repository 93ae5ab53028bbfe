"""What the sandbox is made of: which programs exist, which set builds each, and from which package."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

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
    """

    name: str
    programs: tuple[Program, ...]
    ldflags: str
    minutes: float
    manifests: tuple[ManifestSource, ...] = ()

    @property
    def wrapper(self) -> Traversable:
        """The directory with go.mod and go.sum."""
        return resources.files("kaiwo_sandbox.builds").joinpath(self.name)


CORE = BinarySet(
    name="core",
    programs=(
        Program("etcd", "go.etcd.io/etcd/server/v3"),
        Program("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
        Program("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"),
        Program("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"),
        Program("kwok", "sigs.k8s.io/kwok/cmd/kwok"),
        Program("kueue", "sigs.k8s.io/kueue/cmd/kueue"),
        Program("appwrapper", "github.com/project-codeflare/appwrapper/cmd"),
    ),
    ldflags=f"-s -w {_VERSION_FLAGS}",
    minutes=9,
    manifests=(
        ManifestSource(
            "kueue",
            "sigs.k8s.io/kueue",
            ("config/components/crd/bases/*.yaml", "config/components/webhook/manifests.yaml"),
        ),
        ManifestSource("appwrapper", "github.com/project-codeflare/appwrapper", ("config/crd/bases/*.yaml",)),
    ),
)

KUBERAY = BinarySet(
    name="kuberay",
    programs=(Program("ray-operator", "github.com/ray-project/kuberay/ray-operator"),),
    ldflags="-s -w",
    minutes=2,
    manifests=(
        ManifestSource(
            "kuberay", "github.com/ray-project/kuberay/ray-operator", ("config/crd/bases/*.yaml",)
        ),
    ),
)

SETS = (CORE, KUBERAY)
ADDON_PROGRAMS = {"kueue": "kueue", "kuberay": "ray-operator", "appwrapper": "appwrapper"}
"""The program of each addon."""

BARE_PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
