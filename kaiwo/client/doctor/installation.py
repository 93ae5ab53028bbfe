"""Whether Kaiwo is installed and runs: CRDs, operator, leader, and the state of its configuration."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from kaiwo.api.config_names import SINGLETON, WATCH_VARIABLE, watched_namespaces
from kaiwo.api.crd_compat import crd_differences
from kaiwo.api.crd_versions import newer_definitions
from kaiwo.api.crds import KAIWO_CONFIG
from kaiwo.client.doctor.result import failed, not_allowed, ok, some, unknown, warning
from kaiwo.client.doctor.versions import judge_versions, shared_with_operator
from kaiwo.engine.errors import Forbidden, NotFound
from kaiwo.engine.resource import CUSTOM_RESOURCE_DEFINITION, DEPLOYMENT, LEASE
from kaiwo.engine.timestamps import parse_time
from kaiwo.workload.json_access import lenient_map, lenient_maps

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from kaiwo.client.doctor.result import DoctorCheck, DoctorScope
    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object, Resource

APPLY_CRDS = "as an administrator: kaiwo manifests crds --from-cluster | kubectl apply --server-side -f -"
UPGRADE_HERE = "install that version of kaiwo and its plugins here, and upgrade the operator: docs/upgrade.md"
INSTALL = "as an administrator: kaiwo manifests | kubectl apply --server-side -f -"

_RENDER = "as an administrator: kaiwo manifests rbac operator --watch-namespace NAMES"

CATEGORY = "kaiwo"
"""Category of all rendered kinds; a definition without it was made by another program."""

_CLOCKS = 5.0
"""Seconds by which the clocks of two machines of a cluster may differ."""


async def check_crds(api: Client, scope: DoctorScope) -> list[DoctorCheck]:
    """Whether the definitions are in the cluster, are Kaiwo's, and are as this version renders them.

    Those of plugins that the operator does not load are not asked for: they are an administrator's choice.
    """
    config = None
    with suppress(Forbidden):
        config = await _get(api, KAIWO_CONFIG, None, SINGLETON)
    rendered = await asyncio.to_thread(shared_with_operator(scope.plugins, config).crds)
    names = [crd["metadata"]["name"] for crd in rendered]
    try:
        read = await asyncio.gather(*(_get(api, CUSTOM_RESOURCE_DEFINITION, None, name) for name in names))
    except Forbidden as error:
        served = await api.served(kinds := [KAIWO_CONFIG, *_rendered_kinds(rendered)])
        missing = sorted(str(kind) for kind in set(kinds) - served)
        return [judge_served(missing, not_allowed(error))]
    return judge_crds([crd for crd in read if crd is not None], rendered)


def _rendered_kinds(rendered: Iterable[Object]) -> list[Resource]:
    from kaiwo.engine.resource import Resource

    return [
        Resource(
            crd["spec"]["group"],
            crd["spec"]["versions"][0]["name"],
            crd["spec"]["names"]["kind"],
            crd["spec"]["names"]["plural"],
        )
        for crd in rendered
    ]


def judge_served(missing: list[str], error: str) -> DoctorCheck:
    """The CRDs of a caller who may not read them.

    Args:
        missing: kinds that the API server does not serve.
        error: why the definitions cannot be read.
    """
    if missing:
        return failed("crds", f"not served: {', '.join(missing)}", APPLY_CRDS)
    return unknown("crds", f"all kinds are served, not compared with this version: {error}")


def judge_crds(live: list[Object], rendered: list[Object]) -> list[DoctorCheck]:
    """Whether definitions are there, Kaiwo's, and current.

    Args:
        live: those in the cluster, of the rendered names.
        rendered: as this version and plugin set has them.
    """
    names = {crd["metadata"]["name"] for crd in rendered}
    missing = sorted(names - {crd["metadata"]["name"] for crd in live})
    foreign = sorted(
        crd["metadata"]["name"]
        for crd in live
        if CATEGORY not in (lenient_map(crd["spec"].get("names")).get("categories") or ())
    )
    if missing:
        return [failed("crds", f"not in the cluster: {', '.join(missing)}", APPLY_CRDS)]
    if foreign:
        text = f"made by another program: {', '.join(foreign)}"
        return [failed("crds", text, f"{APPLY_CRDS}; read docs/install.md first")]
    if newer := newer_definitions(live, rendered):
        return [warning("crds", some(newer), UPGRADE_HERE)]
    differences = crd_differences(live, rendered)
    if differences:
        text = f"{len(differences)} differences from this version and its plugins: {some(differences)}"
        return [warning("crds", text, APPLY_CRDS)]
    return [ok("crds", f"{len(rendered)} definitions are as this version renders them")]


async def check_operator(api: Client, scope: DoctorScope) -> list[DoctorCheck]:
    """Whether an operator is installed, runs, and leads."""
    selector = f"app.kubernetes.io/name={scope.operator}"
    denied = ""
    try:
        deployments = [obj async for obj in api.list(DEPLOYMENT, label_selector=selector)]
    except Forbidden as error:
        denied = not_allowed(error)
        try:
            only = await _get(api, DEPLOYMENT, scope.installation, scope.operator)
            deployments = [only] if only else []
        except Forbidden:
            deployments = []
    leader = await _check_leader(api, scope, deployments)
    if deployments:
        judged = [judge_deployment(obj, scope.operator) for obj in deployments]
        return [*judged, *judge_namespaces(deployments, scope.namespace, whole=not denied), leader]
    if leader.state == "ok":
        return [ok("operator", "runs outside of a Deployment, by its Lease"), leader]
    if denied:
        return [unknown("operator", denied), leader]
    return [failed("operator", "not installed: no Deployment of it in any namespace", INSTALL), leader]


async def _check_leader(api: Client, scope: DoctorScope, deployments: list[Object]) -> DoctorCheck:
    name = scope.operator
    try:
        leases = [obj async for obj in api.list(LEASE, field_selector=f"metadata.name={name}")]
    except Forbidden as error:
        where = deployments[0]["metadata"]["namespace"] if deployments else scope.installation
        try:
            only = await _get(api, LEASE, where, name)
        except Forbidden:
            return unknown("leader", not_allowed(error))
        leases = [only] if only else []
    return judge_leader(leases, scope.now())


def judge_deployment(obj: Object, operator: str) -> DoctorCheck:
    """Whether the pods of the operator's Deployment are ready."""
    namespace, name = obj["metadata"]["namespace"], obj["metadata"]["name"]
    wanted = lenient_map(obj.get("spec")).get("replicas", 1)
    ready = lenient_map(obj.get("status")).get("readyReplicas") or 0
    containers = lenient_maps(
        lenient_map(lenient_map(lenient_map(obj.get("spec")).get("template")).get("spec")).get("containers")
    )
    image = next((str(one.get("image")) for one in containers if one.get("image")), "no image")
    message = f"{namespace}/{name}: {ready} of {wanted} pods ready, {image}"
    if not ready:
        pods = f"kubectl -n {namespace} get pods -l app.kubernetes.io/name={operator}"
        fix = f"{pods}; kubectl -n {namespace} logs deploy/{name}"
        return failed("operator", message, fix)
    if ready < wanted:
        return warning("operator", message, f"kubectl -n {namespace} describe deployment {name}")
    return ok("operator", message)


def judge_namespaces(deployments: list[Object], namespace: str, *, whole: bool) -> list[DoctorCheck]:
    """Whether exactly one operator runs the workloads of a namespace; nothing where that goes without saying.

    Args:
        deployments: of operators.
        namespace: of the workloads.
        whole: whether no other operator is in the cluster.
    """
    watched = {obj["metadata"]["namespace"]: _watched(obj) for obj in deployments}
    running = sorted(name for name, chosen in watched.items() if not chosen or namespace in chosen)
    if len(running) > 1:
        text = f"several run the workloads of namespace {namespace}: those in {', '.join(running)}"
        return [failed("operator", text, f"{_RENDER}, with namespaces that no other installation has")]
    if not running and whole:
        chosen = "; ".join(f"{name}: {', '.join(names)}" for name, names in sorted(watched.items()))
        text = f"none runs the workloads of namespace {namespace}, but those of other namespaces ({chosen})"
        return [failed("operator", text, f"{_RENDER}, with {namespace} added; or choose another one with -n")]
    return []


def _watched(deployment: Object) -> tuple[str, ...]:
    """The only namespaces whose workloads an operator runs; none for all."""
    template = lenient_map(lenient_map(deployment.get("spec")).get("template"))
    containers = lenient_maps(lenient_map(template.get("spec")).get("containers"))
    variables = [entry for one in containers for entry in lenient_maps(one.get("env"))]
    values = (entry.get("value") for entry in variables if entry.get("name") == WATCH_VARIABLE)
    return watched_namespaces(str(next(values, "") or ""))


def judge_leader(leases: list[Object], now: datetime) -> DoctorCheck:
    """Whether a process holds an operator's Lease and renews it.

    Args:
        leases: of all installations.
        now: by the API server's clock.
    """
    if not leases:
        return failed("leader", "no operator has ever led: its Lease does not exist", INSTALL)
    # With several installations the one that works is of interest; the others have their Deployments' lines.
    return min((_judge_lease(lease, now) for lease in leases), key=lambda check: _ORDER.index(check.state))


_ORDER = ("ok", "warning", "unknown", "failed")


def _judge_lease(lease: Object, now: datetime) -> DoctorCheck:
    namespace, name = lease["metadata"]["namespace"], lease["metadata"]["name"]
    spec = lenient_map(lease.get("spec"))
    holder = str(spec.get("holderIdentity") or "")
    renewed = parse_time(spec.get("renewTime"))
    duration = spec.get("leaseDurationSeconds")
    fix = f"kubectl -n {namespace} logs deploy/{name}; kubectl -n {namespace} get lease {name} -o yaml"
    if not holder or renewed is None or not isinstance(duration, int):
        return failed("leader", f"nobody holds the Lease {namespace}/{name}", fix)
    age = (now - renewed).total_seconds()
    if age > duration + _CLOCKS:
        text = f"the Lease {namespace}/{name} expired: {holder} renewed it last {age:.0f} s ago"
        return failed("leader", text, fix)
    message = f"{holder} holds {namespace}/{name}, renewed {max(age, 0):.0f} s ago"
    if age < -_CLOCKS:
        return warning("leader", f"{message}; its clock is {-age:.0f} s ahead of the API server's")
    return ok("leader", message)


async def check_config(api: Client, scope: DoctorScope) -> list[DoctorCheck]:
    """What the operator reports in KaiwoConfig: conditions and plugins."""
    config = await _get(api, KAIWO_CONFIG, None, SINGLETON)
    here = {plugin.name: plugin.version for plugin in scope.plugins.loaded}
    return [*judge_config(config), *judge_versions(config, here)]


def judge_config(config: Object | None) -> list[DoctorCheck]:
    """The conditions and the plugins of KaiwoConfig; None for one that does not exist."""
    if config is None:
        text = f"KaiwoConfig {SINGLETON} does not exist; the operator creates it when it starts"
        return [failed("config", text, "kaiwo init, or start the operator: see the check operator")]
    status = lenient_map(config.get("status"))
    found = judge_conditions("config", f"KaiwoConfig {SINGLETON}", config)
    broken, refused = (
        [
            f"{plugin.get('name')}: {plugin.get('message') or state}"
            for plugin in lenient_maps(status.get("plugins"))
            if plugin.get("state") == state
        ]
        for state in ("broken", "not-allowed")
    )
    loaded = [p.get("name") for p in lenient_maps(status.get("plugins")) if p.get("state") == "loaded"]
    if broken:
        fix = (
            "install these plugins in the operator's image, or leave them out: kaiwo manifests --plugins LIST"
        )
        found.append(failed("plugins", f"broken in the operator: {some(broken)}", fix))
    elif refused:
        fix = "add them to the list (--plugins-allowed), or leave them out: kaiwo manifests --plugins LIST"
        found.append(failed("plugins", f"not allowed in the operator: {some(refused)}", fix))
    elif loaded:
        found.append(ok("plugins", f"{len(loaded)} loaded by the operator: {', '.join(map(str, loaded))}"))
    return found


def judge_conditions(name: str, what: str, obj: Object) -> list[DoctorCheck]:
    """The conditions of a configuration object: Ready must be True, others should not be False.

    Args:
        name: of the check.
        what: the object in words.
        obj: the object.
    """
    conditions = lenient_maps(lenient_map(obj.get("status")).get("conditions"))
    if not conditions:
        return [
            warning(name, f"{what}: not yet observed by an operator", "see the checks operator and leader")
        ]
    found: list[DoctorCheck] = []
    for condition in conditions:
        text = f"{what}: {condition.get('type')}=False/{condition.get('reason')}: {condition.get('message')}"
        if condition.get("status") == "False":
            show = f"kubectl get {obj['kind'].lower()} {obj['metadata']['name']} -o yaml"
            found.append(
                failed(name, text, show) if condition.get("type") == "Ready" else warning(name, text, show)
            )
    return found or [ok(name, f"{what} is in force")]


async def check_plugin_kinds(api: Client, scope: DoctorScope) -> list[DoctorCheck]:
    """What the operator reports in cluster-wide configuration objects of plugins."""
    found: list[DoctorCheck] = []
    for resource in (kind.resource for kind in scope.plugins.kinds()):
        if resource.namespaced:
            continue
        name = resource.plural
        try:
            objects = [obj async for obj in api.list(resource)]
        except NotFound:
            continue
        except Forbidden as error:
            found.append(unknown(name, not_allowed(error)))
            continue
        if not objects:
            found.append(warning(name, f"no {resource.kind} yet; the operator creates it", "kaiwo init"))
        for obj in objects:
            found += judge_conditions(name, f"{resource.kind} {obj['metadata']['name']}", obj)
    return found


async def _get(api: Client, resource: Resource, namespace: str | None, name: str) -> Object | None:
    try:
        return await api.get(resource, namespace, name)
    except NotFound:
        return None
