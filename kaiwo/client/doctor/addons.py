"""Whether the projects that plugins build on are installed: their kinds, versions and webhooks."""

from __future__ import annotations

import asyncio
import base64
import binascii
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kaiwo.api.crd_compat import GROUPS
from kaiwo.client.doctor.result import failed, not_allowed, ok, some, unknown, warning
from kaiwo.engine.errors import Forbidden, NotFound
from kaiwo.engine.resource import DEPLOYMENT, Resource
from kaiwo.workload.json_access import lenient_map, lenient_maps

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from kaiwo.client.doctor.result import DoctorCheck
    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.registry import Plugins

_ADMISSION = "admissionregistration.k8s.io"
WEBHOOKS = tuple(
    Resource(_ADMISSION, "v1", kind, f"{kind.lower()}s", namespaced=False)
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
)
ENDPOINTS = Resource("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices")

_BUILT_IN = frozenset({"", "apps", "autoscaling", "batch", "policy"})


@dataclass(slots=True)
class AddonGroup:
    """An API group of another project.

    Attributes:
        group: its name.
        kinds: kinds in use.
        backends: names of the backends that use it.
        queue: name of the queue system that uses it, empty for none.
    """

    group: str
    kinds: set[Resource] = field(default_factory=set)
    backends: set[str] = field(default_factory=set)
    queue: str = ""


@dataclass(frozen=True, slots=True)
class WebhookService:
    """Where webhooks of a group are called.

    Attributes:
        where: ``namespace/service``, or the URL.
        webhooks: how many webhooks are called there.
        bad_bundles: names of the webhooks without a usable caBundle.
        ready: ready endpoints; None where that could not be read, or for a URL.
        problem: why `ready` is not known.
        program: images of the Deployments beside the service, empty if not known.
    """

    where: str
    webhooks: int
    bad_bundles: tuple[str, ...]
    ready: int | None = None
    problem: str = ""
    program: str = ""


def addon_groups(plugins: Plugins) -> list[AddonGroup]:
    """The API groups of other projects that the loaded plugins declare."""
    found: dict[str, AddonGroup] = {}

    def group_of(resource: Resource) -> AddonGroup | None:
        group = resource.group
        if group in _BUILT_IN or group in GROUPS or group.endswith(".k8s.io"):
            return None
        return found.setdefault(group, AddonGroup(group))

    for backend in plugins.backends:
        for resource in (backend.child, *backend.requires):
            if (one := group_of(resource)) is not None:
                one.kinds.add(resource)
                one.backends.add(backend.name)
    queue = plugins.queue_system
    for resource in queue.reads if queue else ():
        if queue is not None and (one := group_of(resource)) is not None:
            one.kinds.add(resource)
            one.queue = queue.name
    return sorted(found.values(), key=lambda one: one.group)


async def check_addon(api: Client, one: AddonGroup) -> list[DoctorCheck]:
    """Whether a group is served, with all kinds in use."""
    try:
        listed = await api.get_json(f"/apis/{one.group}")
    except NotFound:
        return [judge_addon(one, [], frozenset())]
    versions = [str(item.get("version")) for item in lenient_maps(listed.get("versions"))]
    return [judge_addon(one, versions, await api.served(one.kinds))]


def judge_addon(one: AddonGroup, versions: list[str], served: frozenset[Resource]) -> DoctorCheck:
    """Whether all kinds of a group are served.

    Args:
        one: the group.
        versions: versions of it that are served, none when it is not there.
        served: the kinds in use that are served.
    """
    users = [f"backend {name}" for name in sorted(one.backends)]
    if one.queue:
        users.append(f"queue system {one.queue}")
    fix = (
        f"install the project of {one.group}, or leave the plugins out (kaiwo manifests --plugins LIST): "
        f"{', '.join(sorted({*one.backends, one.queue} - {''}))}"
    )
    if not versions:
        text = f"not installed; needed by {', '.join(users)}"
        return failed(one.group, text, fix) if one.queue else warning(one.group, text, fix)
    missing = sorted(f"{kind} ({kind.version})" for kind in one.kinds - served)
    if missing:
        text = f"serves {', '.join(versions)}, but not {', '.join(missing)}; needed by {', '.join(users)}"
        return failed(one.group, text, f"upgrade the project of {one.group}")
    return ok(one.group, f"serves {', '.join(versions)}")


def judge_webhooks(services: list[WebhookService]) -> list[DoctorCheck]:
    """Whether the webhooks of the addons can answer; one result for each place where they are called."""
    return [_judge_service(service) for service in services] or [ok("webhooks", "none registered")]


def _judge_service(service: WebhookService) -> DoctorCheck:
    name = "webhooks"
    program = f", {service.program}" if service.program else ""
    message = f"{service.where}: {service.webhooks} registered{program}"
    namespace = service.where.partition("/")[0]
    if service.bad_bundles:
        text = f"{message}; no usable caBundle, so uncallable: {some(list(service.bad_bundles))}"
        return failed(name, text, "restart the controller behind it, which writes the caBundle")
    if service.problem:
        return unknown(name, f"{message}; endpoints not read: {service.problem}")
    if service.ready == 0:
        return failed(name, f"{message}; no ready endpoint answers", f"kubectl -n {namespace} get pods")
    return ok(name, message + (f", {service.ready} ready endpoints" if service.ready is not None else ""))


def webhooks_of(configurations: Iterable[Object], groups: Collection[str]) -> list[Object]:
    """All webhooks of the configurations that have a webhook for one of the groups."""
    found: list[Object] = []
    for configuration in configurations:
        webhooks = lenient_maps(configuration.get("webhooks"))
        rules = [rule for webhook in webhooks for rule in lenient_maps(webhook.get("rules"))]
        if any(group in groups for rule in rules for group in rule.get("apiGroups") or ()):
            found += webhooks
    return found


def has_bundle(webhook: Object) -> bool:
    """Whether a webhook has a certificate in its caBundle."""
    try:
        text = base64.b64decode(lenient_map(webhook.get("clientConfig")).get("caBundle") or "", validate=True)
    except (binascii.Error, ValueError, TypeError):
        return False
    return b"BEGIN CERTIFICATE" in text


def by_place(webhooks: Iterable[Object]) -> dict[str, list[Object]]:
    """Webhooks by where they are called: ``namespace/service``, or scheme and host of the URL."""
    found: dict[str, list[Object]] = {}
    for webhook in webhooks:
        config = lenient_map(webhook.get("clientConfig"))
        service = lenient_map(config.get("service"))
        if service:
            where = f"{service.get('namespace')}/{service.get('name')}"
        else:
            where = "/".join(str(config.get("url") or "").split("/")[:3])
        found.setdefault(where, []).append(webhook)
    return found


async def check_webhooks(api: Client, groups: Collection[str]) -> list[DoctorCheck]:
    """Whether the webhooks of the groups' projects can answer.

    Args:
        api: how to reach the cluster.
        groups: names of the API groups.
    """
    lists = await asyncio.gather(*(_list(api, kind) for kind in WEBHOOKS))
    places = by_place(webhooks_of([obj for found in lists for obj in found], groups))
    services = await asyncio.gather(*(_service(api, where, found) for where, found in sorted(places.items())))
    return judge_webhooks(list(services))


async def _service(api: Client, where: str, webhooks: list[Object]) -> WebhookService:
    bad = tuple(str(one.get("name")) for one in webhooks if not has_bundle(one))
    if "://" in where:
        return WebhookService(where, len(webhooks), bad)
    namespace, _, name = where.partition("/")
    ready, problem = None, ""
    try:
        ready = ready_endpoints(await _list(api, ENDPOINTS, namespace, f"kubernetes.io/service-name={name}"))
    except Forbidden as error:
        problem = not_allowed(error)
    return WebhookService(where, len(webhooks), bad, ready, problem, await _images(api, namespace))


def ready_endpoints(slices: Iterable[Object]) -> int:
    """How many addresses of a service's EndpointSlices are ready."""
    return sum(
        len(endpoint.get("addresses") or ())
        for one in slices
        for endpoint in lenient_maps(one.get("endpoints"))
        if lenient_map(endpoint.get("conditions")).get("ready") is not False
    )


async def _images(api: Client, namespace: str) -> str:
    """Images of the Deployments in the namespace of a webhook's service; empty where they cannot be read."""
    try:
        deployments = await _list(api, DEPLOYMENT, namespace)
    except Forbidden:
        return ""
    images: list[str] = []
    for obj in deployments:
        template = lenient_map(lenient_map(obj.get("spec")).get("template"))
        containers = lenient_maps(lenient_map(template.get("spec")).get("containers"))
        images += [str(one.get("image")).rpartition("/")[2] for one in containers[:1]]
    return ", ".join(dict.fromkeys(images))


async def _list(
    api: Client, kind: Resource, namespace: str | None = None, label: str | None = None
) -> list[Object]:
    return [obj async for obj in api.list(kind, namespace, label_selector=label)]
