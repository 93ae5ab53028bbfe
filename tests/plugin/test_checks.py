"""A hook that returns rubbish makes a broken plugin with one line that says what is wrong."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaiwo.plugin.checks import InvalidPlugin, checked_declarations
from kaiwo.plugin.loader import HOOKS, load
from kaiwo.plugin.queues import QueueSystem as DeclaredQueueSystem
from kaiwo.plugin.selection import PluginSelection

if TYPE_CHECKING:
    from collections.abc import Callable

IMPORTS = """
from pydantic import BaseModel
from kaiwo.api.plugin_fields import Field
from kaiwo.engine.resource import JOB
from kaiwo.plugin.backends import Backend
from kaiwo.plugin.commands import Command
from kaiwo.plugin.controllers import CustomKind, ExtraController
from kaiwo.plugin.lazy import Lazy
from kaiwo.plugin.lifecycle import Lifecycle, TransitionListener
from kaiwo.plugin.rendering import PodContribution
from kaiwo.plugin.queue_setup import QueueSetup
from kaiwo.plugin.queues import QueueSystem
from kaiwo.plugin.rbac import PolicyRule
from kaiwo.plugin.sources import DownloadSource
from kaiwo.plugin.vendors import GpuTool, GpuVendor, Utilization

FIELD = Field("KaiwoJob", ("acmeJob",), dict, "A block.")


def backend(**changes):
    given = dict(name="acme", kind="KaiwoJob", child=JOB, fields=(FIELD,))
    return Backend(**given | changes)


def source(**changes):
    given = dict(name="oci", path=("data", "download", "oci"), item=BaseModel, description="Images.")
    return DownloadSource(**given | changes)


def vendor(**changes):
    given = dict(name="acme", resource_keys=("acme.com/gpu",), recognise=lambda node: ())
    return GpuVendor(**given | changes)


def queue(**changes):
    given = dict(name="acme", assign=print, admission=print)
    return QueueSystem(**given | changes)


def kind(**changes):
    own = CustomKind(**dict(resource=JOB, spec=BaseModel, status=BaseModel) | changes)
    return ExtraController(name="acme", build="shlex:split", kinds=(own,))

"""

RUBBISH = [
    ("gpu_vendors", "None", "returned NoneType, expected a list of GpuVendor"),
    ("gpu_vendors", "vendor()", "returned GpuVendor, expected a list of GpuVendor"),
    ("gpu_vendors", "(v for v in [])", "returned generator, expected a list"),
    ("gpu_vendors", "[{'name': 'acme'}]", "returned a list with dict,"),
    ("gpu_vendors", "[backend()]", "returned a list with Backend,"),
    ("gpu_vendors", "[vendor(name='ACME')]", "name is invalid, expected lower-case"),
    ("gpu_vendors", "[vendor(name=7)]", "name is invalid, expected lower-case"),
    ("gpu_vendors", "[vendor(name='default')]", "the name default is reserved"),
    ("gpu_vendors", "[vendor(resource_keys=())]", "declares no resource key"),
    ("gpu_vendors", "[vendor(resource_keys='acme.com/gpu')]", "resource_keys is not a tuple of str"),
    (
        "gpu_vendors",
        "[vendor(resource_keys=('gpu',))]",
        "'gpu' is not an extended resource like acme.com/gpu",
    ),
    ("gpu_vendors", "[vendor(resource_keys=('a.com/gpu-*',))]", "'a.com/gpu-*' is not an extended resource"),
    ("gpu_vendors", "[vendor(recognise='x:y')]", "recognise is not callable"),
    ("gpu_vendors", "[vendor(utilization='metric')]", "utilization is not a Utilization"),
    ("gpu_vendors", "[vendor(tool='smi')]", "tool is not a GpuTool"),
    ("gpu_vendors", "[vendor(tool=GpuTool('smi --json', print))]", "tool: command is not a tuple of str"),
    ("gpu_vendors", "[vendor(tool=GpuTool((), print))]", "tool: command names no program"),
    ("gpu_vendors", "[vendor(tool=GpuTool(('smi',), None))]", "tool: parse is not callable"),
    ("gpu_vendors", "[vendor(utilization=Utilization(None))]", "None is not the name of a Prometheus metric"),
    (
        "gpu_vendors",
        "[vendor(utilization=Utilization('use', pod_label=None))]",
        "None is not the name of a Prometheus label",
    ),
    ("backends", "[backend(kind='Job')]", "kind is 'Job', expected KaiwoJob or KaiwoService"),
    ("backends", "[backend(child='jobs')]", "child is not a Resource"),
    ("backends", "[backend(fields=())]", "declares no field, expected its own block first"),
    (
        "backends",
        "[backend(fields=(Field('KaiwoService', ('a',), dict, ''),))]",
        "field a is of 'KaiwoService', expected KaiwoJob",
    ),
    (
        "backends",
        "[backend(fields=(Field('KaiwoJob', ('acme-job',), dict, ''),))]",
        "expected a tuple of JSON names",
    ),
    ("backends", "[backend(implementation='x:y')]", "implementation is not callable"),
    (
        "backends",
        "[backend(implementation=Lazy('acme.backend.Acme'))]",
        "implementation is 'acme.backend.Acme', expected module:name",
    ),
    *(
        ("backends", f"[backend({name}='Completed')]", f"{name} is not a tuple of str")
        for name in ("urgent", "reads", "reads_conditions", "reads_without_pods")
    ),
    (
        "backends",
        "[backend(variants=(backend(requires=JOB),))]",
        "variant 'acme': requires is not a tuple of",
    ),
    (
        "backends",
        "[backend(fields=(Field('KaiwoJob', ('acmeJob',), dict, None),))]",
        "field acmeJob: description is not text",
    ),
    (
        "backends",
        "[backend(fields=(Field('KaiwoJob', ('acmeJob',), dict, '', warn='w'),))]",
        "field acmeJob: warn is not callable",
    ),
    ("backends", "[backend(write='put')]", "write is 'put', expected create or apply"),
    ("backends", "[backend(name_pattern='any')]", "name_pattern is 'any', expected dns1123 or dns1035"),
    ("backends", "[backend(max_name_length='63')]", "max_name_length is not a number"),
    ("backends", "[backend(adoption='yes')]", "adoption is not an Adoption"),
    ("backends", "[backend(takes='head_pod_memory')]", "takes is not a tuple of str"),
    (
        "backends",
        "[backend(pod_templates=('acmeJob.template',))]",
        "pod_templates is not a tuple of tuple",
    ),
    *(
        ("backends", f"[backend(pod_templates=({path},))]", "expected JSON names from 'acmeJob' on")
        for path in (
            "()",
            "('spec', 'template')",
            "('acmeJob', 'jobs', '*')",
            "('*', 'acmeJob')",
            "('acmeJob', '*', 'jobs', '*', 'template')",
            "('acmeJob', 7)",
        )
    ),
    ("backends", "[backend(settings=dict)]", "settings is not a pydantic model class"),
    ("backends", "[backend(rules=[])]", "rules is not a tuple of PolicyRule"),
    (
        "backends",
        "[backend(rules=(PolicyRule(('batch',), ('jobs',), ('get',), '', labels='a'),))]",
        "labels of a rule is 'a', expected a tuple of words",
    ),
    (
        "backends",
        "[backend(rules=(PolicyRule(('batch',), ('jobs',), ('get',), None),))]",
        "why of a rule is not text",
    ),
    (
        "backends",
        "[backend(rules=(PolicyRule(('*',), ('jobs',), ('get',), ''),))]",
        "is ('*',), expected a tuple of words without wildcard",
    ),
    (
        "backends",
        "[backend(rules=(PolicyRule('batch', ('jobs',), ('get',), ''),))]",
        "groups of a rule is 'batch', expected",
    ),
    ("download_sources", "[source(item=dict)]", "item is not a pydantic model class"),
    ("download_sources", "[source(path=())]", "expected a tuple of JSON names"),
    ("download_sources", "[source(path='data.download.oci')]", "expected a tuple of JSON names"),
    ("download_sources", "[source(downloader='fetch')]", "downloader is 'fetch', expected module:name"),
    ("download_sources", "[source(description=None)]", "description is not text"),
    ("download_sources", "[source(warnings=None)]", "warnings is not callable"),
    ("commands", "[Command(name='acme', load=print, help='Acme.')]", "expected module:name"),
    ("commands", "[Command(name='acme', load='shlex:split', help='Two\\nlines.')]", "help is not one line"),
    (
        "controllers",
        "[ExtraController(name='a', build='shlex:split', kinds=('Pool',))]",
        "kinds is not a tuple of CustomKind",
    ),
    ("pod_contributions", "[PodContribution(name='a', contribute=None)]", "contribute is not callable"),
    ("lifecycle", "[Lifecycle(name='a', start=print)]", "expected module:name"),
    (
        "transitions",
        "[TransitionListener(name='a', notify='notify')]",
        "notify is 'notify', expected module:name",
    ),
    ("queue_systems", "[QueueSystem(name='a', assign=None, admission=print)]", "assign is not callable"),
    *(
        ("queue_systems", f"[queue({name}=JOB)]", f"{name} is not a tuple of Resource")
        for name in ("reads", "owned", "usage_reads", "flavor_reads")
    ),
    ("queue_systems", "[queue(owned=(JOB,))]", "owned has jobs.batch, which reads lacks"),
    ("queue_systems", "[queue(urgent='Admitted')]", "urgent is not a tuple of str"),
    ("queue_systems", "[queue(queue_label=None)]", "queue_label is not text"),
    (
        "queue_systems",
        "[queue(projections={JOB: ()})]",
        "projections is not a mapping of kinds to Projection",
    ),
    ("queue_systems", "[queue(setup=QueueSetup(None))]", "setup: plan is not callable"),
    *(
        ("queue_systems", f"[queue({name}='acme:f')]", f"{name} is not callable")
        for name in (each.name for each in fields(DeclaredQueueSystem) if "Callable" in str(each.type))
        if name not in ("assign", "admission")
    ),
    ("controllers", "[kind(spec=dict)]", "kind jobs.batch: spec is not a pydantic model class"),
    ("controllers", "[kind(status=None)]", "kind jobs.batch: status is not a pydantic model class"),
    ("controllers", "[kind(description=None)]", "description is not text"),
    ("controllers", "[kind(short_names='aj')]", "short_names is not a tuple of str"),
    ("controllers", "[kind(printer_columns={})]", "printer_columns is not a tuple of dict"),
]


@pytest.mark.parametrize(("hook", "returned", "message"), RUBBISH)
def test_rubbish_makes_a_broken_plugin_that_says_what_is_wrong(
    install: Callable[..., str], hook: str, returned: str, message: str
) -> None:
    """The message names the hook, the declaration and the fault, and other plugins are not affected."""
    install("acme", f"{IMPORTS}\n@hookimpl\ndef kaiwo_{hook}():\n    return {returned}\n")
    (state,) = [s for s in load(PluginSelection(names=("acme",))).states if s.name == "acme"]
    assert state.state == "broken"
    assert state.message.startswith(f"kaiwo_{hook}")
    assert message in state.message


def test_a_plugin_has_one_settings_model(install: Callable[..., str]) -> None:
    """One plugin has one section in KaiwoConfig, so two models for it contradict each other."""
    install(
        "acme",
        IMPORTS
        + """
class One(BaseModel): pass
class Two(BaseModel): pass
second = Field("KaiwoJob", ("otherJob",), dict, "Another block.")
@hookimpl
def kaiwo_backends():
    return [backend(settings=One), backend(name="other", fields=(second,), settings=Two)]
""",
    )
    (state,) = [s for s in load(PluginSelection(names=("acme",))).states if s.name == "acme"]
    assert state.message == "declares more than one settings model; a plugin has one section in KaiwoConfig"


@pytest.mark.parametrize(
    ("declaration", "where"),
    [
        ("backend(fields=(Field('KaiwoJob', ('acmeJob',), object(), ''),))", "field KaiwoJob.acmeJob"),
        ("backend(fields=(Field('KaiwoJob', ('acmeJob',), print, ''),))", "field KaiwoJob.acmeJob"),
        ("backend(settings=Odd)", "settings"),
    ],
)
def test_a_type_without_json_schema_is_refused(
    install: Callable[..., str], declaration: str, where: str
) -> None:
    """One plugin's odd type must not spoil the schema of a kind for everybody."""
    odd = "\nfrom typing import Callable\nclass Odd(BaseModel):\n    call: Callable[[], int]\n"
    install("acme", f"{IMPORTS}{odd}\n@hookimpl\ndef kaiwo_backends():\n    return [{declaration}]\n")
    (state,) = [s for s in load(PluginSelection(names=("acme",))).states if s.name == "acme"]
    assert state.message.startswith(f"{where}: its type has no JSON schema")


def test_a_kind_without_a_schema_is_refused(install: Callable[..., str]) -> None:
    """The definitions of all kinds are rendered together, for the command line and the operator."""
    odd = "\nfrom typing import Callable\nclass Odd(BaseModel):\n    call: Callable[[], int]\n"
    hook = "\n@hookimpl\ndef kaiwo_controllers():\n    return [kind(status=Odd)]\n"
    install("acme", IMPORTS + odd + hook)
    (state,) = [s for s in load(PluginSelection(names=("acme",))).states if s.name == "acme"]
    assert state.message.startswith("kind jobs.batch: status: its type has no JSON schema")


def test_a_rule_depends_on_a_setting_that_there_is(install: Callable[..., str]) -> None:
    """The role of all plugins is rendered by it."""
    model = "\nclass Acme(BaseModel):\n    label_nodes: bool = True\n"
    rule = "PolicyRule(('batch',), ('jobs',), ('get',), 'runs', setting='label_node')"
    hook = f"\n@hookimpl\ndef kaiwo_backends():\n    return [backend(settings=Acme, rules=({rule},))]\n"
    install("acme", IMPORTS + model + hook)
    (state,) = [s for s in load(PluginSelection(names=("acme",))).states if s.name == "acme"]
    assert state.state == "broken"
    assert "rule for jobs: the settings have no 'label_node'" in state.message
    assert 'did you mean "label_nodes"?' in state.message


def test_a_backend_takes_what_kaiwoconfig_has(install: Callable[..., str]) -> None:
    """A wrong name is found when the plugin is loaded, and not by the first workload."""
    declared = "[backend(takes=('head_memory',))]"
    install("acme", f"{IMPORTS}\n@hookimpl\ndef kaiwo_backends():\n    return {declared}\n")
    (state,) = [s for s in load(PluginSelection(names=("acme",))).states if s.name == "acme"]
    assert state.state == "broken"
    assert "takes: ResolvedConfig has no 'head_memory'" in state.message
    assert 'did you mean "head_pod_memory"?' in state.message


def test_settings_can_be_left_out(install: Callable[..., str]) -> None:
    """A KaiwoConfig without the plugin's section is the usual case, so every setting needs a default."""
    demanding = "\nclass Demanding(BaseModel):\n    endpoint: str\n"
    hook = "\n@hookimpl\ndef kaiwo_backends():\n    return [backend(settings=Demanding)]\n"
    install("acme", IMPORTS + demanding + hook)
    (state,) = [s for s in load(PluginSelection(names=("acme",))).states if s.name == "acme"]
    assert state.message.startswith("settings: every field needs a default: ")
    assert "endpoint" in state.message


def test_settings_are_json(install: Callable[..., str]) -> None:
    """They are written in KaiwoConfig and kept on children; what cannot be read back is refused at once."""
    strict = (
        "\nfrom kaiwo.api.base_model import Model\nclass Strict(Model):\n    words: tuple[str] = ('a',)\n"
    )
    hook = "\n@hookimpl\ndef kaiwo_backends():\n    return [backend(settings=Strict)]\n"
    install("acme", IMPORTS + strict + hook)
    (state,) = [s for s in load(PluginSelection(names=("acme",))).states if s.name == "acme"]
    assert state.message.startswith("settings: the defaults cannot be read from JSON: ")
    assert "words" in state.message


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.just(len) | st.just(object),
    lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@pytest.mark.parametrize(("hook", "declaration"), [(hook, type_) for hook, (_, type_) in HOOKS.items()])
@settings(max_examples=50)
@given(data=st.data())
def test_a_declaration_of_anything_is_taken_or_refused_and_never_crashes(
    data: st.DataObject, hook: str, declaration: type
) -> None:
    """The loader answers every lie of a plugin with a message, not with an error of its own."""
    values = {field.name: data.draw(ANYTHING) for field in fields(declaration)}
    values["name"] = data.draw(st.just("acme") | ANYTHING)
    returned = data.draw(st.just([declaration(**values)]) | ANYTHING)
    taken: tuple[object, ...] = ()
    message = hook
    try:
        taken = checked_declarations(hook, declaration, returned)
    except InvalidPlugin as refusal:
        message = str(refusal)
    assert message.startswith(hook)
    assert all(isinstance(item, declaration) for item in taken)
