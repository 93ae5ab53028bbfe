"""The objects of an installation, and the commands about them."""

from __future__ import annotations

from kaiwo.engine.resource import Resource
from kaiwo.install.inventory import InstalledObject

ROLE = Resource("rbac.authorization.k8s.io", "v1", "Role", "roles")


def test_a_name_that_a_shell_would_execute_is_quoted_in_the_command() -> None:
    """Whoever may create roles in a namespace may label one as a leftover, and an administrator pastes it."""
    roles = "kubectl delete roles.rbac.authorization.k8s.io"
    plain = InstalledObject(ROLE, "team", "kaiwo-old.kaiwo-system", "")
    assert plain.delete_command == f"{roles} kaiwo-old.kaiwo-system -n team"
    harmful = InstalledObject(ROLE, "team", "x $(touch stolen);'", "")
    assert harmful.delete_command == f"""{roles} 'x $(touch stolen);'"'"'' -n team"""
