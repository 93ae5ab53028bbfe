"""The hooks of a Kaiwo plugin. A hook returns declarations; the host acts on them.

A plugin is a distribution with an entry point in group ``kaiwo.plugins`` whose value is a module::

    [project.entry-points."kaiwo.plugins"]
    gpu_acme = "kaiwo_gpu_acme.plugin"

The module states the API it was written for and implements any of the hooks below::

    from kaiwo.plugin import hookimpl
    from kaiwo.plugin.vendors import GpuVendor

    KAIWO_API = "1.0"

    @hookimpl
    def kaiwo_gpu_vendors() -> list[GpuVendor]:
        return [GpuVendor(name="acme", resource_keys=("acme.com/gpu",), recognise=...)]

Hooks are called once, when the operator or a command starts. They do no I/O and import nothing heavy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaiwo.plugin.backends import Backend
    from kaiwo.plugin.commands import Command
    from kaiwo.plugin.controllers import ExtraController
    from kaiwo.plugin.diagnosis import DiagnosisRule
    from kaiwo.plugin.lifecycle import Lifecycle, TransitionListener
    from kaiwo.plugin.namespace_defaults import NamespaceDefaults
    from kaiwo.plugin.queues import QueueSystem
    from kaiwo.plugin.rendering import PodContribution
    from kaiwo.plugin.sources import DownloadSource
    from kaiwo.plugin.vendors import GpuVendor

PROJECT = "kaiwo"

API_MAJOR = 1
API_MINOR = 0
"""The version of the plugin API. A plugin states in its module the version that it was written for:
``KAIWO_API = "1.0"``, or ``1`` for the same. A plugin for another major version, or for a newer minor
version, is not loaded. ``docs/decisions/plugin-api-versions.md`` says which change raises which number."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def kaiwo_backends() -> Sequence[Backend]:
    """Workload backends: which kind they serve, the spec field they own, how they render and observe.

    Example: ``return [Backend(name="batch_job", kind="KaiwoJob", child=JOB, fields=(JOB_FIELD,), ...)]``.
    """
    raise AssertionError  # a specification is never called


@hookspec
def kaiwo_download_sources() -> Sequence[DownloadSource]:
    """Download sources: the field under ``storage`` they own, their item model and downloader.

    Example: ``return [DownloadSource(name="oci", path=("data", "download", "oci"), item=OciItem, ...)]``.
    """
    raise AssertionError


@hookspec
def kaiwo_gpu_vendors() -> Sequence[GpuVendor]:
    """GPU vendors: resource keys and how a node's model and count are recognised.

    Example: ``return [GpuVendor(name="acme", resource_keys=("acme.com/gpu",), recognise=recognise)]``.
    """
    raise AssertionError


@hookspec
def kaiwo_queue_systems() -> Sequence[QueueSystem]:
    """Queue systems: labels for a queued object and how admission is read. At most one can be loaded.

    Example: ``return [QueueSystem(name="kueue", assign=assign, admission=admission, reads=(WORKLOAD,))]``.
    """
    raise AssertionError


@hookspec
def kaiwo_controllers() -> Sequence[ExtraController]:
    """Controllers of the plugin's own, with the CRDs they serve, run by the host's manager.

    Example: ``return [ExtraController(name="pools", build="kaiwo_acme.pools:build")]``.
    """
    raise AssertionError


@hookspec
def kaiwo_pod_contributions() -> Sequence[PodContribution]:
    """Pure functions that add to every generated pod template (a sidecar, an environment variable).

    Example: ``return [PodContribution(name="proxy", contribute=add_proxy_env)]``.
    """
    raise AssertionError


@hookspec
def kaiwo_namespace_defaults() -> Sequence[NamespaceDefaults]:
    """Kinds of objects with defaults for the workloads of their namespace: credentials, pull secrets.

    Example: ``return [NamespaceDefaults(name="acme", kind=ACME_DEFAULTS, read=read_defaults, rules=RULES)]``.
    """
    raise AssertionError


@hookspec
def kaiwo_diagnosis_rules() -> Sequence[DiagnosisRule]:
    """Rules that turn observed facts of a pod or a child into one sentence of reason.

    Example: ``return [DiagnosisRule(name="xid", diagnose=find_xid)]``.
    """
    raise AssertionError


@hookspec
def kaiwo_commands() -> Sequence[Command]:
    """Commands of the ``kaiwo`` command line, loaded only when one is called.

    Example: ``return [Command(name="sandbox", load="kaiwo_sandbox.commands:sandbox", help="...")]``.
    """
    raise AssertionError


@hookspec
def kaiwo_lifecycle() -> Sequence[Lifecycle]:
    """What to run when the operator starts and stops.

    Example: ``return [Lifecycle(name="tracing", start="kaiwo_acme.tracing:start")]``.
    """
    raise AssertionError


@hookspec
def kaiwo_transitions() -> Sequence[TransitionListener]:
    """Listeners that are called after a change of a workload's status was written.

    Example: ``return [TransitionListener(name="chat", notify="kaiwo_acme.chat:notify")]``.
    """
    raise AssertionError
