"""``kaiwo monitor``: how busy the GPUs of a workload are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kaiwo.cli import kit, options
from kaiwo.cli.output import watching
from kaiwo.cli.output.table import Column, write_table
from kaiwo.client.kinds import WORKLOADS
from kaiwo.client.user_config import load as load_user_config

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaiwo.client.gpu_usage import GpuUsage, PodUsage
    from kaiwo.engine.client import Client

_GIB = 1 << 30


@options.watchable
@click.command()
@click.argument("name", shell_complete=kit.complete_names(WORKLOADS))
@options.config_option
def monitor(*, name: str, config: str | None) -> None:
    """Show how busy the GPUs of a workload are, and how much of their memory is in use.

    \b
      kaiwo monitor train      once
      kaiwo monitor train -w   again and again
      kaiwo monitor train -o json

    NAME is train, job/train or service/chat. The vendor's tool (rocm-smi, nvidia-smi) runs in each
    pod; CPU and memory come from the cluster's metrics server, if it has one.
    """
    from kaiwo.client.gpu_usage import read_usage
    from kaiwo.client.lookup import find_one

    options.one_namespace()
    options.use_configured_namespace(load_user_config(config))
    vendors = kit.plugins().vendors
    with kit.cluster() as cluster:

        async def read_all(api: Client) -> list[PodUsage]:
            _, workload = await find_one(api, cluster.namespace, name)
            return await read_usage(api, workload, vendors)

        if kit.settings().watch:
            watching.watch(lambda: cluster.run(read_all), _write, watching.poll)
        else:
            _write(cluster.run(read_all))


def _write(pods: Sequence[PodUsage]) -> None:
    output = kit.settings().output
    if output in ("json", "yaml"):
        import msgspec

        kit.dump({"items": msgspec.to_builtins(list(pods))}, output)
        return
    if output == "name":
        for pod in pods:
            click.echo(f"pod/{pod.pod}")
        return
    write_table(columns(pods), rows(pods))
    said = dict.fromkeys((pod.missing, pod.next_step) for pod in pods if pod.missing)
    for missing, next_step in said:
        names = ", ".join(pod.pod for pod in pods if pod.missing == missing)
        kit.say(f"warning: no GPU use of {names}: {missing}")
        if next_step:
            kit.say(f"hint: {next_step}")


def rows(pods: Sequence[PodUsage]) -> list[dict[str, Any]]:
    """A row for each GPU, or for a pod of which none could be read."""
    return [
        {"pod": pod, "gpu": gpu, "first": number == 0}
        for pod in pods
        for number, gpu in enumerate(pod.gpus or (None,))
    ]


def columns(pods: Sequence[PodUsage]) -> list[Column]:
    """The columns; those of the metrics server where it said something."""
    shown = [
        Column("POD", lambda row: row["pod"].pod),
        Column("NODE", lambda row: row["pod"].node, wide=True),
        Column("GPU", lambda row: row["gpu"].gpu if row["gpu"] else _count(row["pod"])),
        Column("MODEL", lambda row: row["gpu"].model if row["gpu"] else ""),
        Column("USE", lambda row: _percent(row["gpu"])),
        Column("GPU MEMORY", lambda row: _memory(row["gpu"])),
    ]
    if any(pod.cpu_cores is not None for pod in pods):
        shown += [
            Column("CPU", lambda row: _cores(row["pod"].cpu_cores) if row["first"] else ""),
            Column("MEMORY", lambda row: _gib(row["pod"].memory_bytes) if row["first"] else ""),
        ]
    wide = kit.settings().output == "wide"
    return [column for column in shown if wide or not column.wide]


def _count(pod: PodUsage) -> str:
    return f"{pod.requested_gpus} requested" if pod.requested_gpus else "none"


def _percent(gpu: GpuUsage | None) -> str:
    return "" if gpu is None or gpu.use_percent is None else f"{gpu.use_percent:.0f}%"


def _memory(gpu: GpuUsage | None) -> str:
    if gpu is None or gpu.memory_used_bytes is None:
        return ""
    total = _gib(gpu.memory_total_bytes)
    return f"{_gib(gpu.memory_used_bytes)} of {total}" if total else _gib(gpu.memory_used_bytes)


def _gib(size: int | None) -> str:
    return "" if size is None else f"{size / _GIB:.1f}Gi"


def _cores(cores: float | None) -> str:
    return "" if cores is None else f"{cores:.2f}"
