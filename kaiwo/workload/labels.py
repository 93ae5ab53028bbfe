"""Keys of the labels that Kaiwo reads and writes. Commands import this file, so it imports nothing itself."""

from __future__ import annotations

PREFIX = "kaiwo.silogen.ai/"
USER = PREFIX + "user"
NAME = PREFIX + "name"
TYPE = PREFIX + "type"
RUN_ID = PREFIX + "run-id"
VERSION = PREFIX + "version"
RESOLVED = PREFIX + "resolved"
RECORD = ("metadata", "labels", RUN_ID)
"""Path of the label that names the workload's uid on what Kaiwo makes. Anybody may write such a label, so it
counts only where `MANAGER` wrote it."""

MANAGER = "kaiwo"
"""Kaiwo's field manager."""

GPU_MODEL = "kaiwo/gpu-model"
PREFERRED_TOPOLOGY = "kueue.x-k8s.io/podset-preferred-topology"
REQUIRED_TOPOLOGY = "kueue.x-k8s.io/podset-required-topology"

WORKLOAD_TYPES = {"KaiwoJob": "job", "KaiwoService": "service"}
"""Values of the label `TYPE` on what runs a workload, by its kind."""

DOWNLOADER = "downloader"
"""Value of the label `TYPE` on what downloads for a workload."""
