"""What a plugin declares for ``kaiwo why``: kinds between a workload and its pods, and how a queue explains.

The command finds it by an entry point, without loading the plugin, and goes on silently without what fails.
"""

from __future__ import annotations

from dataclasses import replace
from types import NoneType
from typing import TYPE_CHECKING, Any, get_args

from kaiwo.client.chain_parts import GROUP
from kaiwo.plugin.diagnosis import ChainLink, ChainPart, LinkState, QueueExplanation
from kaiwo.plugin.entry_points import installed_entries
from kaiwo.plugin.observation import Finding
from kaiwo.plugin.queues import Admission, QueueSystem
from kaiwo.plugin.selection import normalised
from kaiwo.plugin.targets import imported
from kaiwo.testing.conformance.backend_probes import fault_of_words
from kaiwo.testing.conformance.declaration_probes import QueueCases
from kaiwo.testing.conformance.probes import Probe
from kaiwo.testing.conformance.results import Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaiwo.plugin.diagnosis import QueueExplainer
    from kaiwo.plugin.registry import LoadedPlugin
    from kaiwo.testing.conformance.documents import Documents
    from kaiwo.testing.conformance.probes import Case
    from kaiwo.testing.sampling import Sampler

_LINK_STATES = get_args(LinkState)
_SILENT = "kaiwo why goes on without it, and does not say so"


def chain_probes(plugin: LoadedPlugin, documents: Documents) -> Iterator[Probe]:
    """The functions with which a queue system explains where a child is."""
    for name, part in _parts(plugin):
        if isinstance(part, ChainPart) and part.queue is not None:
            yield from _explainer_probes(f"chain {name}", part.queue, documents)


def chain_violations(plugin: LoadedPlugin) -> Iterator[Violation]:
    """Entry points that name nothing of use, and kinds that are not those of the backends."""
    forms = {
        form.name: form for backend in plugin.backends for form in (backend, *backend.variants) if form.built
    }
    for name, part in _parts(plugin):
        where = f"chain {name}"
        if isinstance(part, Exception):
            yield Violation(where, f"cannot be imported: {part!r}", _SILENT, "repair the module")
        elif not isinstance(part, ChainPart):
            yield Violation(
                where, f"is {type(part).__name__}, expected ChainPart", _SILENT, "name a ChainPart"
            )
        else:
            for backend, kinds in part.children.items():
                form = forms.get(backend)
                if form is None:
                    text = f"has the kinds of a backend {backend}, which the plugin does not have"
                    yield Violation(where, text, _SILENT, "write the backend's name")
                elif form.child not in kinds[:1]:
                    text = f"begins at {kinds[0] if kinds else 'nothing'} for backend {backend}"
                    next_step = f"begin with {form.child}, the backend's child"
                    yield Violation(where, text, "kaiwo why looks for the child there", next_step)


def _parts(plugin: LoadedPlugin) -> Iterator[tuple[str, object]]:
    """The entry points of the plugin's distribution, each with what it names or the error of its import."""
    package = plugin.module.partition(".")[0]
    for entry in sorted(installed_entries(GROUP)):
        own = entry.value.partition(":")[0].partition(".")[0] == package
        if own and normalised(entry.distribution) == normalised(plugin.distribution):
            try:
                yield entry.name, imported(entry.value)
            except Exception as error:  # noqa: BLE001  a plugin's module may raise anything
                yield entry.name, error


def _explainer_probes(where: str, queue: QueueExplainer, documents: Documents) -> Iterator[Probe]:
    # Cases are those of a queue system that reads the same kinds.
    system = QueueSystem("chain", _never, queue.admission, reads=queue.reads, owned=queue.owned)
    cases = QueueCases(system, documents)

    def build(case: Case) -> tuple[Any, ...] | None:
        given = cases.as_child(case)
        if given is None:
            return None
        child, facts = given
        return child, replace(facts, default_queue="", settings=None)

    yield Probe(
        f"{where}: explain", cases.child, build, queue.explain, (QueueExplanation, NoneType), fault=_fault
    )
    yield Probe(f"{where}: admission", cases.child, build, queue.admission, (Admission, NoneType))
    yield Probe(f"{where}: owned_by", _uids, lambda case: (tuple(case),), queue.owned_by, (str,))


def _never(*_: object) -> Any:
    raise AssertionError


def _uids(sampler: Sampler) -> Case:
    return [f"uid-of-{sampler.one('child', 'pod')}-{number}" for number in range(sampler.random.randrange(4))]


def _fault(found: QueueExplanation | None) -> str:
    if found is None:
        return ""
    links: Any = found.links
    evidence: Any = found.evidence
    finding: Any = found.finding
    for link in links:
        if not isinstance(link, ChainLink) or link.state not in _LINK_STATES:
            return f"returned the link {link!r}, expected a ChainLink with {', '.join(_LINK_STATES)}"
    if not all(isinstance(text, str) for text in evidence):
        return f"returned the evidence {evidence!r}, expected sentences"
    if finding is None:
        return ""
    if not isinstance(finding, Finding):
        return f"returned the finding {finding!r}, expected a Finding"
    return fault_of_words(finding.reason, finding.message)
