"""The operator's rights on a real API server: given as they are rendered, taken away, and given back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaiwo.install.roles import operator_roles
from kaiwo.plugin.loader import load
from kaiwo.plugin.selection import PluginSelection

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaiwo.engine.resource import Object

_COLLECTIONS = {
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
}


class OperatorRights:
    """The rights of an operator in a namespace, and changes of them.

    Attributes:
        roles: ClusterRole and Role as they are rendered.
    """

    def __init__(self, api: Any, namespace: str, plugins: str) -> None:
        """Render them; nothing is sent yet.

        Args:
            api: client of a sandbox, with an administrator's rights.
            namespace: of the operator.
            plugins: names of its plugins, separated by commas.
        """
        self._api = api
        loaded = load(PluginSelection(names=tuple(plugins.split(","))))
        rendered = [manifest.obj for manifest in operator_roles(loaded, namespace)]
        self._objects = [obj for obj in rendered if obj["kind"] in _COLLECTIONS]
        self.roles = [obj for obj in self._objects if obj["kind"].endswith("Role")]
        [self._account] = [obj for obj in self._objects if obj["kind"] == "ServiceAccount"]

    @property
    def account(self) -> str:
        """The name of the service account."""
        name: str = self._account["metadata"]["name"]
        return name

    def grant(self) -> None:
        """Give all rights, or give them back."""
        for obj in self._objects:
            self._api.apply(_path(obj), obj)

    def revoke(self, *rights: tuple[str, str]) -> None:
        """Take some rights of the ClusterRole, each given as verb and resource."""
        role = next(obj for obj in self.roles if obj["kind"] == "ClusterRole")
        rules = [
            {"apiGroups": rule["apiGroups"], "resources": [resource], "verbs": verbs}
            for rule in role["rules"]
            for resource in rule["resources"]
            if (verbs := [verb for verb in rule["verbs"] if (verb, resource) not in rights])
        ]
        self._api.apply(_path(role), {**role, "rules": rules})

    def revoke_rule(self, role: Object, index: int) -> None:
        """Take one rule of one of `roles`."""
        rules = [rule for number, rule in enumerate(role["rules"]) if number != index]
        self._api.apply(_path(role), {**role, "rules": rules})

    def token(self, audiences: Sequence[str] = ()) -> str:
        """A token of the service account, by default for the API server."""
        spec = {"audiences": list(audiences)} if audiences else {}
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        answer = self._api.create(f"{_path(self._account)}/token", request)
        token: str = answer["status"]["token"]
        return token

    def uid(self) -> str:
        """The uid of the service account."""
        uid: str = self._api.request("GET", _path(self._account))["metadata"]["uid"]
        return uid

    def remove(self) -> None:
        """Delete everything."""
        for obj in self._objects:
            self._api.request("DELETE", _path(obj))


def _path(obj: Object) -> str:
    metadata = obj["metadata"]
    return f"{_COLLECTIONS[obj['kind']].format(metadata.get('namespace', ''))}/{metadata['name']}"
