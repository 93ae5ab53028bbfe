"""Which live workloads a deletion means: by name, by the files that they were sent from, or by labels."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kaiwo.cli.failures import NOT_FOUND, USAGE, Failure
from kaiwo.client.kinds import BY_KIND, KIND_NAMES, SHORT, WORKLOADS
from kaiwo.client.lookup import find_all, parse_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaiwo.cli.kit import Cluster
    from kaiwo.engine.resource import Object, Resource

NOTHING = "nothing was deleted"


@dataclass(frozen=True, slots=True)
class DeletionTarget:
    """One workload that somebody names.

    Attributes:
        written: how it is called in messages.
        namespace: where it is.
        kinds: which it may be of.
        name: its name.
    """

    written: str
    namespace: str
    kinds: tuple[Resource, ...]
    name: str


def named_targets(names: Sequence[str], namespace: str) -> list[DeletionTarget]:
    """The workloads of names such as ``train`` and ``job/train``.

    Raises:
        InvalidArgument: an unknown kind, or no name.
    """
    parsed = [(text, *parse_name(text)) for text in names]
    return [DeletionTarget(text, namespace, kinds, name) for text, kinds, name in parsed]


def file_targets(sources: Sequence[str], flag: str | None, namespace: str) -> list[DeletionTarget]:
    """The workloads of files, in the namespaces in which ``kaiwo submit`` puts them.

    Args:
        sources: files, directories and ``-``.
        flag: ``-n``, which wins over the files.
        namespace: of workloads that name none.

    Raises:
        InvalidInput: every problem of every file.
    """
    from kaiwo.api.errors import Problem
    from kaiwo.cli.input_files.file_reading import STDIN_NAMES, read_files
    from kaiwo.cli.input_files.problems import STDIN, InvalidInput, in_order

    found, problems = read_files(sources, command="kaiwo delete", otherwise="delete it with kubectl delete")
    targets = []
    for one in found:
        written = one.metadata.get("namespace")
        place = flag or (written if isinstance(written, str) else "") or namespace
        if not one.name:
            hint = "a generated name is not in the file: kaiwo list shows it"
            problems.append(one.locate(Problem("metadata.name", "is required", hint)))
        targets.append(DeletionTarget(f"{SHORT[one.kind]}/{one.name}", place, (BY_KIND[one.kind],), one.name))
    if problems:
        order = [STDIN if source in STDIN_NAMES else source for source in sources]
        raise InvalidInput(in_order(problems, order), NOTHING)
    return targets


def find_targets(
    cluster: Cluster, targets: Sequence[DeletionTarget], *, ignore_not_found: bool
) -> list[Object]:
    """The live workloads, each once.

    Raises:
        Failure: one does not exist, or a name is that of a job and of a service.
    """
    found: dict[str, Object] = {}
    missing, both = [], []
    for target in targets:
        here = cluster.run(
            functools.partial(find_all, namespace=target.namespace, kinds=target.kinds, name=target.name)
        )
        missing += [target] if not here else []
        both += [target.written] if len(here) > 1 else []
        found |= {obj["metadata"]["uid"]: obj for _, obj in here}
    if both:
        what = f"{', '.join(both)} is both a job and a service; {NOTHING}"
        raise Failure(what, f"write job/{both[0]} or service/{both[0]}", code=USAGE)
    if missing and not ignore_not_found:
        raise _not_found(missing)
    return list(found.values())


def _not_found(missing: Sequence[DeletionTarget]) -> Failure:
    by_namespace: dict[str, list[str]] = {}
    for target in missing:
        by_namespace.setdefault(target.namespace, []).append(target.written)
    named = "; ".join(
        f"{', '.join(names)} not found in namespace {place}" for place, names in by_namespace.items()
    )
    kind = next((target.written for target in missing if target.written.lower() in KIND_NAMES), "")
    hint = f"write {kind}/NAME as one word" if kind else "kaiwo list -A"
    return Failure(f"{named}; {NOTHING}", hint, code=NOT_FOUND)


def selected(cluster: Cluster, labels: str) -> list[Object]:
    """The live workloads of the namespace with these labels.

    Raises:
        NotInstalled: the cluster does not serve a kind.
    """
    from kaiwo.client.list_watch import ListScope, ListWatch

    scopes = [ListScope(kind, cluster.namespace, labels=labels) for kind in WORKLOADS]
    return cluster.run(lambda api: ListWatch(api, scopes).read())
