"""What the API server says of planned objects and of their pods, found by dry runs that change nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kaiwo.cli import kit
from kaiwo.cli.failures import plain
from kaiwo.engine.quantity import quantity
from kaiwo.engine.resource import POD

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kaiwo.cli.kit import Cluster
    from kaiwo.engine.client import Client, FieldValidation
    from kaiwo.engine.errors import ApiError
    from kaiwo.engine.resource import Object, Resource
    from kaiwo.workload.model import Plan

_STRICT: Final = re.compile(r"strict decoding error: (.+)", re.DOTALL)
"""The API server's message, with status 400, for fields that it would leave out."""

_RIGHTS: Final = re.compile(r"^\S+ is forbidden: User .* cannot create resource")
"""The API server's message for a right that somebody lacks; it says nothing about the object."""

_UNAUTHORIZED: Final = 401

_POD: Final = re.compile(r'^pods "[^"]*" is (?:forbidden|invalid): ')
"""The beginning of an answer about a pod; its name is made up for the dry run."""

_QUOTA: Final = re.compile(
    r"exceeded quota: [^,]+, requested: (?P<requested>\S+), .*limited: (?P<limited>\S+)$"
)
"""The answer of a quota; without other answers after it the text ends with the limits."""

_BY_REQUESTER: Final = re.compile(r"admission webhook|ValidatingAdmissionPolicy")
"""What may judge by the user, who here is not the controller that creates the pods."""


@dataclass(frozen=True, slots=True)
class TrialResult:
    """What the API server says.

    Attributes:
        rejections: why it would reject the objects or their pods, each with the reason in front.
        warnings: what it would leave out of them, and why it may refuse the pods for now.
    """

    rejections: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def try_objects(cluster: Cluster, outcome: Plan) -> TrialResult:
    """Have the API server check the objects that a plan creates, and a pod of each pod template in them.

    The operator creates the objects, and a controller the pods. A user without the right to do so gets a
    warning that nothing was checked.

    Args:
        cluster: where they would be created.
        outcome: the plan.
    """
    from kaiwo.engine.errors import Invalid
    from kaiwo.workload.model import Apply, Create

    trial = _Trial(cluster)
    for write in (*outcome.writes, *outcome.later):
        if not isinstance(write, Create | Apply):
            continue
        resource, obj = write.resource, write.obj
        name = f"{resource.kind} {obj['metadata']['name']}"
        before = len(trial.warnings)
        error = trial.strict_error(name, resource, obj)
        if error is None:
            # What it names in the object, it would name in the pods again.
            trial.check_pods(name, obj, strict=len(trial.warnings) == before)
        elif trial.is_checked(name, error):
            trial.add("InvalidSpec" if isinstance(error, Invalid) else "Forbidden", str(error))
    return TrialResult(tuple(dict.fromkeys(trial.rejections)), tuple(dict.fromkeys(trial.warnings)))


class _Trial:
    """Collects what the API server says in dry runs."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.rejections: list[str] = []
        self.warnings: list[str] = []

    def check_pods(self, owner: str, obj: Object, *, strict: bool) -> None:
        """Try a pod of each pod template of an object.

        Args:
            owner: kind and name of the object.
            obj: the object.
            strict: look for unknown fields, too. Of what is in an AppWrapper only the pods show them.
        """
        for template in pod_templates(obj):
            pod = _pod(obj["metadata"], template)
            error = self.strict_error(f"pods of {owner}", POD, pod) if strict else self.error(POD, pod)
            if error is None:
                continue
            if not self.is_checked(f"pods of {owner}", error):
                return
            text = _POD.sub("", error.message)
            self.add("FailedCreate", f"the cluster would refuse pods of {owner}: {text}")

    def strict_error(self, name: str, resource: Resource, obj: Object) -> ApiError | None:
        """The answer to a dry run as `error` gives it; fields that the API server leaves out are a warning.

        Args:
            name: of the object, for the warning.
            resource: its kind.
            obj: the object.
        """
        from kaiwo.engine.errors import Invalid

        error = self.error(resource, obj, "Strict")
        if isinstance(error, Invalid) and (found := _STRICT.search(error.message)):
            self.warnings.append(f"{name}: {found[1]}; the cluster leaves it out")
            error = self.error(resource, obj)
        return error

    def is_checked(self, what: str, error: ApiError) -> bool:
        """Whether an answer says something about an object; another one is printed."""
        from kaiwo.engine.errors import Forbidden, Invalid

        about_rights = error.status == _UNAUTHORIZED or _RIGHTS.match(error.message)
        if isinstance(error, Forbidden | Invalid) and not about_rights:
            return True
        kit.say(f"warning: {what} not checked by the cluster: {plain(error)}")
        return False

    def add(self, reason: str, text: str) -> None:
        """Add what the API server says against an object, with the reason that the status would have."""
        if _may_pass(text):
            self.warnings.append(f"{reason}: {text}")
        else:
            self.rejections.append(f"{reason}: {text}")

    def error(
        self, resource: Resource, obj: Object, validation: FieldValidation | None = None
    ) -> ApiError | None:
        """The answer to a dry run of a creation; None where nothing is said against it."""
        from kaiwo.engine.errors import AlreadyExists, ApiError

        async def create(client: Client) -> None:
            await client.create(resource, obj, field_validation=validation, dry_run=True)

        try:
            self._cluster.run(create)
        except AlreadyExists:
            return None
        except ApiError as error:
            return error
        return None


def _may_pass(text: str) -> bool:
    """Whether a pod may be created all the same: later, or by its controller."""
    quota = _QUOTA.search(text)
    if quota is None:
        return bool(_BY_REQUESTER.search(text))
    requested, limited = _amounts(quota["requested"].rstrip(",")), _amounts(quota["limited"])
    return all(amount <= limited.get(key, amount) for key, amount in requested.items())


def _amounts(text: str) -> Mapping[str, Any]:
    """``pods=1,requests.cpu=2`` by name."""
    pairs = (part.partition("=") for part in text.split(","))
    return {key: amount for key, _, value in pairs if (amount := quantity(value)) is not None}


def pod_templates(value: Any) -> Iterator[Object]:
    """The pod templates in an object, at whatever depth its kind has them."""
    if isinstance(value, dict):
        spec = value.get("spec")
        if isinstance(spec, dict) and isinstance(spec.get("containers"), list):
            yield value
        else:
            for item in value.values():
                yield from pod_templates(item)
    elif isinstance(value, list):
        for item in value:
            yield from pod_templates(item)


def _pod(owner: Mapping[str, Any], template: Object) -> Object:
    """A pod of a template, without an owner: webhooks look for it, and it does not exist yet."""
    given = template.get("metadata") or {}
    metadata = {key: given[key] for key in ("labels", "annotations", "finalizers") if given.get(key)}
    named = {"generateName": f"{owner['name']}-", "namespace": owner.get("namespace")}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {**metadata, **named}, "spec": template["spec"]}
