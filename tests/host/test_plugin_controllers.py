"""A plugin whose controller cannot be built is broken; the operator and all other plugins work."""

from __future__ import annotations

import logging
import signal
import sys
import time
import types
from typing import TYPE_CHECKING

import pytest

from kaiwo.host.assembly import assemble
from kaiwo.host.plugin_controllers import ControllerNotBuilt, build_controllers
from kaiwo.host.settings import Settings
from kaiwo.plugin.controllers import ExtraController
from kaiwo.plugin.loader import RequiredPluginError
from kaiwo.plugin.plugin_state import PluginState
from kaiwo.plugin.registry import LoadedPlugin, Plugins
from kaiwo.plugin.selection import PluginSelection
from kaiwo.testing.kubeconfig import NOWHERE, write_kubeconfig

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kaiwo.plugin.controllers import ControllerHost


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    """One that names an API server where none is."""
    return write_kubeconfig(tmp_path / "kubeconfig", NOWHERE)


def plugins(monkeypatch: pytest.MonkeyPatch, **builders: Callable[[ControllerHost], object]) -> Plugins:
    """Loaded plugins with one controller each, by the name of the plugin."""
    module = types.ModuleType("acme_controllers")
    loaded, states = [], []
    for name, build in builders.items():
        setattr(module, name, build)
        controllers = (ExtraController(name=name, build=f"acme_controllers:{name}"),)
        loaded.append(LoadedPlugin(name, f"kaiwo-{name}", "1.0", module.__name__, controllers=controllers))
        states.append(PluginState(name, f"kaiwo-{name}", "1.0", "loaded"))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return Plugins(loaded=tuple(loaded), states=tuple(states))


def fails(_: ControllerHost) -> None:
    """Raise."""
    raise RuntimeError("no driver here")


def leaves(_: ControllerHost) -> None:
    """End the process."""
    sys.exit(3)


@pytest.mark.parametrize(
    ("build", "words"), [(fails, "RuntimeError: no driver here"), (leaves, "SystemExit: 3")]
)
def test_a_controller_that_cannot_be_built_leaves_the_others_and_its_plugin_is_broken(
    kubeconfig: Path, monkeypatch: pytest.MonkeyPatch, build: Callable[..., None], words: str
) -> None:
    """It must not keep the operator from starting; the state of the plugin says what is wrong."""
    built = []
    given = plugins(monkeypatch, acme=build, other=built.append)
    operator = assemble(Settings(kubeconfig=kubeconfig), given)
    acme, other = operator.plugins.states
    assert (acme.state, acme.reason) == ("broken", "LoadFailed")
    assert acme.message == f"controller acme cannot be built: {words}"
    assert other.state == "loaded"
    assert [plugin.name for plugin in operator.plugins.loaded] == ["other"]
    assert built


def test_what_a_controller_added_before_it_failed_does_not_run(
    kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The operator that runs has nothing of it."""
    hosts = []

    def half(host: ControllerHost) -> None:
        hosts.append(host.manager)
        raise RuntimeError("half built")

    given = plugins(monkeypatch, acme=half, other=lambda host: hosts.append(host.manager))
    assemble(Settings(kubeconfig=kubeconfig), given)
    first, second = hosts
    assert first is not second


def test_a_controller_that_is_never_built_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator must not wait for it for ever."""
    given = plugins(monkeypatch, acme=lambda _: time.sleep(60))
    with pytest.raises(ControllerNotBuilt) as caught:
        build_controllers(given, lambda _: None, longest=0.2)  # type: ignore[arg-type, return-value]
    assert (caught.value.plugin, caught.value.invalid.reason) == ("acme", "LoadTimeout")
    assert str(caught.value.invalid) == "controller acme did not return within 0.2 s"
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL


def test_an_operator_does_not_start_without_a_plugin_that_configuration_requires(
    kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is as for a plugin that does not load."""
    settings = Settings(kubeconfig=kubeconfig, selection=PluginSelection(required=frozenset({"acme"})))
    with pytest.raises(RequiredPluginError, match="acme is broken: controller acme cannot be built"):
        assemble(settings, plugins(monkeypatch, acme=fails))


def test_the_cause_is_logged(
    kubeconfig: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The authors of a plugin need the traceback."""
    with caplog.at_level(logging.ERROR):
        assemble(Settings(kubeconfig=kubeconfig), plugins(monkeypatch, acme=fails))
    assert "plugin acme is left out" in caplog.text
    assert "in fails" in caplog.text
