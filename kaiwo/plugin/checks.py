"""Checks of what a hook returned; the first error makes the plugin broken.

Our type checker never sees a third party's code. So everything that the host relies on is checked once, when
the plugin is loaded, instead of failing in the middle of a reconciliation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from kaiwo.api.plugin_fields import Field, WorkloadKind
from kaiwo.engine.resource import Resource
from kaiwo.plugin.adoption import Adoption
from kaiwo.plugin.backends import Backend
from kaiwo.plugin.commands import Command
from kaiwo.plugin.controllers import CustomKind, ExtraController
from kaiwo.plugin.diagnosis import DiagnosisRule
from kaiwo.plugin.lazy import Lazy
from kaiwo.plugin.lifecycle import Lifecycle, TransitionListener
from kaiwo.plugin.namespace_defaults import NamespaceDefaults
from kaiwo.plugin.queue_setup import QueueSetup
from kaiwo.plugin.queues import QueueSystem
from kaiwo.plugin.rbac import PolicyRule
from kaiwo.plugin.rendering import PodContribution
from kaiwo.plugin.sources import DownloadSource
from kaiwo.plugin.targets import missing
from kaiwo.plugin.vendors import GpuTool, GpuVendor, Utilization

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_NAME = re.compile(r"[a-z0-9]([a-z0-9_.-]*[a-z0-9])?")
_REFERENCE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_JSON_NAME = re.compile(r"[a-z][A-Za-z0-9]*")
_RESOURCE_KEY = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?/[A-Za-z0-9][\w.-]*")
_METRIC = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_WORKLOAD_KINDS = get_args(WorkloadKind)
_QUEUE_FUNCTIONS = (
    "writers", "manages", "is_changing", "fewest_pods", "merge_live", "queues", "usage", "usage_paths",
    "flavors", "waiting", "relief",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class MissingTarget:
    """What a declaration names as ``module:name`` and does not exist.

    Attributes:
        declaration: the hook and the declaration, as messages name them.
        attribute: the attribute that names it.
        target: ``module:name``.
        problem: what of it does not exist.
    """

    declaration: str
    attribute: str
    target: str
    problem: str

    def __str__(self) -> str:
        """One sentence."""
        return f"{self.declaration}: {self.attribute} is {self.target!r}, but {self.problem}"


class InvalidPlugin(Exception):
    """A plugin that cannot be loaded; the message is one line.

    Attributes:
        reason: CamelCase word for what is wrong.
        targets: what the plugin names and does not exist.
    """

    def __init__(
        self, message: str, reason: str = "InvalidDeclaration", targets: Sequence[MissingTarget] = ()
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.targets = tuple(targets)


class MissingTargets(InvalidPlugin):
    """Declarations name what does not exist."""

    def __init__(self, targets: Sequence[MissingTarget]) -> None:
        super().__init__("; ".join(map(str, targets)), "MissingTarget", targets)


_missing: ContextVar[list[MissingTarget]] = ContextVar("missing targets of the declarations of one hook")


def require(condition: object, message: str) -> None:
    """Raise an error unless the condition holds.

    Raises:
        InvalidPlugin: with the message.
    """
    if not condition:
        raise InvalidPlugin(message)


def checked_declarations(hook: str, declaration_type: type, returned: object) -> tuple[object, ...]:
    """What a hook returned, as a tuple of usable declarations.

    Raises:
        MissingTargets: the declarations are right, and name what does not exist.
        InvalidPlugin: it is not a list or tuple of that type, or a declaration cannot be used.
    """
    if not isinstance(returned, list | tuple):
        raise InvalidPlugin(
            f"{hook} returned {type(returned).__name__}, expected a list of {declaration_type.__name__}"
        )
    targets: list[MissingTarget] = []
    _missing.set(targets)
    for item in returned:
        require(
            isinstance(item, declaration_type),
            f"{hook} returned a list with {type(item).__name__}, expected only {declaration_type.__name__}",
        )
        where = f"{hook}: {declaration_type.__name__} {getattr(item, 'name', '')!r}"
        _check_common(where, item)
        _CHECKS[declaration_type](where, item)
    if targets:
        raise MissingTargets(targets)
    return tuple(returned)


def _check_common(where: str, item: object) -> None:
    name = getattr(item, "name", None)
    require(
        isinstance(name, str) and _NAME.fullmatch(name),
        f"{where}: name is invalid, expected lower-case letters, digits, '_', '-' or '.'",
    )
    _check_tuple(where, item, "rules", PolicyRule)
    for rule in getattr(item, "rules", ()):
        for attribute in ("groups", "resources", "verbs", "labels"):
            words = getattr(rule, attribute)
            require(
                isinstance(words, tuple) and all(isinstance(word, str) and "*" not in word for word in words),
                f"{where}: {attribute} of a rule is {words!r}, expected a tuple of words without wildcard",
            )
        require(isinstance(rule.why, str), f"{where}: why of a rule is not text")
    settings = getattr(item, "settings", None)
    if settings is not None:
        from pydantic import BaseModel

        require(
            isinstance(settings, type) and issubclass(settings, BaseModel),
            f"{where}: settings is not a pydantic model class",
        )


def _check_tuple(where: str, item: object, attribute: str, of: type) -> None:
    values = getattr(item, attribute, ())
    require(
        isinstance(values, tuple) and all(isinstance(value, of) for value in values),
        f"{where}: {attribute} is not a tuple of {of.__name__}",
    )


def _check_callable(where: str, item: object, *attributes: str, optional: bool = False) -> None:
    for attribute in attributes:
        value = getattr(item, attribute)
        require(callable(value) or (optional and value is None), f"{where}: {attribute} is not callable")


def _check_reference(where: str, item: object, *attributes: str, optional: bool = False) -> None:
    for attribute in attributes:
        value = getattr(item, attribute)
        require(
            _is(value, _REFERENCE) or (optional and value is None),
            f"{where}: {attribute} is {value!r}, expected module:name",
        )
        if value is not None:
            _check_target(where, attribute, value)


def _is(value: object, pattern: re.Pattern[str]) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def _check_target(where: str, attribute: str, target: str) -> None:
    if problem := missing(target):
        _missing.get().append(MissingTarget(where, attribute, target, problem))


def _check_path(where: str, path: object) -> None:
    require(
        isinstance(path, tuple)
        and path
        and all(isinstance(p, str) and _JSON_NAME.fullmatch(p) for p in path),
        f"{where}: path is {path!r}, expected a tuple of JSON names",
    )


def _check_backend(where: str, item: Backend) -> None:
    require(
        item.kind in _WORKLOAD_KINDS, f"{where}: kind is {item.kind!r}, expected KaiwoJob or KaiwoService"
    )
    require(isinstance(item.child, Resource), f"{where}: child is not a Resource")
    _check_tuple(where, item, "fields", Field)
    require(item.fields, f"{where}: declares no field, expected its own block first")
    for field in item.fields:
        _check_path(where, field.path)
        require(
            field.kind == item.kind,
            f"{where}: field {'.'.join(field.path)} is of {field.kind!r}, expected {item.kind}",
        )
        at = f"{where}: field {'.'.join(field.path)}"
        require(isinstance(field.description, str), f"{at}: description is not text")
        _check_callable(at, field, "warn", optional=True)
    _check_callable(where, item, "implementation", optional=True)
    require(isinstance(item.max_name_length, int), f"{where}: max_name_length is not a number")
    require(
        item.name_pattern in ("dns1123", "dns1035"),
        f"{where}: name_pattern is {item.name_pattern!r}, expected dns1123 or dns1035",
    )
    require(item.write in ("create", "apply"), f"{where}: write is {item.write!r}, expected create or apply")
    if isinstance(item.implementation, Lazy):
        target: object = item.implementation.target
        require(_is(target, _REFERENCE), f"{where}: implementation is {target!r}, expected module:name")
        _check_target(where, "implementation", item.implementation.target)
    for attribute in ("requires", "secondary", "pod_owners"):
        _check_tuple(where, item, attribute, Resource)
    for attribute in ("mutable", "takes", "urgent", "reads", "reads_conditions", "reads_without_pods"):
        _check_tuple(where, item, attribute, str)
    for attribute in ("patch_paths", "owned_paths", "pod_templates"):
        _check_tuple(where, item, attribute, tuple)
    for path in item.pod_templates:
        _check_template_path(where, path, item.block)
    require(isinstance(item.adoption, Adoption | None), f"{where}: adoption is not an Adoption")
    if item.adoption is not None:
        _check_path(f"{where}: adoption", item.adoption.pod_template)
        _check_tuple(f"{where}: adoption", item.adoption, "left_out", tuple)
    _check_tuple(where, item, "variants", Backend)
    for variant in item.variants:
        _check_backend(f"{where}: variant {variant.name!r}", variant)


def _check_template_path(where: str, path: tuple[object, ...], block: str) -> None:
    names = [name for name in path if name != "*"]
    require(
        path
        and path[0] == block
        and path[-1] != "*"
        and len(path) - len(names) <= 1
        and all(isinstance(name, str) and _JSON_NAME.fullmatch(name) for name in names),
        f"{where}: {path!r} in pod_templates is invalid, expected JSON names from {block!r} on with at most "
        "one '*' between them",
    )


def _check_source(where: str, item: Any) -> None:
    from pydantic import BaseModel

    _check_path(where, item.path)
    require(
        isinstance(item.item, type) and issubclass(item.item, BaseModel),
        f"{where}: item is not a pydantic model class",
    )
    require(isinstance(item.description, str), f"{where}: description is not text")
    _check_reference(where, item, "downloader", optional=True)
    _check_callable(where, item, "secrets", "warnings")
    _check_tuple(where, item, "credentials", str)
    require(isinstance(item.needs_credentials, bool), f"{where}: needs_credentials is not a boolean")


def _check_vendor(where: str, item: GpuVendor) -> None:
    require(item.name != "default", f"{where}: the name default is reserved for KaiwoConfig's resource key")
    require(item.resource_keys, f"{where}: declares no resource key")
    _check_tuple(where, item, "resource_keys", str)
    for key in item.resource_keys:
        one = key if key is item.resource_keys[0] else key.removesuffix("*")
        require(
            _RESOURCE_KEY.fullmatch(one), f"{where}: {key!r} is not an extended resource like acme.com/gpu"
        )
    _check_callable(where, item, "recognise")
    _check_callable(where, item, "requested", optional=True)
    _check_utilization(where, item.utilization)
    require(isinstance(item.tool, GpuTool | None), f"{where}: tool is not a GpuTool")
    if item.tool is not None:
        _check_tuple(f"{where}: tool", item.tool, "command", str)
        require(item.tool.command, f"{where}: tool: command names no program")
        _check_callable(f"{where}: tool", item.tool, "parse")


def _check_utilization(where: str, item: Utilization | None) -> None:
    require(isinstance(item, Utilization | None), f"{where}: utilization is not a Utilization")
    if item is None:
        return
    _check_tuple(where, item, "gpu_labels", str)
    metrics = [
        item.metric,
        *(name for name in (item.memory_used, item.memory_free, item.memory_total) if name),
    ]
    labels = [item.namespace_label, item.pod_label, *item.gpu_labels]
    for name in metrics:
        require(_is(name, _METRIC), f"{where}: {name!r} is not the name of a Prometheus metric")
    for name in labels:
        require(_is(name, _LABEL), f"{where}: {name!r} is not the name of a Prometheus label")
    require(len(set(labels)) == len(labels), f"{where}: utilization names a label twice")


def _check_queue_system(where: str, item: QueueSystem) -> None:
    from kaiwo.engine.cached_object import Projection

    _check_callable(where, item, "assign", "admission")
    _check_callable(where, item, *_QUEUE_FUNCTIONS, optional=True)
    for attribute in ("reads", "owned", "usage_reads", "flavor_reads"):
        _check_tuple(where, item, attribute, Resource)
    for kind in item.owned:
        require(kind in item.reads, f"{where}: owned has {kind}, which reads lacks")
    for attribute in ("urgent", "queue_reasons"):
        _check_tuple(where, item, attribute, str)
    require(isinstance(item.queue_label, str), f"{where}: queue_label is not text")
    projections: object = item.projections
    require(
        isinstance(projections, Mapping)
        and all(isinstance(projection, Projection) for projection in projections.values()),
        f"{where}: projections is not a mapping of kinds to Projection",
    )
    require(isinstance(item.setup, QueueSetup | None), f"{where}: setup is not a QueueSetup")
    if item.setup is not None:
        _check_callable(f"{where}: setup", item.setup, "plan")
        _check_tuple(f"{where}: setup", item.setup, "reads", Resource)


def _check_controller(where: str, item: ExtraController) -> None:
    _check_reference(where, item, "build")
    _check_reference(where, item, "removals", optional=True)
    _check_tuple(where, item, "kinds", CustomKind)
    require(isinstance(item.labels_nodes, bool), f"{where}: labels_nodes is not a boolean")
    require(item.node_labels is None or callable(item.node_labels), f"{where}: node_labels is not a function")
    for kind in item.kinds:
        require(isinstance(kind.resource, Resource), f"{where}: resource of a kind is not a Resource")
        require(isinstance(kind.singleton, str), f"{where}: singleton of a kind is not a string")
        require(kind.check is None or callable(kind.check), f"{where}: check of a kind is not a function")
        _check_schema(f"{where}: kind {kind.resource}", kind)


def _check_schema(where: str, item: CustomKind) -> None:
    from pydantic import BaseModel

    for attribute in ("spec", "status"):
        model: object = getattr(item, attribute)
        require(
            isinstance(model, type) and issubclass(model, BaseModel),
            f"{where}: {attribute} is not a pydantic model class",
        )
    require(isinstance(item.description, str), f"{where}: description is not text")
    _check_tuple(where, item, "short_names", str)
    _check_tuple(where, item, "printer_columns", dict)


def _check_contribution(where: str, item: PodContribution) -> None:
    _check_callable(where, item, "contribute")


def _check_namespace_defaults(where: str, item: NamespaceDefaults) -> None:
    require(isinstance(item.kind, Resource), f"{where}: kind is not a Resource")
    require(item.kind.namespaced, f"{where}: kind {item.kind} has no namespaces")
    _check_callable(where, item, "read")


def _check_diagnosis_rule(where: str, item: DiagnosisRule) -> None:
    _check_callable(where, item, "diagnose")


def _check_command(where: str, item: Any) -> None:
    _check_reference(where, item, "load")
    require(isinstance(item.help, str) and "\n" not in item.help, f"{where}: help is not one line of text")


def _check_lifecycle(where: str, item: Lifecycle) -> None:
    _check_reference(where, item, "start", "stop", "settings_changed", optional=True)


def _check_listener(where: str, item: TransitionListener) -> None:
    _check_reference(where, item, "notify")


_CHECKS: dict[type, Callable[..., None]] = {
    Backend: _check_backend,
    DownloadSource: _check_source,
    GpuVendor: _check_vendor,
    QueueSystem: _check_queue_system,
    ExtraController: _check_controller,
    PodContribution: _check_contribution,
    NamespaceDefaults: _check_namespace_defaults,
    DiagnosisRule: _check_diagnosis_rule,
    Command: _check_command,
    Lifecycle: _check_lifecycle,
    TransitionListener: _check_listener,
}
