"""Set G: the operator lacks one rule of its roles, or its token is not accepted, until that is mended."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
import itertools
import json
import re
import time
from functools import partial
from typing import TYPE_CHECKING, Final

import yaml
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from campaign import oracles
from campaign.arena import PLUGINS
from campaign.case import Case
from campaign.violation import ViolationError
from kaiwo.api.crds import KAIWO_CONFIG
from kaiwo.api.installation import OPERATOR
from kaiwo.engine import credentials
from kaiwo.engine.errors import NotFound
from kaiwo.engine.resource import NAMESPACE
from kaiwo.testing.fault_proxy import FaultProxy
from kaiwo.testing.operator import OperatorProcess, until
from kaiwo.testing.rights import OperatorRights
from kaiwo_kueue.kinds import QUEUE_CONFIG

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence
    from pathlib import Path

    from campaign.arena import Arena
    from campaign.scenarios import Scenario
    from kaiwo.engine.resource import Object, Resource

USED: Final = ("job-storage", "serve-plain", "rayjob-plain", "rayserve-plain")
"""Scenarios that together need all rights. Of these the given ones are run."""

NEVER_ASKED: Final = frozenset({"kaiwojobs/finalizers"})
"""Asked for by an admission plugin that the control plane here does not have."""

STOPS: Final = {
    "configmaps": {"job-storage"},
    "persistentvolumeclaims": {"job-storage"},
    "jobs": {"job-storage", "rayjob-plain"},
    "kaiwojobs": {"job-storage", "rayjob-plain"},
    "kaiwoservices": {"serve-plain", "rayserve-plain"},
    "deployments": {"serve-plain"},
    "replicasets": {"serve-plain"},
    "storageclasses": {"job-storage"},
    "services": {"serve-plain"},
    "rayjobs": {"rayjob-plain"},
    "rayclusters": {"rayjob-plain", "rayserve-plain"},
    "rayservices": {"rayserve-plain"},
    "appwrappers": {"rayserve-plain"},
}
"""By resource, which scenarios may wait for the right; those that `ALL` names stop everything."""

QUEUES: Final = frozenset(
    {"clusterqueues", "cohorts", "kaiwoqueueconfigs", "resourceflavors", "topologies", "workloads"}
)
"""Without one of these nothing can be queued, and every workload is."""

ALL: Final = QUEUES | {"kaiwoconfigs", "kaiwojobs/status", "namespaces", "nodes", "pods", "leases"}

TOUCHED: Final[dict[str, tuple[Resource, Callable[[str], Object]]]] = {
    "kaiwoconfigs/status": (KAIWO_CONFIG, lambda name: {"defaultClusterQueueName": name}),
    "kaiwoqueueconfigs/status": (QUEUE_CONFIG, lambda name: {"resourceFlavors": [{"name": name}]}),
}
"""By resource of a rule: a kind whose status goes through it, and a spec with a name in it."""

_FORBIDDEN, _OK = 403, 200
_SOON: Final = 60.0
_VALID_FOR: Final = 30
"""Seconds for which a token is accepted that is to expire while the operator runs."""


def cases(scenarios: Sequence[Scenario]) -> Iterator[Case]:
    """A case for each rule of the operator's roles, and for each token that is not accepted."""
    used = [scenario for scenario in scenarios if scenario.name in USED]
    if not used:
        return
    for number, role in enumerate(OperatorRights(None, "any", PLUGINS).roles):
        for index, rule in enumerate(role["rules"]):
            if NEVER_ASKED.isdisjoint(rule["resources"]):
                what = f"{'-'.join(rule['resources'])}-{'-'.join(rule['verbs'])}".replace("/", ".")
                name = f"{role['kind'].lower()}-{what}"
                yield Case("G", name, partial(_run, used, number, index), own=True)
    for name, token in (("expired-token", _short), ("wrong-audience", _for_another_server)):
        yield Case("G", name, partial(_unauthenticated, used, token), own=True)


async def _run(scenarios: Sequence[Scenario], role: int, index: int, arena: Arena) -> None:
    async with _rights(arena) as (rights, namespace):
        rule = rights.roles[role]["rules"][index]
        for each, number in _giving(rights, role, index):
            await asyncio.to_thread(rights.revoke_rule, each, number)
        token = await asyncio.to_thread(rights.token)
        sandbox = arena.cluster.sandbox
        connection = credentials.static(
            sandbox.url, token=token, ca_file=sandbox.ca_file, namespace=namespace
        )
        async with FaultProxy(connection) as proxy:
            mine = dataclasses.replace(arena, proxy=proxy)
            process = _described(mine, namespace, proxy.write_kubeconfig(_file(mine))).start()
            try:
                await _without(mine, scenarios, rule, process)
                await asyncio.to_thread(rights.grant)
                await _complete(mine, scenarios, process, namespace)
                oracles.bounded(mine)
            finally:
                proxy.clear()
                await asyncio.to_thread(process.close)


def _giving(rights: OperatorRights, role: int, index: int) -> Iterator[tuple[Object, int]]:
    """A rule, as its role and its place in it, and those of other roles that give the same as well."""
    wanted = rights.roles[role]["rules"][index]
    yield rights.roles[role], index
    for other in rights.roles[:role]:
        for place, rule in enumerate(other["rules"]):
            if all(set(wanted[part]) <= set(rule[part]) for part in ("apiGroups", "resources", "verbs")):
                yield other, place


async def _without(
    arena: Arena, scenarios: Sequence[Scenario], rule: Object, process: OperatorProcess
) -> None:
    """What needs the rule is refused and says so; the rest goes on."""
    for scenario in scenarios:
        await arena.submit(scenario)
    collections = "|".join(resource.partition("/")[0] for resource in rule["resources"])
    objects = "|".join(rule.get("resourceNames", ()))
    paths = re.compile(rf"/({collections})/({objects})$" if objects else rf"/({collections})(/|$)")

    def refused() -> bool:
        records = arena.proxy.records
        return any(record.code == _FORBIDDEN and paths.search(record.path) for record in records)

    async with _changing(arena, rule):
        await _becomes("fault", f"nothing was refused that needs {rule}", refused)
    words = rf"cannot ({'|'.join(rule['verbs'])}) resource \W*({'|'.join(rule['resources'])})\b"
    try:
        await asyncio.to_thread(process.wait_log, words, _SOON)
    except AssertionError:
        raise ViolationError("O10", f"no line of the log says {words}:\n{process.log[-2000:]}") from None
    waiting: set[str] = set()
    for resource in rule["resources"]:
        waiting |= STOPS.get(resource, set())
    if ALL.isdisjoint(rule["resources"]):
        for scenario in scenarios:
            if scenario.name not in waiting:
                await arena.reaches(scenario)
    oracles.no_traceback(process)


@contextlib.asynccontextmanager
async def _changing(arena: Arena, rule: Object) -> AsyncIterator[None]:
    """Where the rule is for a status of configuration: an object whose status becomes old again and again.

    The status of the object that is in force is right already, and the operator of a case beside this one may
    be quicker to write another one.
    """
    changed = [TOUCHED[resource] for resource in rule["resources"] if resource in TOUCHED]
    tasks = [asyncio.create_task(_change(arena, kind, spec)) for kind, spec in changed]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for kind, _ in changed:
            with contextlib.suppress(NotFound):
                await arena.client.delete(kind, None, arena.namespace)


async def _change(arena: Arena, kind: Resource, spec: Callable[[str], Object]) -> None:
    for number in itertools.count():
        named = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": arena.namespace}}
        await arena.client.apply(kind, {**named, "spec": spec(f"touched-{number}")}, field_manager="campaign")
        await asyncio.sleep(0.5)


async def _complete(
    arena: Arena, scenarios: Sequence[Scenario], process: OperatorProcess, namespace: str
) -> None:
    """Everything is made, nothing twice; nobody speaks of a missing right any more."""
    wanted = {name for each in scenarios for name in arena.cluster.references[each.name].children}
    for scenario in scenarios:
        await arena.reaches(scenario)
        await oracles.truthful(arena, scenario)
    found = set(await arena.made())
    if found != wanted:
        raise ViolationError("O3", f"missing {sorted(wanted - found)}, too many {sorted(found - wanted)}")
    try:
        await until(
            arena.client, KAIWO_CONFIG, None, "kaiwo", partial(_says_nothing, namespace), timeout=_SOON
        )
    except AssertionError as error:
        raise ViolationError("O5", f"KaiwoConfig names a right that is there: {error}") from None
    code, detail = await asyncio.to_thread(process.readyz_when_up, _SOON)
    if code != _OK:
        raise ViolationError("O5", f"/readyz says {detail}")
    await oracles.at_rest(arena, 2.0)
    oracles.no_traceback(process)
    await oracles.no_secret_shown(arena.cluster, arena.namespace, process.log)


def _says_nothing(namespace: str, config: Object | None) -> bool:
    conditions = ((config or {}).get("status") or {}).get("conditions", [])
    return not any(item["type"] == f"{namespace}/RightsComplete" for item in conditions)


async def _unauthenticated(
    scenarios: Sequence[Scenario], bad: Callable[[OperatorRights, str, Path], str], arena: Arena
) -> None:
    """The API server does not know who asks, until the token's file has another one."""
    async with _rights(arena) as (rights, namespace):
        sandbox = arena.cluster.sandbox
        token = arena.cluster.directory / f"{arena.namespace}.token"
        token.write_text(await asyncio.to_thread(bad, rights, namespace, sandbox.directory / "pki"))
        kubeconfig = _file(arena)
        kubeconfig.write_text(_with_token_file(sandbox.url, sandbox.ca_file, token, namespace))
        process = _described(arena, namespace, kubeconfig).start()
        try:
            await _refused(process)
            for scenario in scenarios:
                await arena.submit(scenario)
            token.write_text(await asyncio.to_thread(rights.token))
            await _complete(arena, scenarios, process, namespace)
        finally:
            await asyncio.to_thread(process.close)


async def _refused(process: OperatorProcess) -> None:
    try:
        await asyncio.to_thread(process.wait_log, "Unauthorized|401", 2 * _VALID_FOR + _SOON)
    except AssertionError:
        raise ViolationError("fault", f"no request was refused:\n{process.log[-2000:]}") from None


@contextlib.asynccontextmanager
async def _rights(arena: Arena) -> AsyncIterator[tuple[OperatorRights, str]]:
    """All rights of an operator in a namespace of its own, and the name of that."""
    namespace = await arena.cluster.namespace(f"op-{arena.namespace[-20:]}")
    rights = OperatorRights(arena.cluster.sandbox.api, namespace, PLUGINS)
    try:
        await asyncio.to_thread(rights.grant)
        yield rights, namespace
    finally:
        await asyncio.to_thread(rights.remove)
        await arena.client.delete(NAMESPACE, None, namespace)


def _described(arena: Arena, namespace: str, kubeconfig: Path) -> OperatorProcess:
    return OperatorProcess(
        kubeconfig=kubeconfig,
        plugins=PLUGINS,
        lease_name=OPERATOR,
        args=["--watch-namespace", arena.namespace],
        env={"KAIWO_OPERATOR_NAMESPACE": namespace},
    )


def _file(arena: Arena) -> Path:
    return arena.cluster.directory / f"{arena.namespace}.yaml"


def _with_token_file(url: str, ca_file: Path, token: Path, namespace: str) -> str:
    context = {"cluster": "it", "user": "it", "namespace": namespace}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "it",
        "clusters": [{"name": "it", "cluster": {"server": url, "certificate-authority": str(ca_file)}}],
        "users": [{"name": "it", "user": {"tokenFile": str(token)}}],
        "contexts": [{"name": "it", "context": context}],
    }
    return yaml.safe_dump(config)


def _for_another_server(rights: OperatorRights, namespace: str, pki: Path) -> str:
    del namespace, pki
    return rights.token(["https://another-server.example"])


def _short(rights: OperatorRights, namespace: str, pki: Path) -> str:
    """A token as the API server makes it, for less time than it would: at least ten minutes."""
    now = int(time.time())
    server = "https://kubernetes.default.svc.cluster.local"
    account = {"name": rights.account, "uid": rights.uid()}
    claims = {
        "aud": [server],
        "iss": server,
        "sub": f"system:serviceaccount:{namespace}:{rights.account}",
        "iat": now - 10,
        "nbf": now - 10,
        "exp": now + _VALID_FOR,
        "kubernetes.io": {"namespace": namespace, "serviceaccount": account},
    }
    key = serialization.load_pem_private_key((pki / "service-account.key").read_bytes(), None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise TypeError(f"the service account key is a {type(key).__name__}, not one of an elliptic curve")
    signed = f"{_part({'alg': 'ES256', 'typ': 'JWT'})}.{_part(claims)}"
    numbers = decode_dss_signature(key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
    return f"{signed}.{_base64(b''.join(number.to_bytes(32, 'big') for number in numbers))}"


def _part(content: Object) -> str:
    return _base64(json.dumps(content).encode())


def _base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


async def _becomes(oracle: str, message: str, holds: Callable[[], bool]) -> None:
    for _ in range(int(_SOON / 0.5)):
        if holds():
            return
        await asyncio.sleep(0.5)
    raise ViolationError(oracle, message)
