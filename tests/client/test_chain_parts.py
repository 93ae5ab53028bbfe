"""What plugins declare for ``kaiwo why`` agrees with the plugins, and is read without loading them."""

from __future__ import annotations

import subprocess
import sys

from kaiwo.client.chain_parts import has_rules, installed_parts
from kaiwo.plugin.loader import load
from kaiwo.plugin.selection import PluginSelection

FIRST_PARTY = ("batch_job", "deployment", "ray_job", "ray_service", "kueue")
LIGHT = """
import sys
from kaiwo.client.chain_parts import has_rules, installed_parts
import kaiwo.client.why
parts = installed_parts()
has_rules()
assert parts.children and parts.queue
print(*sorted({"pydantic", "yaml", "importlib_metadata"} & sys.modules.keys()))
"""


def test_every_backend_declares_its_child_first() -> None:
    """The chain has the object that the backend creates, and the owners of its pods."""
    parts = installed_parts()
    plugins = load(PluginSelection(names=FIRST_PARTY))
    for backend in plugins.backends:
        for form in (backend, *backend.variants):
            kinds = parts.children[form.name]
            assert kinds[0] == form.child
            assert {*form.secondary, *form.pod_owners} - {*kinds} <= {
                kind for kind in form.secondary if kind.kind == "Service"
            } | {kind for kind in form.pod_owners if kind.kind == "Job"}


def test_the_queue_system_explains_what_it_admits() -> None:
    """The same function that the operator calls, and kinds that users of the role kaiwo-view may read."""
    queue = installed_parts().queue
    system = load(PluginSelection(names=FIRST_PARTY)).queue_system
    assert queue is not None
    assert system is not None
    assert {*queue.owned} == {*system.owned}
    assert queue.owned_by(["a", "b"]) == "kueue.x-k8s.io/job-uid in (a,b)"


def test_no_plugin_is_loaded_to_find_them() -> None:
    """Importing pydantic alone takes as long as all requests of ``kaiwo why``."""
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
    assert has_rules() is False
