"""Reads the words of status, conditions and events out of the code that says them.

The code is read, not run: every call of a type that carries a reason (``Blocked``, ``Outcome``,
``Condition`` and so on) is looked at, and the literal words that can stand there are collected.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROOT = Path(__file__).parents[2]

WORKLOADS = (
    "kaiwo/workload",
    "kaiwo/host/ending/preemption.py",
    "plugins/batch_job/kaiwo_batch_job",
    "plugins/deployment/kaiwo_deployment",
    "plugins/ray_job/kaiwo_ray_job",
    "plugins/ray_service/kaiwo_ray_service",
    "plugins/kueue/kaiwo_kueue/queue_assignment.py",
    "plugins/kueue/kaiwo_kueue/topology_check.py",
    "plugins/kueue/kaiwo_kueue/admission.py",
)
CONFIG = (
    "kaiwo/host/kaiwoconfig.py",
    "kaiwo/host/crd_check.py",
    "kaiwo/host/rights_condition.py",
    "kaiwo/host/sharding.py",
    "kaiwo/host/config_warnings.py",
    "kaiwo/host/monitoring/monitor.py",
)
QUEUES = ("plugins/kueue/kaiwo_kueue",)
"""Where the words of each kind of object are said."""


@dataclass(frozen=True, slots=True)
class Use:
    """One place that says a reason.

    Attributes:
        call: name of what is called (``Blocked``).
        reason: the word; ``*`` stands for a part that is known only at run time.
        statuses: status words that go with it, empty where the place does not say.
        condition: type of the condition that carries it, empty for none.
        truth: values of that condition.
        source: file, below the root of the project.
    """

    call: str
    reason: str
    statuses: frozenset[str]
    condition: str
    truth: frozenset[str]
    source: str


@dataclass(frozen=True, slots=True)
class _Shape:
    """Where a call carries its words: positions and keywords of reason, status and condition."""

    reason: int | str
    status: int | str | None = None
    status_default: str = ""
    condition: int | str | None = None
    condition_default: str = ""
    truth: int | str | None = None
    truth_default: str = ""


_SHAPES: Mapping[str, _Shape] = {
    "Blocked": _Shape(0, "status", "ERROR", "condition", "Schedulable", truth_default="False"),
    "Outcome": _Shape(1, 0),
    "Finding": _Shape(0),
    "DiagnosedCause": _Shape(0),
    "Admission": _Shape(1),
    "Condition": _Shape(2, condition=0, truth=1),
    "_download_condition": _Shape(2, condition_default="DownloadJobSucceeded", truth=1),
    "_applied": _Shape(1, condition_default="SpecApplied", truth_default="False"),
    "SyncProblem": _Shape(2, 4, "FAILED"),
    "_report": _Shape(1),
    "PlannedEvent": _Shape(1, 0),
}
_NAMES = {
    "Blocked": {"reason": 0, "condition": 2, "status": 3},
    "Outcome": {"status": 0, "reason": 1},
    "Condition": {"type": 0, "status": 1, "reason": 2},
}
"""Positions of parameters that are also given by keyword."""


@dataclass
class _Scope:
    """Assignments of a function or a module, for words that have a name."""

    values: dict[str, list[ast.expr]] = field(default_factory=dict)


def uses(places: Sequence[str]) -> list[Use]:
    """Every place below these files and folders that says a reason."""
    found: list[Use] = []
    for place in places:
        path = ROOT / place
        for source in [path] if path.is_file() else sorted(path.rglob("*.py")):
            tree = ast.parse(source.read_text(encoding="utf-8"))
            found += _Reader(str(source.relative_to(ROOT)), tree).read()
    return found


def literal(place: str, name: str) -> object:
    """The value of a module-level constant, read as a literal.

    Raises:
        KeyError: the module has no such constant.
    """
    tree = ast.parse((ROOT / place).read_text(encoding="utf-8"))
    for value in _scope(tree.body).values.get(name, []):
        return ast.literal_eval(value)
    raise KeyError(f"{place}: no constant {name}")


class _Reader:
    def __init__(self, source: str, tree: ast.Module) -> None:
        self._source = source
        self._tree = tree
        self._module = _scope(tree.body)

    def read(self) -> list[Use]:
        return [use for scope, call in _calls(self._tree, self._module) for use in self._uses(call, scope)]

    def _uses(self, call: ast.Call, scope: _Scope) -> Iterator[Use]:
        name = _called(call)
        shape = _SHAPES.get(name)
        if shape is None:
            return
        statuses = self._words(call, name, shape.status, scope) or {shape.status_default} - {""}
        conditions = self._words(call, name, shape.condition, scope) or {shape.condition_default}
        truth = self._words(call, name, shape.truth, scope) or {shape.truth_default} - {""}
        for reason in sorted(self._words(call, name, shape.reason, scope)):
            for condition in sorted(conditions):
                yield Use(name, reason, frozenset(statuses), condition, frozenset(truth), self._source)

    def _words(self, call: ast.Call, name: str, where: int | str | None, scope: _Scope) -> set[str]:
        if where is None:
            return set()
        positions = _NAMES.get(name, {})
        position = where if isinstance(where, int) else positions.get(where)
        keywords = (
            [where] if isinstance(where, str) else [key for key, at in positions.items() if at == where]
        )
        for keyword in call.keywords:
            if keyword.arg in keywords:
                return self._strings(keyword.value, scope, ())
        if position is not None and position < len(call.args):
            return self._strings(call.args[position], scope, ())
        return set()

    def _strings(self, expression: ast.expr, scope: _Scope, seen: tuple[str, ...]) -> set[str]:
        """The literal words that an expression can be."""
        if isinstance(expression, ast.Constant):
            return {expression.value} if isinstance(expression.value, str) and expression.value else set()
        if isinstance(expression, ast.JoinedStr):
            parts = (str(p.value) if isinstance(p, ast.Constant) else "*" for p in expression.values)
            return {"".join(parts)}
        if isinstance(expression, ast.IfExp):
            inner = [expression.body, expression.orelse]
        elif isinstance(expression, ast.BoolOp):
            inner = expression.values
        elif isinstance(expression, ast.Call) and _called(expression) == "str":
            inner = expression.args
        elif isinstance(expression, ast.Name) and expression.id not in seen:
            seen = (*seen, expression.id)
            inner = scope.values.get(expression.id) or self._module.values.get(expression.id, [])
        else:
            inner = []
        return {word for part in inner for word in self._strings(part, scope, seen)}


def _called(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _calls(tree: ast.AST, scope: _Scope) -> Iterator[tuple[_Scope, ast.Call]]:
    for node in ast.iter_child_nodes(tree):
        inner = scope
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inner = _scope(list(ast.walk(node)))
        if isinstance(node, ast.Call):
            yield inner, node
        yield from _calls(node, inner)


def _scope(nodes: Sequence[ast.AST]) -> _Scope:
    scope = _Scope()
    for node in nodes:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    scope.values.setdefault(target.id, []).append(node.value)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            scope.values.setdefault(node.target.id, []).append(node.value)
    return scope
