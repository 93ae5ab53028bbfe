"""How busy the GPUs of a workload are: from the vendor's tool in each pod, and from the metrics server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from kaiwo.client import exec as client_exec
from kaiwo.client import pods as pod_facts
from kaiwo.client.errors import PluginFailed
from kaiwo.client.record import Record
from kaiwo.engine.errors import ApiError, ConnectionBroken, Forbidden, NotFound
from kaiwo.engine.quantity import quantity
from kaiwo.workload.gpus.resource_keys import matches
from kaiwo.workload.pods.requests import lasting_containers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.vendors import GpuTool, GpuVendor

_TOOL_SECONDS = 20.0
_MOST_OUTPUT = 4 << 20
"""Bytes of what a tool writes: the image of a workload brings it, and so it may be any program."""

_LONGEST = 200  # characters of its error
_AT_ONCE = 8
_NOT_FOUND = (126, 127)  # exit codes of shells and runtimes for a program that cannot be run


class GpuUsage(Record, frozen=True):
    """One GPU of a pod.

    Attributes:
        gpu: its index in the container.
        model: name of the model, empty if unknown.
        use_percent: how busy it is now, in per cent; null if unknown.
        memory_used_bytes: used memory, null if unknown.
        memory_total_bytes: its memory, null if unknown.
    """

    gpu: str
    model: str
    use_percent: float | None
    memory_used_bytes: int | None
    memory_total_bytes: int | None


class PodUsage(Record, frozen=True):
    """What a pod uses.

    Attributes:
        pod: name of the pod.
        node: name of its node.
        requested_gpus: GPUs that it holds.
        vendor: of these GPUs, empty without GPUs or for an unknown resource.
        gpus: one for each GPU that could be read.
        cpu_cores: cores in use by the metrics server, null if unknown.
        memory_bytes: memory in use by the metrics server, null if unknown.
        missing: why no GPU could be read, empty if they could or there are none.
        next_step: what to do about that.
    """

    pod: str
    node: str
    requested_gpus: int
    vendor: str
    gpus: tuple[GpuUsage, ...]
    cpu_cores: float | None
    memory_bytes: int | None
    missing: str
    next_step: str


async def read_usage(api: Client, workload: Object, vendors: Sequence[GpuVendor]) -> list[PodUsage]:
    """What the running pods of a workload use now, oldest pod first.

    Args:
        api: the client.
        workload: as the API server returned it.
        vendors: of the loaded plugins.

    Raises:
        NoPods: no pod runs.
        ApiError: pods may not be read.
    """
    pods, metrics = await asyncio.gather(client_exec.running_pods(api, workload), _metrics(api, workload))
    limit = asyncio.Semaphore(_AT_ONCE)

    async def one(pod: Object) -> PodUsage:
        async with limit:
            return await _of_pod(api, pod, vendors, metrics.get(pod_facts.pod_name(pod), {}))

    return list(await asyncio.gather(*(one(pod) for pod in pod_facts.in_order(pods))))


async def _of_pod(
    api: Client, pod: Object, vendors: Sequence[GpuVendor], metrics: dict[str, float]
) -> PodUsage:
    container, vendor, count = requested(pod, vendors)
    gpus: tuple[GpuUsage, ...] = ()
    missing = next_step = ""
    if count and (vendor is None or vendor.tool is None):
        missing = "no plugin knows how to read its GPUs"
        next_step = "kaiwo plugins shows the GPU vendors"
    elif vendor is not None and vendor.tool is not None:
        gpus, missing, next_step = await _run_tool(api, pod, container, vendor)
    memory = metrics.get("memory")
    return PodUsage(
        pod=pod_facts.pod_name(pod),
        node=str(pod["spec"].get("nodeName") or ""),
        requested_gpus=count,
        vendor=vendor.name if vendor else "",
        gpus=gpus,
        cpu_cores=metrics.get("cpu"),
        memory_bytes=None if memory is None else int(memory),
        missing=missing,
        next_step=next_step,
    )


async def _run_tool(
    api: Client, pod: Object, container: str, vendor: GpuVendor
) -> tuple[tuple[GpuUsage, ...], str, str]:
    """The GPUs, or why they cannot be read and what to do."""
    if vendor.tool is None:
        return (), "", ""
    program = vendor.tool.command[0]
    try:
        async with asyncio.timeout(_TOOL_SECONDS):
            result = await client_exec.run_in(
                api, pod, vendor.tool.command, container=container, most=_MOST_OUTPUT
            )
    except TimeoutError:
        node = (pod.get("spec") or {}).get("nodeName") or "NODE"
        return (
            (),
            f"{program} does not answer",
            f"the driver or the node may hang: kubectl describe node {node}",
        )
    except Forbidden as error:
        return (), f"not allowed: {error}", "ask an administrator for the right create pods/exec"
    except (ApiError, ConnectionBroken) as error:
        return (), f"{program} cannot be run: {error}", f"the image needs {program}"
    if result.exit_code in _NOT_FOUND:
        return (), f"{program} is not in the image", f"use an image with {program}"
    if result.exit_code:
        return (), f"{program} failed: {_first_line(result.stderr or result.stdout)[:_LONGEST]}", ""
    return readings(vendor, vendor.tool, result.stdout)


def readings(vendor: GpuVendor, tool: GpuTool, output: str) -> tuple[tuple[GpuUsage, ...], str, str]:
    """The GPUs that a vendor's tool wrote of, or why they cannot be read and what to do.

    Args:
        vendor: whose tool it is.
        tool: the tool.
        output: what it wrote.
    """
    program = tool.command[0]
    try:
        gpus = tuple(
            GpuUsage(
                gpu=each.gpu,
                model=each.model,
                use_percent=each.use_percent,
                memory_used_bytes=each.memory_used,
                memory_total_bytes=each.memory_total,
            )
            for each in tool.parse(output)
        )
    except ValueError as error:
        return (), f"{program} wrote something else: {error}", ""
    except Exception as error:  # noqa: BLE001  a plugin's code may raise anything
        failed = PluginFailed(vendor.plugin, f"read what {program} wrote", error)
        return (), failed.message, failed.next_step
    return gpus, "" if gpus else f"{program} shows no GPU", ""


def requested(pod: Object, vendors: Sequence[GpuVendor]) -> tuple[str, GpuVendor | None, int]:
    """The container that holds the pod's GPUs, their vendor, and how many there are."""
    for container in lasting_containers(pod["spec"]):
        resources = container.get("resources") or {}
        for key, value in {**(resources.get("requests") or {}), **(resources.get("limits") or {})}.items():
            for vendor in vendors:
                found = quantity(value)
                if found and any(matches(key, pattern) for pattern in vendor.resource_keys):
                    return str(container["name"]), vendor, found.units
    return pod_facts.main_container(pod), None, 0


async def _metrics(api: Client, workload: Object) -> dict[str, dict[str, float]]:
    """CPU and memory by pod; empty without a metrics server."""
    namespace = quote(workload["metadata"]["namespace"], safe="")
    path = f"/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods?" + urlencode(
        {"labelSelector": pod_facts.selector(workload)}
    )
    try:
        found = await api.get_json(path)
    except (NotFound, Forbidden):
        return {}
    except ApiError:
        return {}  # the metrics server is down, which kaiwo doctor says
    usage: dict[str, dict[str, float]] = {}
    for item in found.get("items") or ():
        amounts: dict[str, float] = {}
        for container in item.get("containers") or ():
            for name, value in (container.get("usage") or {}).items():
                read = quantity(value)
                amounts[name] = amounts.get(name, 0.0) + (float(read.value) if read else 0.0)
        usage[str(item["metadata"]["name"])] = amounts
    return usage


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "no output")
