"""Whether the caller has the rights that running workloads needs."""

from __future__ import annotations

import asyncio
import shlex
from typing import TYPE_CHECKING, NamedTuple

from kaiwo.api.crds import KAIWO_CONFIG, WORKLOADS
from kaiwo.client.doctor.result import failed, ok, unknown, warning
from kaiwo.engine.access_review import is_allowed
from kaiwo.engine.errors import ApiError
from kaiwo.engine.resource import EVENT, NODE, POD, Resource

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kaiwo.client.doctor.result import DoctorCheck, DoctorScope
    from kaiwo.engine.client import Client
    from kaiwo.plugin.registry import Plugins

SUBJECT_REVIEW = Resource(
    "authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", namespaced=False
)


class Right(NamedTuple):
    """One right.

    Attributes:
        verb: as in RBAC.
        resource: the kind.
        subresource: of the kind, empty for none.
        purpose: the command that needs it.
    """

    verb: str
    resource: Resource
    subresource: str
    purpose: str

    @property
    def target(self) -> str:
        """``pods/log``, as RBAC writes it."""
        return f"{self.resource.plural}/{self.subresource}" if self.subresource else self.resource.plural


def needed_rights() -> list[Right]:
    """What a scientist needs in a namespace."""
    found: list[Right] = []
    for kind in WORKLOADS.values():
        found += [Right(verb, kind, "", "submit") for verb in ("create", "patch")]
        found += [Right(verb, kind, "", "list, status") for verb in ("get", "list", "watch")]
        found.append(Right("delete", kind, "", "delete"))
    return [
        *found,
        Right("list", POD, "", "status"),
        Right("get", POD, "log", "logs"),
        Right("create", POD, "exec", "exec"),
        Right("create", POD, "portforward", "port-forward"),
        Right("list", EVENT, "", "status"),
    ]


def useful_rights(plugins: Plugins) -> list[Right]:
    """What makes plans and reports complete."""
    queue = plugins.queue_system
    queues = tuple(kind for kind in queue.reads if kind.group) if queue else ()
    return [Right("list", kind, "", "plan, why") for kind in (NODE, KAIWO_CONFIG, *queues)]


async def check_rights(api: Client, scope: DoctorScope) -> list[DoctorCheck]:
    """Ask the API server for each right of the caller in the namespace."""
    needed, useful = needed_rights(), useful_rights(scope.plugins)
    try:
        answers = await asyncio.gather(
            *(_allowed(api, right, scope.namespace) for right in (*needed, *useful))
        )
    except ApiError as error:
        return [unknown("rights", f"not reviewed by the API server: {error}")]
    allowed = dict(zip((*needed, *useful), answers, strict=True))
    return judge_rights(
        {right: allowed[right] for right in needed},
        {right: allowed[right] for right in useful},
        scope.namespace,
        await _user(api),
    )


def judge_rights(
    needed: Mapping[Right, bool], useful: Mapping[Right, bool], namespace: str, user: str
) -> list[DoctorCheck]:
    """Whether rights are missing.

    Args:
        needed: rights without which commands fail, and whether the caller has them.
        useful: rights without which commands show less.
        namespace: where they were reviewed.
        user: name of the caller, empty if not known.
    """
    who = user or "the caller"
    name = "".join(char if char.isalnum() else "-" for char in user.lower()).strip("-") or "user"
    missing = [right for right, allowed in needed.items() if not allowed]
    found: list[DoctorCheck] = []
    if missing:
        purposes = (purpose for right in missing for purpose in right.purpose.split(", "))
        commands = ", ".join(dict.fromkeys(purposes))
        found.append(
            failed(
                "rights",
                f"{who} may not {grouped(missing)} in namespace {namespace} (for {commands})",
                f"as an administrator: kubectl -n {namespace} create rolebinding kaiwo-{name} "
                f"--clusterrole=edit --user={shlex.quote(user or 'USER')}",
            )
        )
    else:
        found.append(ok("rights", f"{who} may run, read and delete workloads in namespace {namespace}"))
    hidden = [right for right, allowed in useful.items() if not allowed]
    if hidden:
        found.append(
            warning(
                "rights",
                f"{who} may not {grouped(hidden)}; kaiwo plan and why say less",
                f"as an administrator: kubectl create clusterrolebinding kaiwo-{name} "
                f"--clusterrole=view --user={shlex.quote(user or 'USER')}",
            )
        )
    return found


def grouped(rights: Iterable[Right]) -> str:
    """Rights with equal verbs together: ``get, list kaiwojobs and kaiwoservices; create pods/exec``."""
    verbs: dict[str, list[str]] = {}
    for right in rights:
        verbs.setdefault(right.target, []).append(right.verb)
    targets: dict[str, list[str]] = {}
    for target, found in verbs.items():
        targets.setdefault(", ".join(found), []).append(target)
    return "; ".join(f"{found} {', '.join(named)}" for found, named in targets.items())


async def _allowed(api: Client, right: Right, namespace: str) -> bool:
    where = namespace if right.resource.namespaced else ""
    return await is_allowed(api, right.verb, right.resource, where, right.subresource)


async def _user(api: Client) -> str:
    try:
        answer = await api.create(
            SUBJECT_REVIEW,
            {"apiVersion": SUBJECT_REVIEW.api_version, "kind": SUBJECT_REVIEW.kind, "metadata": {}},
        )
    except ApiError:
        return ""
    return str(answer.get("status", {}).get("userInfo", {}).get("username") or "")
