"""Adoption: how objects that users made themselves, of a backend's child kind, become part of a workload."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Adoption:
    """What the host needs to know of a backend's child kind to adopt objects of it.

    An object with the label ``kaiwo.silogen.ai/managed: "true"`` and without a controller gets a workload of
    its name, which becomes its controller. It is observed as the backend's own children are, with
    :attr:`kaiwo.plugin.observation.Observation.adopted` set. It is never rendered and never changed.

    Attributes:
        pod_template: path of the pod template in the object.
        pods: path of the number of pods that run at the same time; one pod where the object has no number
            there.
        held_by: path of the field that keeps a new object from starting while it is true; empty where the
            kind has none. A queue needs it.
        pod_label: key of the label that the kind's controller gives to its pods, with the object's uid as the
            value. By it commands find the pods; empty where there is none.
        left_out: paths that are not part of the reference copy in the workload's spec: what the API server
            and the kind's controller filled in.
    """

    pod_template: tuple[str, ...]
    pods: tuple[str, ...] = ()
    held_by: tuple[str, ...] = ()
    pod_label: str = ""
    left_out: tuple[tuple[str, ...], ...] = ()
