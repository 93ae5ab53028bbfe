"""Keys of the labels that Kaiwo reads and writes. Commands import this file, so it imports nothing itself."""

from __future__ import annotations

PREFIX = "kaiwo.silogen.ai/"
USER = PREFIX + "user"
"""Label with the user of the workload."""

NAME = PREFIX + "name"
"""Label with the name of the workload."""

TYPE = PREFIX + "type"
"""Label with what an object does for the workload, one of `WORKLOAD_TYPES` or `DOWNLOADER`."""

RUN_ID = PREFIX + "run-id"
"""Label with the uid of the workload, on what is made for it and on the pods."""

VERSION = PREFIX + "version"
RESOLVED = PREFIX + "resolved"
RECORD = ("metadata", "labels", RUN_ID)
"""Path of the label that names the workload's uid on what Kaiwo makes. Anybody may write such a label, so it
counts only where `MANAGER` wrote it."""

MANAGED = PREFIX + "managed"
"""Label by which users, or the webhook, ask that an object be adopted; `MANAGED_VALUE` is the only value."""

MANAGED_VALUE = "true"
REQUESTED_BY = PREFIX + "requested-by"
"""Annotation of an object that is to be adopted: the user who created it. The webhook writes it."""

ADOPTED = PREFIX + "adopted-uid"
"""Label of a workload that was made for an object which existed before: the uid of that object."""

POD_LABEL = PREFIX + "pod-label"
"""Annotation of such a workload: the label by which the pods of the object carry its uid."""

ADOPTED_RECORD = ("metadata", "labels", ADOPTED)
OWNERS = ("metadata", "ownerReferences")
"""Path of what makes a workload the owner of an adopted object; like the label it counts where
`ADOPTION_MANAGER` wrote it."""

MANAGER = "kaiwo"
"""Kaiwo's field manager."""

ADOPTION_MANAGER = "kaiwo-adoption"
"""Field manager of what is written to adopt an object. `MANAGER` would not do: it is also what the API server
takes from the user agent of the command line, where a client names no manager."""

GPU_MODEL = "kaiwo/gpu-model"
"""Label of a node with the model of its GPUs."""

PREFERRED_TOPOLOGY = "kueue.x-k8s.io/podset-preferred-topology"
REQUIRED_TOPOLOGY = "kueue.x-k8s.io/podset-required-topology"

WORKLOAD_TYPES = {"KaiwoJob": "job", "KaiwoService": "service"}
"""Values of the label `TYPE` on what runs a workload, by its kind."""

DOWNLOADER = "downloader"
"""Value of the label `TYPE` on what downloads for a workload."""
