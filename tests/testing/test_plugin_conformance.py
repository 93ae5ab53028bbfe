"""``kaiwo plugin test``: good plugins pass it, and each check names what is wrong with a bad one."""

from __future__ import annotations

import io
import json
import sys
import textwrap
import tomllib
from dataclasses import fields
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from kaiwo.cli.failures import run
from kaiwo.cli.main import kaiwo
from kaiwo.plugin.backend_base import BACKEND_METHODS
from kaiwo.plugin.loader import load
from kaiwo.plugin.queues import QueueSystem
from kaiwo.plugin.selection import PluginSelection
from kaiwo.testing.conformance.probing import probes_of
from kaiwo.testing.conformance.suite import CHECKS, check_plugin

if TYPE_CHECKING:
    from kaiwo.testing.conformance.results import ConformanceResult

ROOT = Path(__file__).parents[2]
PLUGINS = sorted(path.parent.name for path in ROOT.glob("plugins/*/pyproject.toml"))
EXAMPLES = sorted(path.parent for path in ROOT.glob("examples/*/pyproject.toml"))
NUMBERS = count()
GOOD_METADATA = """\
Metadata-Version: 2.1
Name: {distribution}
Version: 1.2.3
Summary: A plugin for a test.
Requires-Dist: kaiwo (>=0.1,<1)

# A plugin for a test
"""
PREAMBLE = """\
from kaiwo.plugin import hookimpl
from kaiwo.plugin.vendors import GpuVendor, NodeGpus
KAIWO_API = "1.0"
"""


class Check(Protocol):
    """Install a plugin of this source and run the suite on it."""

    def __call__(
        self, source: str, *, metadata: str = GOOD_METADATA, **files: str
    ) -> dict[str, ConformanceResult]:
        """Results by check."""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make a distribution with one plugin, and return the plugin's name."""
    for name in ("KAIWO_PLUGINS", "KAIWO_PLUGINS_DISABLED", "KAIWO_PLUGINS_REQUIRED"):
        monkeypatch.delenv(name, raising=False)

    def install(source: str, *, metadata: str = GOOD_METADATA, **files: str) -> str:
        # Python remembers modules by name, so each plugin has one of its own.
        name = f"conform_{next(NUMBERS)}"
        package = f"kaiwo_{name}"
        distribution = package.replace("_", "-")
        site = tmp_path / name
        info = site / f"{package}-1.2.3.dist-info"
        info.mkdir(parents=True)
        (site / package).mkdir()
        modules = {"__init__": "", "plugin": PREAMBLE + textwrap.dedent(source), **files}
        for module, text in modules.items():
            code = textwrap.dedent(text).replace("PACKAGE", package)
            (site / package / f"{module}.py").write_text(code, encoding="utf-8")
        if "bare" not in metadata:
            (site / package / "py.typed").touch()
        (info / "METADATA").write_text(metadata.format(distribution=distribution), encoding="utf-8")
        fields = "KaiwoJob.acmeRun = PACKAGE\n" if "acmeRun" in source else ""
        chains = f"[kaiwo.chains]\n{name} = PACKAGE.chain:CHAIN\n" if "chain" in files else ""
        entries = f"[kaiwo.plugins]\n{name} = PACKAGE.plugin\n[kaiwo.fields]\n{fields}{chains}".replace(
            "PACKAGE", package
        )
        (info / "entry_points.txt").write_text(entries, encoding="utf-8")
        monkeypatch.syspath_prepend(str(site))
        return name

    return install


@pytest.fixture
def check(installed: Any) -> Check:
    """Install a plugin and run the suite on it; the results by check."""

    def run_suite(
        source: str, *, metadata: str = GOOD_METADATA, **files: str
    ) -> dict[str, ConformanceResult]:
        name = installed(source, metadata=metadata, **files)
        return {result.check: result for result in check_plugin(name, seconds=0.0)}

    return run_suite


def wrong(result: ConformanceResult) -> dict[str, str]:
    """What is wrong, by where; of several the texts follow each other."""
    found: dict[str, str] = {}
    for violation in result.violations:
        assert violation.why
        assert violation.next_step
        found[violation.where] = "; ".join(filter(None, (found.get(violation.where), violation.what)))
    assert bool(found) == (result.state == "failed")
    return found


@pytest.mark.parametrize("name", PLUGINS)
def test_every_plugin_of_the_project_passes(name: str) -> None:
    """What others are held to, the first party keeps."""
    results = list(check_plugin(name, seconds=0.0))
    assert [result.check for result in results] == ["load", *CHECKS]
    assert {result.check: wrong(result) for result in results if result.state == "failed"} == {}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_example_passes(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What authors copy from is held to what they are held to."""
    for name in ("KAIWO_PLUGINS", "KAIWO_PLUGINS_DISABLED", "KAIWO_PLUGINS_REQUIRED"):
        monkeypatch.delenv(name, raising=False)
    project = tomllib.loads((path / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    info = tmp_path / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    headers = [f"{key}: {project[key.lower()]}" for key in ("Name", "Version")]
    headers += [f"Summary: {project['description']}"]
    headers += [f"Requires-Dist: {each}" for each in project.get("dependencies", ())]
    readme = (path / "README.md").read_text(encoding="utf-8")
    text = "\n".join(["Metadata-Version: 2.1", *headers, "", readme])
    (info / "METADATA").write_text(text, encoding="utf-8")
    groups = project["entry-points"]
    lines = [
        [f"[{group}]", *(f"{key} = {value}" for key, value in groups[group].items())] for group in groups
    ]
    (info / "entry_points.txt").write_text("\n".join(chain.from_iterable(lines)), encoding="utf-8")
    monkeypatch.syspath_prepend(str(path))
    monkeypatch.syspath_prepend(str(tmp_path))
    (plugin,) = groups["kaiwo.plugins"]
    results = list(check_plugin(plugin, seconds=0.0))
    assert [result.check for result in results] == ["load", *CHECKS]
    assert {result.check: wrong(result) for result in results if result.state == "failed"} == {}


VENDORS = """
import random, time

SEEN = {}

def gpus(node):
    return ()

def clock(node):
    time.time()
    return ()

def reads(node):
    open("/etc/hostname").close()
    return ()

def chance(node):
    return (NodeGpus("a9", random.randrange(2**30), "chance.com/gpu"),)

def changes(node):
    node["seen"] = True
    return ()

def remembers(node):
    SEEN[len(SEEN)] = 1
    return ()

def unsorted(node):
    return tuple(NodeGpus(name, 1, "unsorted.com/gpu") for name in {f"a{n}" for n in range(30)})

def vendor(name, recognise):
    return GpuVendor(name=name, resource_keys=(f"{name}.com/gpu",), recognise=recognise)

@hookimpl
def kaiwo_gpu_vendors():
    functions = (gpus, clock, reads, chance, changes, remembers, unsorted)
    return [vendor(function.__name__, function) for function in functions]
"""


def test_what_is_not_pure_is_named_with_its_place(check: Check) -> None:
    """A clock, a file, chance, a changed input, a module's variable, the order of a set."""
    results = check(VENDORS)
    found = wrong(results["purity"])
    (variable,) = (where for where in found if where.startswith("variable "))
    assert variable.endswith(".plugin.SEEN")
    package = variable.removeprefix("variable ").partition(".")[0]
    assert found[variable] == "changes while functions are called"
    assert found["GPU vendor clock: recognise"] == f"reads the clock (time.time) in {package}/plugin.py:13"
    assert "does I/O (builtins.open)" in found["GPU vendor reads: recognise"]
    assert "draws random numbers (random.getrandbits)" in found["GPU vendor chance: recognise"]
    assert "returns another result for the same input" in found["GPU vendor chance: recognise"]
    assert found["GPU vendor changes: recognise"] == "changes what it is given"
    assert found["GPU vendor unsorted: recognise"] == "returns another result in another process"
    assert "GPU vendor gpus: recognise" not in found
    assert {name for name, result in results.items() if result.state == "failed"} == {"purity"}


PARTIAL = """
def raises(node):
    return tuple(node["metadata"]["labels"]["acme.com/model"])

def mistyped(node):
    return []

def miscounted(node):
    return (NodeGpus("a9", "8", "miscounted.com/gpu"),)

def vendor(name, recognise):
    return GpuVendor(name=name, resource_keys=(f"{name}.com/gpu",), recognise=recognise)

@hookimpl
def kaiwo_gpu_vendors():
    return [vendor(function.__name__, function) for function in (raises, mistyped, miscounted)]
"""


def test_what_is_not_total_is_named_with_the_smallest_input(check: Check) -> None:
    """An exception with its place and what is left of the input; a result of another type."""
    found = wrong(check(PARTIAL)["totality"])
    raised = found["GPU vendor raises: recognise"]
    assert "raised KeyError('acme.com/model') in kaiwo_conform_" in raised
    assert '/plugin.py:6 for {"metadata": {"labels": {}}}' in raised
    assert found["GPU vendor mistyped: recognise"].startswith("returned list, expected tuple for {")
    assert "returned NodeGpus(model='a9', count='8'" in found["GPU vendor miscounted: recognise"]


OF_USERS = """
from kaiwo.plugin.controllers import CustomKind, ExtraController
from kaiwo.plugin.kit.kinds import Resource

def recognise(node):
    return ()

def requested(entry):
    return {"x1": None}[entry]

def check(spec):
    return (spec["size"],)

@hookimpl
def kaiwo_gpu_vendors():
    return [
        GpuVendor(name="acme", resource_keys=("acme.com/gpu",), recognise=recognise, requested=requested)
    ]

@hookimpl
def kaiwo_controllers():
    from kaiwo.plugin.kit.fields import Model

    class Size(Model):
        size: int = 1

    kind = CustomKind(Resource("acme.com", "v1", "Pool", "pools"), Size, Size, check=check)
    return [ExtraController(name="pools", build="shlex:split", kinds=(kind,))]
"""


def test_functions_of_what_users_write_are_called_as_well(check: Check) -> None:
    """An entry of ``gpuModels``, and a spec of a kind of the plugin's own."""
    found = wrong(check(OF_USERS)["totality"])
    assert found["GPU vendor acme: requested"].startswith("raised KeyError(")
    assert found["kind Pool: check"].startswith("raised KeyError('size')")


WITH_SETTINGS = """
def recognise(node, settings):
    return (NodeGpus(settings.model, 8, "acme.com/gpu"),)

@hookimpl
def kaiwo_gpu_vendors():
    from kaiwo.plugin.kit.fields import Model

    class Settings(Model):
        model: str = "x1"

    return [
        GpuVendor(name="acme", resource_keys=("acme.com/gpu",), recognise=recognise, settings=Settings)
    ]
"""


def test_a_vendor_with_settings_is_called_with_them(check: Check) -> None:
    """As the host calls it; a right one was told that an argument is missing."""
    results = check(WITH_SETTINGS)
    assert (results["purity"].state, results["totality"].state) == ("ok", "ok"), wrong(results["totality"])


SLOW = """
import pydantic
import PACKAGE.unused

def hangs(node):
    while True:
        pass

def slow(node):
    sum(range(30_000_000))
    return ()

def vendor(name, recognise):
    return GpuVendor(name=name, resource_keys=(f"{name}.com/gpu",), recognise=recognise)

@hookimpl
def kaiwo_gpu_vendors():
    import yaml
    return [vendor("hangs", hangs), vendor("slow", slow)]
"""


QUEUE = """
from kaiwo.engine.resource import Resource
from kaiwo.plugin.facts import Blocked
from kaiwo.plugin.queue_relief import QueueRelief
from kaiwo.plugin.queues import QueueSystem

CLAIM = Resource("acme.com", "v1", "Claim", "claims")

def relief(facts):
    return {
        uid: QueueRelief("research", frozenset(), frozenset(facts.held), lambda ended: sorted(ended))
        for uid in facts.waiting
    }

@hookimpl
def kaiwo_queue_systems():
    return [
        QueueSystem(
            name="acme",
            assign=lambda workload, facts: Blocked("NoQueue", "no queue"),
            admission=lambda child, facts: None,
            reads=(CLAIM,),
            owned=(CLAIM,),
            relief=relief,
        )
    ]
"""


def test_what_a_queue_system_says_of_held_quota_is_checked(check: Check) -> None:
    """It decides who is ended for whom; a wrong form would fail in the operator."""
    total = wrong(check(QUEUE)["totality"])["queue system acme: relief"]
    assert "returned sharing=frozenset(), expected a frozenset with the queue itself" in total
    placed = check(QUEUE.replace('"research", frozenset()', '"research", frozenset({"research"})'))
    total = wrong(placed["totality"])["queue system acme: relief"]
    assert "returned a `place` that answers [" in total
    assert check(QUEUE.replace("return {", "return {} and {"))["totality"].state == "ok"


def test_no_function_of_a_queue_system_or_backend_is_left_out() -> None:
    """A new one that the suite does not call is noticed here; Kueue and Jobs have them all."""
    called = {
        name: {probe.where for probe in probes_of(load(PluginSelection(names=(name,))).loaded[0])}
        for name in ("kueue", "batch_job")
    }
    functions = [field.name for field in fields(QueueSystem) if "Callable" in str(field.type)]
    assert {f"queue system kueue: {name}" for name in functions} <= called["kueue"]
    assert {f"backend batch_job: {name}" for name in BACKEND_METHODS} <= called["batch_job"]


CHAIN = """
from kaiwo.plugin.diagnosis import ChainLink, ChainPart, QueueExplainer, QueueExplanation

def explain(child, facts):
    return QueueExplanation((ChainLink("Queue", child["metadata"]["labels"]["queue"], "ok"),))

QUEUE = QueueExplainer(explain, admission=lambda child, facts: None, reads=(), owned=(), owned_by=list)
CHAIN = ChainPart({"nobody": ()}, QUEUE)
"""


def test_what_is_declared_for_why_is_called_and_compared_with_the_backends(check: Check) -> None:
    """The command leaves out what fails there, and nobody would notice."""
    good = QUEUE.replace("return {", "return {} and {")
    results = check(good, chain=CHAIN)
    (contract,) = wrong(results["contract"]).values()
    assert contract == "has the kinds of a backend nobody, which the plugin does not have"
    total = wrong(results["totality"])
    assert [text for where, text in total.items() if where.endswith(": explain") and "KeyError" in text]
    assert [text for where, text in total.items() if where.endswith(": owned_by") and "returned list" in text]
    (contract,) = wrong(check(good, chain="CHAIN = 3 / 0")["contract"]).values()
    assert contract == "cannot be imported: ZeroDivisionError('division by zero')"


def test_what_takes_long_is_named(check: Check) -> None:
    """An endless loop is interrupted; a heavy import is named with the moment at which it happens."""
    hangs = SLOW.replace(', vendor("slow", slow)', "")
    found = wrong(check(hangs, unused="import rich")["time"])
    (module,) = (where for where in found if where.startswith("module "))
    assert "imports pydantic when it is imported" in found[module]
    assert "imports rich when it is imported" in found[module]
    assert "imports yaml when its hooks are called" in found[module]
    assert "did not return within 1 s of CPU in kaiwo_conform_" in found["GPU vendor hangs: recognise"]


BACKEND = """
from kaiwo.api.plugin_fields import Field
from kaiwo.engine.resource import Resource
from kaiwo.plugin.backends import Backend
from kaiwo.plugin.lazy import Lazy
from kaiwo.plugin.rbac import PolicyRule

RUN = Resource("acme.com", "v1", "Run", "runs")
POD_OWNER = Resource("acme.com", "v1", "Worker", "workers")

@hookimpl
def kaiwo_backends():
    from kaiwo.api.scalars import Opaque
    rules = (
        PolicyRule(("acme.com",), ("runs",), ("get", "list", "watch", "create"), "workloads run as Runs"),
        PolicyRule(("",), ("secrets",), ("get",), "tokens"),
        PolicyRule(("",), ("configmaps",), ("get",), " ", setting="notThere"),
        PolicyRule(("",), ("services",), ("get", "create"), "are reached by Services", own_objects=True),
    )
    return [
        Backend(
            name="acme_run",
            kind="KaiwoJob",
            child=RUN,
            pod_owners=(POD_OWNER,),
            fields=(Field("KaiwoJob", ("acmeRun",), Opaque, "A Run."),),
            implementation=Lazy("PACKAGE.backend:RunBackend"),
            pod_templates=(("acmeRun", "spec", "template"),),
            rules=rules,
        )
    ]
"""
RUN_BACKEND = """
from kaiwo.plugin.backend_base import BackendBase
from kaiwo.plugin.facts import Allocation
from kaiwo.plugin.observation import Outcome
from kaiwo.plugin.rendering import Rendered

class RunBackend(BackendBase):
    def allocate(self, inp):
        return Allocation()

    def render(self, inp):
        block = inp.workload.blocks.get("acmeRun") or {}
        metadata = {"name": inp.workload.name, "namespace": inp.workload.namespace}
        child = {"apiVersion": "acme.com/v1", "kind": "Run", "metadata": metadata, "spec": block["spec"]}
        return Rendered(child)

    def observe(self, observation):
        status = observation.child.get("status") or {}
        if status.get("phase") == "Done":
            return Outcome("DONE", "Done", "done")
        return Outcome("STARTING", "Starting", "starting")
"""


def test_a_backend_with_wrong_rights_and_code_is_named(check: Check) -> None:
    """Rights that are missing or that nobody may have; keys that need not be there; unknown status words."""
    results = check(BACKEND, backend=RUN_BACKEND)
    rights = wrong(results["rights"])["backend acme_run"]
    assert "has no right to patch, delete runs.acme.com" in rights
    assert "has no right to list, watch workers.acme.com" in rights
    assert "has a rule to write runs that does not say own_objects=True" in rights
    assert "services" not in rights
    assert "asks for the right to get secrets" in rights
    assert "has a rule for configmaps without a reason" in rights
    assert "has a rule for the setting 'notThere', which its settings do not have" in rights
    total = wrong(results["totality"])
    assert "in kaiwo_conform_" in total["backend acme_run: render"]
    assert "returned the status 'DONE', expected one of" in total["backend acme_run: observe"]
    docs = wrong(results["docs"])
    assert [text for text in docs.values() if "a README without acmeRun" in text]
    assert results["purity"].state == "ok"


def test_a_wildcard_in_a_rule_does_not_even_load(check: Check) -> None:
    """The check that the host makes is reported like the others, and nothing else is tried."""
    results = check(BACKEND.replace('("secrets",)', '("*",)'), backend=RUN_BACKEND)
    assert list(results) == ["load"]
    (text,) = wrong(results["load"]).values()
    assert "expected a tuple of words without wildcard" in text


SCHEMA = """
from kaiwo.plugin.lifecycle import Lifecycle
from kaiwo.plugin.vendors import GpuVendor

@hookimpl
def kaiwo_lifecycle():
    from pydantic import BaseModel, Field

    class Part(BaseModel):
        inner: int = Field(default=1)

    class Settings(BaseModel):
        good: int = Field(default=1, description="A number.")
        snake_case: int = Field(default=1, description="A number.")
        either: int | str = Field(default=1, description="A number or a text.")
        parts: list[Part] = Field(default=[], description="Parts.")
        untyped: list = Field(default=[], description="Anything.")

    return [Lifecycle("acme", settings=Settings)]
"""


def test_a_schema_that_the_api_server_cannot_check_is_named(check: Check) -> None:
    """Missing descriptions, names in another case, values of several types."""
    results = check(SCHEMA)
    found = {
        where.partition("conform_")[2].partition(".")[2]: what
        for where, what in wrong(results["schema"]).items()
    }
    assert found == {
        "snake_case": "is not in camel case",
        "either": "has one of 2 types",
        "parts[].inner": "has no description",
        "untyped[]": "has no type",
    }


UNCALLABLE = """
from kaiwo.api.plugin_fields import Field
from kaiwo.engine.resource import JOB
from kaiwo.plugin.backends import Backend
from kaiwo.plugin.commands import Command
from kaiwo.plugin.controllers import ExtraController
from kaiwo.plugin.lazy import Lazy
from kaiwo.plugin.lifecycle import Lifecycle, TransitionListener

@hookimpl
def kaiwo_backends():
    field = Field("KaiwoJob", ("acmeRun",), dict, "A Run.")
    lazy = Lazy("PACKAGE.targets:Unfinished")
    return [Backend("acme_run", "KaiwoJob", JOB, (field,), implementation=lazy)]

@hookimpl
def kaiwo_transitions():
    targets = {"acme": "plain", "two": "two"}
    return [TransitionListener(name, f"PACKAGE.targets:{target}") for name, target in targets.items()]

@hookimpl
def kaiwo_lifecycle():
    return [Lifecycle("acme", start="PACKAGE.targets:two")]

@hookimpl
def kaiwo_controllers():
    return [ExtraController("acme", build="PACKAGE.targets:NOTHING")]

@hookimpl
def kaiwo_commands():
    targets = {"acme": "command", "no": "plain"}
    return [Command(name, f"PACKAGE.targets:{target}", "Say acme.") for name, target in targets.items()]
"""
TARGETS = """
import click
from kaiwo.plugin.backend_base import BackendBase

NOTHING = None

class Unfinished(BackendBase):
    pass

def plain(transition):
    pass

async def two(transition, settings):
    pass

@click.command()
@click.option("--loud", is_flag=True)
def command(loud):
    pass
"""


def test_what_the_host_cannot_call_is_named(check: Check) -> None:
    """Functions of another kind, classes that lack methods, commands without help; nothing is called."""
    found = wrong(check(UNCALLABLE, targets=TARGETS)["contract"])
    assert "is not an async function" in found["transition listener acme"]
    assert "does not take one argument" in found["transition listener two"]
    assert "does not take one argument" in found["lifecycle acme"]
    assert "is not a function" in found["controller acme"]
    assert "its class cannot be loaded: TypeError" in found["backend acme_run"]
    assert found["command acme"] == "has no help; write a docstring; option --loud has no help"
    assert "is not a click command" in found["command no"]


def test_a_distribution_that_says_nothing_is_named(check: Check) -> None:
    """Metadata, README, requirement, types: what somebody sees who chooses a plugin."""
    bare = "Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2.3\nKeywords: bare\n"
    (text,) = wrong(check("# nothing", metadata=bare)["docs"]).values()
    for part in ("no summary", "no README", "does not require kaiwo", "/py.typed"):
        assert part in text


def test_two_plugins_that_declare_the_same_are_named(check: Check) -> None:
    """A plugin that loads alone and not beside what is installed fails the check `load`."""
    vendor = """
@hookimpl
def kaiwo_gpu_vendors():
    return [GpuVendor(name="amd", resource_keys=("acme.com/gpu",), recognise=lambda node: ())]
"""
    results = check(vendor)
    (text,) = wrong(results["load"]).values()
    assert "GPU vendor amd is also declared by plugin gpu_amd of kaiwo-gpu-amd" in text


def test_the_command_prints_a_line_for_each_check_and_fails(
    installed: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An author sees what, where, why and the next step; a script gets the same as JSON."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
    name = installed(PARTIAL)
    assert run(kaiwo, ["plugin", "test", name, "--seconds", "0"], "kaiwo") == 1
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert lines[0] == f"ok       {name} load: kaiwo-{name.replace('_', '-')} 1.2.3"
    assert [line.split()[2] for line in lines if not line.startswith(" ")] == [
        "load:",
        *(f"{c}:" for c in CHECKS),
    ]
    at = next(number for number, line in enumerate(lines) if line.startswith("failed"))
    assert [line.split(":")[0].strip() for line in lines[at + 1 : at + 4]] == ["error", "why", "next"]
    assert "1 failed" in captured.err
    assert run(kaiwo, ["plugin", "test", name, "--seconds", "0", "-o", "json"], "kaiwo") == 1
    results = json.loads(capsys.readouterr().out)
    (failed,) = (result for result in results if result["state"] == "failed")
    assert (failed["plugin"], failed["check"]) == (name, "totality")
    assert set(failed["violations"][0]) == {"where", "what", "why", "next"}
    assert run(kaiwo, ["plugin", "test", "surely-not"], "kaiwo") == 3
    assert "plugin surely-not is not installed" in capsys.readouterr().err
