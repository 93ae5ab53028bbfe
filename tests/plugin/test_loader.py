from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from kaiwo.plugin.absent_plugins import serving
from kaiwo.plugin.loader import RequiredPluginError, load
from kaiwo.plugin.plugin_state import PluginState
from kaiwo.plugin.selection import PluginSelection

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo.plugin.registry import Plugins

VENDOR = """
from kaiwo.plugin.vendors import GpuVendor

@hookimpl
def kaiwo_gpu_vendors():
    return [GpuVendor(name="{name}", resource_keys=("{key}",), recognise=lambda node: ())]
"""
ACME = VENDOR.format(name="acme", key="acme.com/gpu")
RAISES = "\nraise RuntimeError('no driver here')\n"


def only(*names: str, **rest: frozenset[str]) -> PluginSelection:
    """Exactly these."""
    return PluginSelection(names=names, **rest)


def state(plugins: Plugins, name: str, distribution: str | None = None) -> PluginState:
    """The one state of a plugin."""
    (found,) = [
        state
        for state in plugins.states
        if state.name == name and (distribution is None or state.distribution == distribution)
    ]
    return found


def test_an_installed_plugin_is_loaded_and_named_with_its_distribution_and_version(
    install: Callable[..., str],
) -> None:
    """Somebody who installs a distribution sees its plugin loaded, with name and version."""
    install("acme", ACME)
    plugins = load(only("acme"))
    (module,) = [plugin.module for plugin in plugins.loaded]
    assert state(plugins, "acme") == PluginState("acme", "kaiwo-acme", "1.2.3", "loaded", module=module)
    assert [vendor.name for vendor in plugins.vendors] == ["acme"]


def test_an_explicit_list_loads_those_and_only_those(install: Callable[..., str]) -> None:
    """A list in the configuration is exact: what is not in it is not even imported."""
    install("acme", ACME)
    install("spy", "\nraise AssertionError('imported though not selected')\n")
    plugins = load(only("acme"))
    assert [plugin.name for plugin in plugins.loaded] == ["acme"]
    assert state(plugins, "spy").state == "not-selected"


def test_an_empty_list_loads_nothing(install: Callable[..., str]) -> None:
    """The host starts without any plugin."""
    install("acme", ACME)
    plugins = load(only())
    assert plugins.loaded == ()
    assert {state.state for state in plugins.states} == {"not-selected"}


def test_without_a_list_everything_installed_is_loaded(install: Callable[..., str]) -> None:
    """Installing is enough where nothing is configured."""
    install("acme", ACME)
    plugins = load()
    assert state(plugins, "acme").state == "loaded"
    assert len(plugins.loaded) > 1


def test_a_disabled_plugin_is_not_imported_even_when_listed(install: Callable[..., str]) -> None:
    """Disabling wins, so that a faulty plugin can be switched off without editing the list."""
    install("acme", RAISES)
    plugins = load(only("acme", disabled=frozenset({"acme"})))
    assert state(plugins, "acme").state == "disabled"
    assert plugins.loaded == ()


def test_a_broken_plugin_is_survived_and_listed_with_the_tracebacks_last_line(
    install: Callable[..., str],
) -> None:
    """One faulty plugin harms only itself."""
    install("acme", ACME)
    install("broken", RAISES)
    plugins = load(only("acme", "broken"))
    assert state(plugins, "broken").state == "broken"
    assert state(plugins, "broken").message == "RuntimeError: no driver here"
    assert state(plugins, "acme").state == "loaded"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("\nimport sys; sys.exit(3)\n", "SystemExit: 3"),
        ("\nimport surely_not_installed\n", "ModuleNotFoundError: No module named 'surely_not_installed'"),
        ("\ndef broken(:\n", "SyntaxError: invalid syntax"),
        ("\n@hookimpl\ndef kaiwo_commands():\n    return 1 / 0\n", "ZeroDivisionError: division by zero"),
        ("\nraise ValueError('one\\ntwo')\n", "ValueError: one two"),
    ],
)
def test_whatever_a_plugin_raises_is_one_line_of_its_state(
    install: Callable[..., str], source: str, message: str
) -> None:
    """Even sys.exit() in a plugin neither ends the process nor hides its cause."""
    install("broken", source)
    assert state(load(only("broken")), "broken").message == message


def test_a_plugin_that_hangs_is_given_up(install: Callable[..., str]) -> None:
    """A plugin that never returns does not keep the operator from starting."""
    install("slow", "\nimport time; time.sleep(5)\n")
    install("acme", ACME)
    began = time.monotonic()
    plugins = load(only("acme", "slow"), deadline=0.3)
    assert time.monotonic() - began < 4
    assert state(plugins, "slow").message == "did not load within 0.3 s"
    assert state(plugins, "acme").state == "loaded"


def test_a_required_plugin_that_is_broken_stops_the_start(install: Callable[..., str]) -> None:
    """Who requires a plugin would rather not start than run without it."""
    install("broken", RAISES)
    with pytest.raises(RequiredPluginError, match="broken is broken: RuntimeError: no driver here") as caught:
        load(only("broken", required=frozenset({"broken"})))
    assert [state.name for state in caught.value.states] == ["broken"]


def test_a_required_plugin_that_is_not_selected_or_not_installed_stops_the_start(
    install: Callable[..., str],
) -> None:
    """Requiring means loaded, whatever the reason that it is not."""
    install("acme", ACME)
    with pytest.raises(RequiredPluginError, match="acme is not-selected"):
        load(only(required=frozenset({"acme"})))
    with pytest.raises(RequiredPluginError, match='did you mean "acme"'):
        load(only("acme", required=frozenset({"acmee"})))


@pytest.mark.parametrize("written", ["acmee", "Acme", "kaiwo-acme", "ac-me"])
def test_an_unknown_name_is_listed_with_the_nearest(install: Callable[..., str], written: str) -> None:
    """A misspelt plugin is not silently missing."""
    install("acme", ACME)
    found = state(load(only(written)), written)
    assert found.state == "broken"
    assert found.message == 'not installed; did you mean "acme"?'


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (
            "KAIWO_API = 2",
            (
                "plugin was written for API 2, this host has 1.2; "
                "install a release of the plugin for API 1, or upgrade kaiwo"
            ),
        ),
        (
            "KAIWO_API = '0.9'",
            "plugin was written for API 0, this host has 1.2; install a release of the plugin for API 1",
        ),
        ("KAIWO_API = '1.3'", "plugin needs API 1.3, this host has 1.2; upgrade kaiwo"),
        ("KAIWO_API = '1'", """KAIWO_API is '1', expected a version like "1.2" or the integer 1"""),
        ("KAIWO_API = 1.2", """KAIWO_API is 1.2, expected a version like "1.2" or the integer 1"""),
        ("KAIWO_API = True", """KAIWO_API is True, expected a version like "1.2" or the integer 1"""),
        ("pass", 'states no API version; add KAIWO_API = "1.2"'),
    ],
)
def test_another_api_version_is_an_error_in_one_line_before_any_hook_is_called(
    install: Callable[..., str], monkeypatch: pytest.MonkeyPatch, statement: str, message: str
) -> None:
    """A plugin of another time says what to install instead of failing somewhere later."""
    monkeypatch.setattr("kaiwo.plugin.api_version.API_MINOR", 2)
    install(
        "old",
        f"""\
        # bare
        from kaiwo.plugin import hookimpl
        {statement}
        @hookimpl
        def kaiwo_commands():
            raise AssertionError("called")
        """,
    )
    found = state(load(only("old")), "old")
    assert found.state == "broken"
    assert found.message.endswith(message)
    assert "\n" not in found.message


@pytest.mark.parametrize("version", ["1", "'1.0'", "'1.1'", "'1.2'"])
def test_a_plugin_for_this_or_an_older_minor_version_loads(
    install: Callable[..., str], monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    """A plugin states the lowest version that it works with, and later hosts keep what it uses."""
    monkeypatch.setattr("kaiwo.plugin.api_version.API_MINOR", 2)
    install("acme", f"# bare\nKAIWO_API = {version}\n")
    assert state(load(only("acme")), "acme").state == "loaded"


def test_a_required_plugin_wins_a_conflict_with_one_that_is_not(install: Callable[..., str]) -> None:
    """A package that claims a required plugin's name for itself cannot stop the operator."""
    install("a_intruder", ACME)
    install("z_mine", VENDOR.format(name="acme", key="acme.com/npu"))
    plugins = load(only("a_intruder", "z_mine", required=frozenset({"z_mine"})))
    assert state(plugins, "z_mine").state == "loaded"
    assert state(plugins, "a_intruder").state == "broken"


def test_an_unknown_hook_is_refused_with_the_nearest(install: Callable[..., str]) -> None:
    """A misspelt hook would otherwise do nothing, for ever."""
    install("acme", "\n@hookimpl\ndef kaiwo_gpu_vendor():\n    return []\n")
    message = state(load(only("acme")), "acme").message
    assert message == 'unknown hook kaiwo_gpu_vendor; did you mean "kaiwo_gpu_vendors"?'


def test_a_hook_with_arguments_or_a_wrapper_is_refused(install: Callable[..., str]) -> None:
    """Hooks take nothing and return lists; pluggy's other forms would bend other plugins."""
    install("argued", "\n@hookimpl\ndef kaiwo_commands(config):\n    return []\n")
    install("wrapper", "\n@hookimpl(wrapper=True)\ndef kaiwo_commands():\n    return (yield)\n")
    plugins = load(only("argued", "wrapper"))
    assert "config" in state(plugins, "argued").message
    assert state(plugins, "wrapper").message == (
        "kaiwo_commands is a hook wrapper, expected a function that returns a list"
    )


def test_fields_of_an_unselected_distribution_are_known_without_importing_it(
    install: Callable[..., str],
) -> None:
    """A user whose field nobody serves learns which installed distribution would."""
    name = install(
        "ghost", RAISES, fields=("KaiwoJob.ghostJob", "KaiwoJob.storage.data.download.oci", "nonsense")
    )
    plugins = load(only())
    for field in ("ghostJob", "storage.data.download.oci"):
        absent = plugins.absent_fields["KaiwoJob", field]
        assert (absent.name, absent.distribution, absent.state) == ("ghost", name, "not-selected")
    assert state(plugins, "ghost").state == "not-selected"


def test_fields_of_a_broken_plugin_are_distinguished_from_those_left_out(install: Callable[..., str]) -> None:
    """No message tells a user to select a plugin that is selected and broken."""
    install("broken", RAISES, fields=("KaiwoJob.brokenJob",))
    plugins = load(only("broken"))
    assert serving("KaiwoJob", "spec.brokenJob", plugins.absent_fields) == (
        "plugin broken of kaiwo-broken serves it and is broken: RuntimeError: no driver here"
    )


def test_a_field_that_a_loaded_plugin_declares_is_not_called_unselected() -> None:
    """Only what is missing is reported as missing."""
    plugins = load(only("ray_job"))
    assert ("KaiwoJob", "rayJob") not in plugins.absent_fields
    assert plugins.absent_fields["KaiwoService", "rayService"].name == "ray_service"
    storage = "storage_s3_gcs_azure_git_hf"
    assert plugins.absent_fields["KaiwoJob", "storage.data.download.s3"].name == storage


def test_only_the_requested_hooks_are_called(install: Callable[..., str]) -> None:
    """A help text needs the commands of plugins and nothing else of them."""
    install(
        "acme",
        """
        from kaiwo.plugin.commands import Command

        @hookimpl
        def kaiwo_commands():
            return [Command(name="acme", load="shlex:split", help="Acme.")]

        @hookimpl
        def kaiwo_backends():
            raise AssertionError("called")
        """,
    )
    assert [command.name for command in load(only("acme"), hooks={"kaiwo_commands"}).commands] == ["acme"]


def test_loading_everything_installed_imports_no_heavy_library() -> None:
    """Every command and the operator load all plugins at start, so that must cost milliseconds."""
    heavy = [
        "aiohttp",
        "click",
        "cryptography",
        "huggingface_hub",
        "kopf",
        "kubernetes",
        "obstore",
        "rich",
        "yaml",
    ]
    script = f"""
import sys
from kaiwo.plugin.loader import load
plugins = load()
assert len(plugins.loaded) >= 6, plugins.states
assert all(state.state == "loaded" for state in plugins.states), plugins.states
print(*(name for name in {heavy!r} if name in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


def test_asking_only_for_commands_does_not_even_import_pydantic() -> None:
    """The list of commands in a help text is wanted within the blink of an eye."""
    script = """
import sys
from kaiwo.plugin.loader import load
load(hooks={"kaiwo_commands"})
print("pydantic" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
