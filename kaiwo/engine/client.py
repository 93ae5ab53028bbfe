"""A small asynchronous Kubernetes client: plain JSON in, plain JSON out, nothing dropped or coerced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from kaiwo.engine.errors import Conflict, Invalid
from kaiwo.engine.failing_writes import FailingWrites
from kaiwo.engine.reader import Reader, object_path, query_string
from kaiwo.engine.resource import EVENT
from kaiwo.engine.transport import JSON, HttpRequest
from kaiwo.engine.wire import decode_object, encode, encode_for_yaml

if TYPE_CHECKING:
    from kaiwo.engine.cached_object import CachedObject
    from kaiwo.engine.credentials import Connection
    from kaiwo.engine.metrics import Metrics
    from kaiwo.engine.resource import Object, Resource

Propagation = Literal["Background", "Foreground", "Orphan"]
FieldValidation = Literal["Ignore", "Warn", "Strict"]

_APPLY = "application/apply-patch+yaml"
_MERGE = "application/merge-patch+json"


class Client(Reader):
    """Reads from and writes to one API server; every request has a time limit, safe ones are repeated.

    Errors of all methods: `ApiError` for a refusal, `ConnectionBroken` when no answer came, `NotLeading` for
    a mutating request while this process may not write, `CredentialsError`, and `UndecodableObject` for an
    answer that is nested too deeply or too large.

    Attributes:
        failing_writes: the causes for which writes fail now.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        user_agent: str = "kaiwo",
        timeout: float = 30.0,
        concurrency: int = 32,
        metrics: Metrics | None = None,
    ) -> None:
        """Prepare a client; nothing is sent yet. The arguments are those of `Reader`."""
        super().__init__(
            connection, user_agent=user_agent, timeout=timeout, concurrency=concurrency, metrics=metrics
        )
        self.failing_writes = FailingWrites(self._transport.send)
        self._transport.on_write = self.failing_writes.on_write

    async def create(
        self,
        resource: Resource,
        obj: Object,
        *,
        field_manager: str | None = None,
        field_validation: FieldValidation | None = None,
        dry_run: bool = False,
        urgent: bool = False,
    ) -> Object:
        """POST an object; AlreadyExists when the name is taken.

        Not repeated when the answer is lost: after ConnectionBroken or ServerUnavailable the object may
        exist, which the next attempt learns from AlreadyExists.

        Args:
            resource: the kind.
            obj: the whole object.
            field_manager: whose fields these are.
            field_validation: what to do about unknown fields; the API server's default is Warn.
            dry_run: return what would come out, change nothing.
            urgent: waits for no other request, and is sent also while this process may not write.
                For the lease.
        """
        path = object_path(self.in_use(resource), _namespace(obj)) + query_string(
            fieldManager=field_manager, fieldValidation=field_validation, dryRun="All" if dry_run else None
        )
        request = HttpRequest(
            "create", str(resource), "POST", path, encode(obj), JSON, not dry_run, dry_run, urgent
        )
        return await self._send(request)

    async def create_event(self, obj: Object) -> None:
        """POST an Event, as `create` does; the answer is not read.

        Args:
            obj: the whole Event.
        """
        path = object_path(EVENT, _namespace(obj))
        await self._transport.send(
            HttpRequest("create", str(EVENT), "POST", path, encode(obj), mutating=True, repeatable=False)
        )

    async def apply(
        self,
        resource: Resource,
        obj: Object,
        *,
        field_manager: str,
        force: bool = True,
        subresource: str | None = None,
        field_validation: FieldValidation | None = None,
        dry_run: bool = False,
    ) -> Object:
        """Server-side apply: these fields are set, and those sent before and now left out are removed.

        Args:
            resource: the kind.
            obj: apiVersion, kind, metadata.name and the fields wanted. With metadata.uid only that object is
                changed, and none is created (Conflict).
            field_manager: whose fields these are.
            force: take fields from other managers; otherwise Conflict.
            subresource: for example ``status``.
            field_validation: what to do about unknown fields; the API server's default is Warn.
            dry_run: return what would come out, change nothing.
        """
        name: str = obj["metadata"]["name"]
        path = object_path(self.in_use(resource), _namespace(obj), name, subresource) + query_string(
            fieldManager=field_manager,
            force="true" if force else None,
            fieldValidation=field_validation,
            dryRun="All" if dry_run else None,
        )
        request = HttpRequest(
            "apply", str(resource), "PATCH", path, encode_for_yaml(obj), _APPLY, mutating=not dry_run
        )
        answer = await self._send_to(obj["metadata"].get("uid"), request)
        return decode_object(answer, f"apply {resource}")

    async def merge_patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        patch: Object,
        *,
        subresource: str | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        field_manager: str | None = None,
    ) -> Object:
        """Change named keys (RFC 7386: null removes, lists are replaced).

        Args:
            resource: the kind.
            namespace: None for cluster-scoped kinds.
            name: of the object.
            patch: the keys to change.
            subresource: for example ``status``.
            uid: the object must still be this one, else Conflict. The API server ignores it in a
                patch of a custom resource's status: give the resourceVersion there.
            resource_version: the object must not have changed since, else Conflict.
            field_manager: whose fields these are.
        """
        path = object_path(self.in_use(resource), namespace, name, subresource)
        answer = await self._merge_patch(
            resource, path, patch, uid=uid, version=resource_version, manager=field_manager
        )
        return decode_object(answer, f"patch {resource}")

    async def patch_status(
        self, obj: CachedObject, status: Object, *, field_manager: str | None = None
    ) -> bytes:
        """Change keys of a status by a merge patch, as `merge_patch` does.

        Args:
            obj: the object as it was when the status was decided; Conflict if it has changed since.
            status: the keys to change.
            field_manager: whose fields these are.

        Returns:
            The JSON of the object as it is now, for the cache, which decodes no more of it than is read.
        """
        path = object_path(self.in_use(obj.resource), obj.namespace or None, obj.name, "status")
        patch = {"status": status}
        return await self._merge_patch(
            obj.resource, path, patch, uid=obj.uid, version=obj.resource_version, manager=field_manager
        )

    async def _merge_patch(
        self,
        resource: Resource,
        path: str,
        patch: Object,
        *,
        uid: str | None,
        version: str | None,
        manager: str | None,
    ) -> bytes:
        """Send a patch for one object, or one version of it; the JSON of the answer."""
        given = {"uid": uid, "resourceVersion": version}
        wanted = {name: value for name, value in given.items() if value}
        if wanted:
            patch = {**patch, "metadata": {**(patch.get("metadata") or {}), **wanted}}
        path += query_string(fieldManager=manager)
        request = HttpRequest("patch", str(resource), "PATCH", path, encode(patch), _MERGE, mutating=True)
        return await self._send_to(uid, request)

    async def replace(
        self, resource: Resource, obj: Object, *, subresource: str | None = None, urgent: bool = False
    ) -> Object:
        """PUT a whole object; Conflict unless its resourceVersion is still the current one.

        Args:
            resource: the kind.
            obj: the object as read, with changes.
            subresource: for example ``status``.
            urgent: waits for no other request, and is sent also while this process may not write.
                For the lease.
        """
        path = object_path(self.in_use(resource), _namespace(obj), obj["metadata"]["name"], subresource)
        request = HttpRequest(
            "replace", str(resource), "PUT", path, encode(obj), mutating=True, repeatable=False, urgent=urgent
        )
        return await self._send(request)

    async def delete(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Propagation | None = None,
        grace_period: int | None = None,
    ) -> Object:
        """Delete an object: returns it with its deletionTimestamp when it goes later, else a Status.

        Args:
            resource: the kind.
            namespace: None for cluster-scoped kinds.
            name: of the object.
            uid: the object must still be this one, else Conflict.
            resource_version: the object must not have changed since, else Conflict.
            propagation: what becomes of what it owns.
            grace_period: seconds; None for the object's own.
        """
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid or resource_version:
            wanted = {"uid": uid, "resourceVersion": resource_version}
            options["preconditions"] = {field: value for field, value in wanted.items() if value}
        if propagation:
            options["propagationPolicy"] = propagation
        if grace_period is not None:
            options["gracePeriodSeconds"] = grace_period
        path = object_path(self.in_use(resource), namespace, name)
        # Without a uid a repeated delete could meet a successor of the same name.
        request = HttpRequest(
            "delete", str(resource), "DELETE", path, encode(options), mutating=True, repeatable=bool(uid)
        )
        return await self._send(request)

    async def _send_to(self, uid: str | None, request: HttpRequest) -> bytes:
        """Send a patch for one uid; another one is refused as the change of an immutable field."""
        try:
            return await self._transport.send(request)
        except Invalid as error:
            if uid and any(cause.field == "metadata.uid" for cause in error.causes):
                raise Conflict(409, "Conflict", error.message, error.details) from error
            raise


def _namespace(obj: Object) -> str | None:
    namespace: str | None = obj["metadata"].get("namespace")
    return namespace
