"""Plugins that are written for a case: distributions with a real entry point in a folder of their own."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

PLUGIN: Final = "acme"
"""Name of the plugin that a case is about."""

_PREAMBLE: Final = """\
import time
from kaiwo.plugin import hookimpl

KAIWO_API = {api!r}


def hang(*_, **__):
    while True:
        time.sleep(0.01)


def fail(*_, **__):
    raise RuntimeError("campaign")


def wrong(*_, **__):
    return 42

"""

DECLARATIONS: Final[dict[str, str]] = {
    "kaiwo_backends": """
        from kaiwo.api.plugin_fields import Field
        from kaiwo.engine.resource import JOB
        from kaiwo.plugin.backends import Backend

        field = Field("KaiwoJob", ("{name}Job",), dict, "A block.")
        declared = [Backend("{name}", "KaiwoJob", JOB, (field,))]
        """,
    "kaiwo_download_sources": """
        from pydantic import BaseModel
        from kaiwo.plugin.sources import DownloadSource

        class Item(BaseModel):
            reference: str

        path = ("data", "download", "{name}")
        declared = [DownloadSource(name="{name}", path=path, item=Item, description="Images.")]
        """,
    "kaiwo_gpu_vendors": """
        from kaiwo.plugin.vendors import GpuVendor

        keys = ("{name}.example/gpu",)
        declared = [GpuVendor(name="{name}", resource_keys=keys, recognise=lambda node: ())]
        """,
    "kaiwo_queue_systems": """
        from kaiwo.plugin.queues import QueueAssignment, QueueSystem

        declared = [
            QueueSystem(
                name="{name}",
                assign=lambda workload, facts: QueueAssignment(queue="q", labels={{}}),
                admission=lambda child, facts: None,
            )
        ]
        """,
    "kaiwo_controllers": """
        from kaiwo.plugin.controllers import ExtraController

        declared = [ExtraController(name="{name}", build=__name__ + ":build")]
        """,
    "kaiwo_pod_contributions": """
        from kaiwo.plugin.rendering import PodContribution

        declared = [PodContribution(name="{name}", contribute=lambda inp, template: template)]
        """,
    "kaiwo_namespace_defaults": """
        from kaiwo.engine.resource import Resource
        from kaiwo.plugin.namespace_defaults import DefaultValues, NamespaceDefaults

        kind = Resource("{name}.example", "v1", "Defaults", "defaults")
        declared = [NamespaceDefaults(name="{name}", kind=kind, read=lambda obj: DefaultValues())]
        """,
    "kaiwo_diagnosis_rules": """
        from kaiwo.plugin.diagnosis import DiagnosisRule

        declared = [DiagnosisRule(name="{name}", diagnose=lambda seen: None)]
        """,
    "kaiwo_commands": """
        from kaiwo.plugin.commands import Command

        declared = [Command(name="{name}", load=__name__ + ":build", help="Do it.")]
        """,
    "kaiwo_lifecycle": """
        from kaiwo.plugin.lifecycle import Lifecycle

        declared = [Lifecycle(name="{name}", start=__name__ + ":build")]
        """,
    "kaiwo_transitions": """
        from kaiwo.plugin.lifecycle import TransitionListener

        declared = [TransitionListener(name="{name}", notify=__name__ + ":build")]
        """,
}
"""By hook: what a plugin declares that is right."""

BODIES: Final[dict[str, str]] = {
    "right": "return declared",
    "raise": "fail()",
    "hang": "hang()",
    "wrong-type": "return [42]",
    "slow": "time.sleep(0.5)\n    return declared",
}
"""By name: what a hook does."""


def source(hook: str, body: str, *, name: str = PLUGIN, api: object = 1, more: str = "") -> str:
    """The module of a plugin.

    Args:
        hook: that it implements.
        body: one of `BODIES`.
        name: of what it declares.
        api: version of the plugin API that it says it was written for.
        more: code after the declaration, which may change it.
    """
    declaration = textwrap.dedent(DECLARATIONS[hook]).format(name=name)
    function = f"\n\n@hookimpl\ndef {hook}():\n    {BODIES[body]}\n"
    build = "\n\nasync def build(*_):\n    pass\n\n\n"
    return _PREAMBLE.format(api=api) + declaration + build + textwrap.dedent(more) + function


def install(site: Path, plugin: str, text: str) -> None:
    """Install a distribution with one plugin.

    Args:
        site: the folder, which the process that is to find it has on its path.
        plugin: name of the plugin.
        text: of its module.
    """
    package = f"campaign_{plugin}"
    information = site / f"{package}-1.0.dist-info"
    information.mkdir(parents=True)
    (site / f"{package}.py").write_text(text, encoding="utf-8")
    metadata = f"Metadata-Version: 2.1\nName: campaign-{plugin}\nVersion: 1.0\n"
    (information / "METADATA").write_text(metadata, encoding="utf-8")
    entry = f"[kaiwo.plugins]\n{plugin} = {package}\n"
    (information / "entry_points.txt").write_text(entry, encoding="utf-8")
