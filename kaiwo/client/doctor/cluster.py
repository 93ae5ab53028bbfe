"""Whether nodes, storage classes and namespaces are as workloads need them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.api.config_names import SINGLETON
from kaiwo.api.crds import KAIWO_CONFIG
from kaiwo.api.errors import InvalidConfig
from kaiwo.api.resolved_config import ResolvedConfig
from kaiwo.client.doctor.result import failed, not_allowed, ok, some, unknown, warning
from kaiwo.engine.errors import Forbidden, NotFound
from kaiwo.engine.resource import NAMESPACE, NODE, STORAGE_CLASS
from kaiwo.plugin.settings import configured_vendors
from kaiwo.workload.gpus.nodes import counts, labels_of
from kaiwo.workload.json_access import lenient_map

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kaiwo.client.doctor.result import DoctorCheck, DoctorScope
    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.registry import Plugins
    from kaiwo.plugin.vendors import GpuVendor

_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


async def check_storage(api: Client, scope: DoctorScope) -> list[DoctorCheck]:
    """Whether a workload that names no storage class gets a volume."""
    del scope
    classes = [obj async for obj in api.list(STORAGE_CLASS)]
    configured = ""
    try:
        config = ResolvedConfig.from_object(await api.get(KAIWO_CONFIG, None, SINGLETON))
        configured = config.default_storage_class or ""
    except (NotFound, Forbidden, InvalidConfig):
        configured = ""
    return [judge_storage(classes, configured)]


def judge_storage(classes: Sequence[Object], configured: str) -> DoctorCheck:
    """Whether there is a default storage class.

    Args:
        classes: all StorageClasses.
        configured: the one that KaiwoConfig names, empty for none.
    """
    names = sorted(obj["metadata"]["name"] for obj in classes)
    default = sorted(
        obj["metadata"]["name"]
        for obj in classes
        if lenient_map(obj["metadata"].get("annotations")).get(_DEFAULT_CLASS) == "true"
    )
    name = "storage-classes"
    if configured and configured not in names:
        text = f"KaiwoConfig names the storage class {configured}, which does not exist"
        known = ", ".join(names) or "none"
        fix = f"kubectl edit kaiwoconfig {SINGLETON}; set spec.storage.defaultStorageClass to one of: {known}"
        return failed(name, text, fix)
    if configured:
        return ok(name, f"{', '.join(names)}; default by KaiwoConfig: {configured}")
    if not names:
        return warning(name, "none; workloads with storage cannot run", "install a storage provisioner")
    if not default:
        text = f"{', '.join(names)}, none is the default; a workload with storage must name one"
        fix = f"kubectl annotate storageclass {names[0]} {_DEFAULT_CLASS}=true"
        return warning(name, text, fix)
    if len(default) > 1:
        text = f"several are the default: {', '.join(default)}; the newest one is used"
        return warning(name, text, f"kubectl annotate storageclass {default[0]} {_DEFAULT_CLASS}-")
    return ok(name, f"{', '.join(names)}; default: {default[0]}")


async def check_gpus(api: Client, scope: DoctorScope) -> list[DoctorCheck]:
    """Whether device plugins and GPU labels of the nodes agree."""
    vendors = configured_vendors(scope.plugins, await _settings(api))
    return judge_gpus([obj async for obj in api.list(NODE)], vendors)


async def _settings(api: Client) -> Object:
    """``spec.plugins`` of KaiwoConfig; empty where it cannot be read."""
    try:
        config = await api.get(KAIWO_CONFIG, None, SINGLETON)
    except (NotFound, Forbidden):
        return {}
    return lenient_map(lenient_map(config.get("spec")).get("plugins"))


def judge_gpus(nodes: Sequence[Object], vendors: Sequence[GpuVendor]) -> list[DoctorCheck]:
    """Whether nodes that are labelled with GPUs advertise them, and the reverse."""
    total: dict[str, int] = {}
    silent: list[str] = []
    unlabelled: list[str] = []
    for node in nodes:
        name = node["metadata"]["name"]
        for vendor in vendors:
            advertised = {key: count for key, count in counts(node, vendor.resource_keys).items() if count}
            for key, count in advertised.items():
                total[key] = total.get(key, 0) + count
            bare = {**node, "metadata": {"name": name}}
            empty = {**node, "status": {}}
            labelled = sum(found.count for found in vendor.gpus_of(empty))
            if labelled and not advertised:
                silent.append(f"{name} (label: {labelled} {vendor.name})")
            elif advertised and vendor.gpus_of(node) == vendor.gpus_of(bare):
                unlabelled.append(f"{name} ({vendor.name})")
    found: list[DoctorCheck] = []
    if silent:
        first = silent[0].partition(" ")[0]
        found.append(
            failed(
                "gpus",
                f"labelled with GPUs that no device plugin advertises: {some(silent)}",
                f"restart its device plugin: kubectl get pods -A --field-selector spec.nodeName={first}",
            )
        )
    if unlabelled:
        found.append(
            warning(
                "gpus",
                f"no label with the GPU model: {some(unlabelled)}; gpuModels cannot select them",
                "install the vendor's node labeller or feature discovery",
            )
        )
    if total:
        amounts = ", ".join(f"{count} {key}" for key, count in sorted(total.items()))
        found.append(ok("gpus", f"{len(nodes)} nodes advertise {amounts}"))
    elif not found:
        known = ", ".join(vendor.name for vendor in vendors) or "none"
        found.append(warning("gpus", f"no node of {len(nodes)} advertises GPUs of a loaded vendor ({known})"))
    return found


async def check_namespace(api: Client, scope: DoctorScope) -> list[DoctorCheck]:
    """Whether the namespace exists and carries the label by which the queue system manages it."""
    labels = namespace_labels(scope.plugins)
    try:
        namespace = await api.get(NAMESPACE, None, scope.namespace)
    except NotFound:
        fix = f"kubectl create namespace {scope.namespace}, or choose another one with -n"
        return [failed("namespace", f"{scope.namespace} does not exist", fix)]
    except Forbidden as error:
        return [unknown("namespace", not_allowed(error))]
    writes = bool(labels) and await _labels_namespaces(api, scope.plugins)
    return [judge_namespace(namespace, labels, by_operator=writes)]


def namespace_labels(plugins: Plugins) -> tuple[str, ...]:
    """The labels that the plugin of the queue system declares to write on namespaces."""
    found = [
        label
        for plugin in plugins.loaded
        if plugin.queue_systems
        for rule in plugin.rules()
        if rule.resources == (NAMESPACE.plural,)
        for label in rule.labels
    ]
    return tuple(dict.fromkeys(found))


async def _labels_namespaces(api: Client, plugins: Plugins) -> bool:
    """Whether the operator writes these labels itself, by the plugin's setting."""
    written = await _settings(api)
    for plugin in plugins.loaded:
        if plugin.queue_systems:
            settings = lenient_map(written.get(plugin.name))
            switches = [rule.setting for rule in plugin.rules() if rule.labels and rule.setting]
            return all(settings.get(switch, True) is not False for switch in switches)
    return True


def judge_namespace(namespace: Object, labels: Iterable[str], *, by_operator: bool) -> DoctorCheck:
    """Whether a namespace is managed by the queue system.

    Args:
        namespace: the Namespace.
        labels: labels that must be ``true`` for that.
        by_operator: the operator sets them with the first workload.
    """
    name = namespace["metadata"]["name"]
    missing = [label for label in labels if labels_of(namespace).get(label) != "true"]
    if not missing:
        return ok("namespace", f"{name} is managed by the queue system" if labels else f"{name} exists")
    wanted = " ".join(f"{label}=true" for label in missing)
    if by_operator:
        return ok(
            "namespace", f"{name} has no label {wanted} yet; the operator sets it with the first workload"
        )
    text = f"{name} has no label {wanted}; the queue system leaves its workloads alone"
    return failed("namespace", text, f"kubectl label namespace {name} {wanted}")
