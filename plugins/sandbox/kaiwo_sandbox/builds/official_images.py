"""The official image of each program, as its project names it, and the program's path in it.

A tag is what a release is called. Its digest is recorded in the cache when the image is read.
"""

from __future__ import annotations

from dataclasses import dataclass

from kaiwo_sandbox.builds.binary_sets import (
    APPWRAPPER,
    CORE,
    KUBERAY,
    KUBERNETES,
    OLDER_APPWRAPPER,
    OLDER_KUBERAY,
    OLDER_KUEUE,
    BinarySet,
)

PROJECT_APPWRAPPER = "appwrapper-manager"
"""File name of AppWrapper's own program. It differs from that of the sandbox's, whose options are others."""


@dataclass(frozen=True, slots=True)
class ProgramImage:
    """An image with a program.

    Attributes:
        reference: ``HOST/NAME:TAG``, with or without a digest.
        path: the path of the program in the image.
    """

    reference: str
    path: str


def _kubernetes(program: str) -> ProgramImage:
    return ProgramImage(f"registry.k8s.io/{program}:{KUBERNETES}", f"usr/local/bin/{program}")


def _kueue(version: str) -> ProgramImage:
    return ProgramImage(f"registry.k8s.io/kueue/kueue:{version}", "manager")


def _kuberay(version: str) -> ProgramImage:
    return ProgramImage(f"quay.io/kuberay/operator:{version}", "manager")


def _appwrapper(version: str) -> ProgramImage:
    return ProgramImage(f"quay.io/ibm/appwrapper:{version}", "manager")


_IMAGES: dict[tuple[str, str], ProgramImage] = {
    # The etcd that this Kubernetes release names in kubeadm; a build has a later patch release.
    (CORE.name, "etcd"): ProgramImage("registry.k8s.io/etcd:3.6.8-0", "usr/local/bin/etcd"),
    (CORE.name, "kube-apiserver"): _kubernetes("kube-apiserver"),
    (CORE.name, "kube-controller-manager"): _kubernetes("kube-controller-manager"),
    (CORE.name, "kube-scheduler"): _kubernetes("kube-scheduler"),
    (CORE.name, "kwok"): ProgramImage("registry.k8s.io/kwok/kwok:v0.8.0", "usr/local/bin/kwok"),
    (CORE.name, "kueue"): _kueue("v0.18.2"),
    (KUBERAY.name, "ray-operator"): _kuberay("v1.6.1"),
    (APPWRAPPER.name, "appwrapper-controller"): _appwrapper("v1.2.2"),
    (OLDER_KUEUE.name, "kueue"): _kueue("v0.12.3"),
    (OLDER_KUBERAY.name, "ray-operator"): _kuberay("v1.4.2"),
    (OLDER_APPWRAPPER.name, "appwrapper-controller"): _appwrapper("v1.1.2"),
}
"""By binary set and program. A kubelet and the sandbox's CoreDNS are in no image."""


def official_image(binary_set: BinarySet, program: str) -> ProgramImage | None:
    """Return the official image of a program, None if there is none."""
    return _IMAGES.get((binary_set.name, program))


def file_name(program: str) -> str:
    """The name under which the program of an image is kept."""
    return PROJECT_APPWRAPPER if program == "appwrapper-controller" else program


def path_in_image(program: str) -> str:
    """The path of a program in its project's image."""
    return next(image.path for (_, name), image in _IMAGES.items() if name == program)
