"""Every hook: what a plugin returns from it arrives where the host reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from pydantic import BaseModel

from kaiwo.plugin import hookspecs
from kaiwo.plugin.loader import HOOKS, load
from kaiwo.plugin.selection import PluginSelection

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo.plugin.registry import Plugins


def load_source(install: Callable[..., str], source: str) -> Plugins:
    """Load one plugin of this source."""
    install("acme", source)
    plugins = load(PluginSelection(names=("acme",)))
    assert [(state.state, state.message) for state in plugins.states if state.name == "acme"] == [
        ("loaded", "")
    ]
    return plugins


def test_kaiwo_backends(install: Callable[..., str]) -> None:
    """A backend brings its fields, its rights and its settings; without a class it is only declared."""
    plugins = load_source(
        install,
        """
        from pydantic import BaseModel
        from kaiwo.api.plugin_fields import Field
        from kaiwo.engine.resource import JOB
        from kaiwo.plugin.backends import Backend
        from kaiwo.plugin.rbac import PolicyRule

        class Settings(BaseModel):
            speed: int = 1

        @hookimpl
        def kaiwo_backends():
            return [
                Backend(
                    name="acme_job",
                    kind="KaiwoJob",
                    child=JOB,
                    fields=(Field("KaiwoJob", ("acmeJob",), dict, "An Acme job."),),
                    rules=(PolicyRule(("batch",), ("jobs",), ("create",), "create jobs"),),
                    settings=Settings,
                )
            ]
        """,
    )
    (backend,) = plugins.backends
    assert backend.name == "acme_job"
    assert not backend.built
    assert [(field.kind, field.path) for field in plugins.fields()] == [("KaiwoJob", ("acmeJob",))]
    assert plugins.settings_models() == {"acme": backend.settings}
    assert [rule.why for rule in plugins.rules()] == ["create jobs"]
    assert backend.plugin == "acme"


def test_kaiwo_download_sources(install: Callable[..., str]) -> None:
    """A source adds its list of items to both kinds of workload."""
    plugins = load_source(
        install,
        """
        from pydantic import BaseModel
        from kaiwo.plugin.sources import DownloadSource

        class Item(BaseModel):
            reference: str

        @hookimpl
        def kaiwo_download_sources():
            path = ("data", "download", "oci")
            return [DownloadSource(name="oci", path=path, item=Item, description="Images.")]
        """,
    )
    assert [source.name for source in plugins.sources] == ["oci"]
    assert [(field.kind, ".".join(field.path)) for field in plugins.fields()] == [
        ("KaiwoJob", "storage.data.download.oci"),
        ("KaiwoService", "storage.data.download.oci"),
    ]
    for field in plugins.fields():
        items, _ = get_args(field.annotation)
        assert issubclass(get_args(items)[0], BaseModel)


def test_kaiwo_gpu_vendors(install: Callable[..., str]) -> None:
    """A vendor recognises the GPUs of a node."""
    plugins = load_source(
        install,
        """
        from kaiwo.plugin.vendors import GpuVendor, NodeGpus

        def recognise(node):
            return (NodeGpus(model="a1", count=4, resource_key="acme.com/gpu"),)

        @hookimpl
        def kaiwo_gpu_vendors():
            return [GpuVendor(name="acme", resource_keys=("acme.com/gpu",), recognise=recognise)]
        """,
    )
    (vendor,) = plugins.vendors
    assert vendor.recognise({})[0].count == 4


def test_kaiwo_queue_systems(install: Callable[..., str]) -> None:
    """The queue system that is loaded is the one in force."""
    plugins = load_source(
        install,
        """
        from kaiwo.plugin.queues import QueueAssignment, QueueSystem

        @hookimpl
        def kaiwo_queue_systems():
            return [
                QueueSystem(
                    name="acmeq",
                    assign=lambda workload, facts: QueueAssignment(queue="q", labels={}),
                    admission=lambda child, facts: None,
                )
            ]
        """,
    )
    assert plugins.queue_system is not None
    assert plugins.queue_system.name == "acmeq"


def test_kaiwo_controllers(install: Callable[..., str]) -> None:
    """A controller brings kinds of its own and says how it is built."""
    plugins = load_source(
        install,
        """
        from pydantic import BaseModel
        from kaiwo.engine.resource import Resource
        from kaiwo.plugin.controllers import CustomKind, ExtraController

        class Spec(BaseModel):
            size: int

        POOL = Resource("acme.com", "v1", "Pool", "pools")

        @hookimpl
        def kaiwo_controllers():
            kind = CustomKind(resource=POOL, spec=Spec, status=Spec)
            return [ExtraController(name="pools", build="shlex:split", kinds=(kind,))]
        """,
    )
    (controller,) = plugins.controllers
    assert [str(kind.resource) for kind in controller.kinds] == ["pools.acme.com"]


def test_kaiwo_pod_contributions(install: Callable[..., str]) -> None:
    """Contributions are applied in the order in which a plugin lists them."""
    plugins = load_source(
        install,
        """
        from kaiwo.plugin.rendering import PodContribution

        @hookimpl
        def kaiwo_pod_contributions():
            return [
                PodContribution(name="second", contribute=lambda given, pod: pod),
                PodContribution(name="first", contribute=lambda given, pod: pod),
            ]
        """,
    )
    assert [contribution.name for contribution in plugins.contributions] == ["second", "first"]


def test_kaiwo_diagnosis_rules(install: Callable[..., str]) -> None:
    """A rule turns an observation into a finding."""
    plugins = load_source(
        install,
        """
        from pydantic import BaseModel
        from kaiwo.plugin.observation import Finding
        from kaiwo.plugin.diagnosis import DiagnosisRule

        class Settings(BaseModel):
            since: int = 1

        def diagnose(seen):
            return Finding("XidError", "GPU fell off")

        @hookimpl
        def kaiwo_diagnosis_rules():
            return [DiagnosisRule(name="xid", diagnose=diagnose, settings=Settings)]
        """,
    )
    (rule,) = plugins.diagnosis_rules
    assert (rule.name, rule.plugin) == ("xid", "acme")
    assert plugins.settings_models() == {"acme": rule.settings}


def test_kaiwo_commands(install: Callable[..., str]) -> None:
    """A command is known by name and help without importing it."""
    plugins = load_source(
        install,
        """
        from kaiwo.plugin.commands import Command

        @hookimpl
        def kaiwo_commands():
            return (Command(name="acme", load="tabnanny:check", help="Acme things."),)
        """,
    )
    assert [(command.name, command.help) for command in plugins.commands] == [("acme", "Acme things.")]


def test_kaiwo_namespace_defaults(install: Callable[..., str]) -> None:
    """A kind of defaults says what an object gives; it may read the kind and nothing else."""
    plugins = load_source(
        install,
        """
        from kaiwo.engine.resource import Resource
        from kaiwo.plugin.namespace_defaults import DefaultValues, NamespaceDefaults
        from kaiwo.plugin.rbac import PolicyRule

        KIND = Resource("acme.com", "v1", "TeamDefaults", "teamdefaults")
        RULE = PolicyRule(("acme.com",), ("teamdefaults",), ("get", "list", "watch"), "read", namespaced=True)

        def read(obj):
            return DefaultValues(image_pull_secrets=("registry",))

        @hookimpl
        def kaiwo_namespace_defaults():
            return [NamespaceDefaults(name="acme", kind=KIND, read=read, rules=(RULE,))]
        """,
    )
    (declared,) = plugins.namespace_defaults
    assert declared.read({}).image_pull_secrets == ("registry",)
    assert [rule.why for rule in plugins.rules()] == ["read"]


def test_kaiwo_lifecycle(install: Callable[..., str]) -> None:
    """What runs at start and stop is named, and may carry settings."""
    plugins = load_source(
        install,
        """
        from pydantic import BaseModel
        from kaiwo.plugin.lifecycle import Lifecycle

        class Settings(BaseModel):
            endpoint: str = ""

        @hookimpl
        def kaiwo_lifecycle():
            return [Lifecycle(name="tracing", start="shlex:split", settings=Settings)]
        """,
    )
    (lifecycle,) = plugins.lifecycles
    assert (lifecycle.start, lifecycle.stop) == ("shlex:split", None)
    assert list(plugins.settings_models()) == ["acme"]


def test_kaiwo_transitions(install: Callable[..., str]) -> None:
    """A listener is named by the function that is called."""
    plugins = load_source(
        install,
        """
        from kaiwo.plugin.lifecycle import TransitionListener

        @hookimpl
        def kaiwo_transitions():
            return [TransitionListener(name="chat", notify="shlex:split")]
        """,
    )
    assert [listener.notify for listener in plugins.listeners] == ["shlex:split"]


def test_every_hook_has_a_test_here_and_a_place_in_the_loader() -> None:
    """A specified hook that the host never calls, or that no test covers, cannot be added."""
    specified = {name for name in vars(hookspecs) if name.startswith("kaiwo_")}
    assert len(specified) <= 11
    assert specified == set(HOOKS)
    assert specified == {name.removeprefix("test_") for name in globals() if name.startswith("test_kaiwo_")}
    assert all(getattr(hookspecs, name).__doc__.count("Example:") == 1 for name in specified)
