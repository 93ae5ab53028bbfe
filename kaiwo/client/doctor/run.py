"""Runs all checks at the same time, each with a time limit."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from kaiwo.client.doctor.addons import addon_groups, check_addon, check_webhooks
from kaiwo.client.doctor.api_server import check_api_server
from kaiwo.client.doctor.cluster import check_gpus, check_namespace, check_storage
from kaiwo.client.doctor.installation import check_config, check_crds, check_operator, check_plugin_kinds
from kaiwo.client.doctor.metrics import check_metrics
from kaiwo.client.doctor.result import DoctorReport, failed, not_allowed, unknown
from kaiwo.client.doctor.rights import check_rights
from kaiwo.engine.errors import ConnectionBroken, EngineError, Forbidden, NotFound

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from typing import TypeAlias

    from kaiwo.client.doctor.result import DoctorCheck, DoctorScope
    from kaiwo.engine.client import Client

    NamedCheck: TypeAlias = tuple[str, Callable[[Client, DoctorScope], Awaitable[list[DoctorCheck]]]]
    """A check with its name."""

TIMEOUT = 10.0
"""Seconds for each check."""

_UNAUTHORIZED = 401


async def check_cluster(
    api: Client,
    scope: DoctorScope,
    *,
    more: Sequence[NamedCheck] = (),
    timeout: float = TIMEOUT,  # noqa: ASYNC109  for each check
) -> DoctorReport:
    """Check a cluster and the installation in it.

    Args:
        api: how to reach the cluster.
        scope: whose plugins and namespace.
        more: names and functions of checks of the caller's own.
        timeout: seconds for each check; they run at the same time.
    """
    first = await _server(api, scope, timeout)
    if any(check.state == "failed" and check.name == "api-server" for check in first):
        return _report(first)
    groups = addon_groups(scope.plugins)
    checks: list[tuple[str, Callable[[], Awaitable[list[DoctorCheck]]]]] = [
        ("rights", partial(check_rights, api, scope)),
        ("namespace", partial(check_namespace, api, scope)),
        ("crds", partial(check_crds, api, scope)),
        ("operator", partial(check_operator, api, scope)),
        ("config", partial(check_config, api, scope)),
        ("plugin-kinds", partial(check_plugin_kinds, api, scope)),
        ("metrics", partial(check_metrics, api, scope)),
        *((one.group, partial(check_addon, api, one)) for one in groups),
        ("webhooks", partial(check_webhooks, api, [one.group for one in groups])),
        ("storage-classes", partial(check_storage, api, scope)),
        ("gpus", partial(check_gpus, api, scope)),
        *((name, partial(check, api, scope)) for name, check in more),
    ]
    results = await asyncio.gather(*(_bounded(name, check, timeout) for name, check in checks))
    return _report([*first, *(check for found in results for check in found)])


def _report(checks: list[DoctorCheck]) -> DoctorReport:
    return DoctorReport(checks=tuple(checks), failed=sum(check.state == "failed" for check in checks))


async def _server(api: Client, scope: DoctorScope, seconds: float) -> list[DoctorCheck]:
    try:
        async with asyncio.timeout(seconds):
            return await check_api_server(api, scope)
    except (EngineError, TimeoutError) as error:
        if isinstance(error, Forbidden) and error.status != _UNAUTHORIZED:
            return [unknown("api-server", str(error))]
        if isinstance(error, Forbidden):
            fix = "log in to the cluster again, or choose another one with --context NAME"
            return [failed("api-server", f"credentials not accepted: {error}", fix)]
        why = f"no answer within {seconds:g} s" if isinstance(error, TimeoutError) else str(error)
        text = f"{api.connection.server}: {why}; the other checks need it"
        return [failed("api-server", text, "kubectl cluster-info; kubectl config get-contexts")]


async def _bounded(
    name: str, check: Callable[[], Awaitable[list[DoctorCheck]]], seconds: float
) -> list[DoctorCheck]:
    try:
        async with asyncio.timeout(seconds):
            return await check()
    except TimeoutError:
        return [unknown(name, f"no answer within {seconds:g} s")]
    except Forbidden as error:
        return [unknown(name, not_allowed(error))]
    except NotFound:
        return [unknown(name, "a kind that the check reads is not served by the API server")]
    except ConnectionBroken as error:
        return [unknown(name, f"no answer: {error}")]
    except EngineError as error:
        return [failed(name, f"the API server answered: {error}", "kubectl get --raw /readyz?verbose")]
    except Exception as error:  # noqa: BLE001  a defect in one check must not hide the others
        return [unknown(name, f"internal error: {type(error).__name__}: {error}")]
