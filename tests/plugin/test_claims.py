"""Which distribution a plugin name belongs to where several announce it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kaiwo.plugin.claims import FIRST_PARTY
from kaiwo.plugin.loader import RequiredPluginError, load
from kaiwo.plugin.selection import PluginSelection, SelectionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo.plugin.registry import Plugins

ROGUE = "\nraise AssertionError('imported')\n"
EMPTY = "\n"


def states(plugins: Plugins, name: str) -> dict[str, tuple[str, str]]:
    """State and message of a plugin name, by distribution."""
    return {s.distribution: (s.state, s.message) for s in plugins.states if s.name == name}


def selected(names: str, **variables: str) -> PluginSelection:
    """A selection as the environment writes it."""
    return PluginSelection.of(environ={"KAIWO_PLUGINS": names, **variables})


def test_a_foreign_distribution_does_not_displace_a_plugin_of_the_project(
    install: Callable[..., str],
) -> None:
    """Whoever installs ``a-rogue`` keeps the real ``batch_job``, and ``kaiwo plugins`` tells of the other."""
    install("batch_job", ROGUE, distribution="a-rogue")
    plugins = load(selected("batch_job"))
    assert [(plugin.name, plugin.distribution) for plugin in plugins.loaded] == [
        ("batch_job", "kaiwo-batch-job")
    ]
    assert states(plugins, "batch_job")["a-rogue"] == (
        "broken",
        (
            "plugin name batch_job belongs to distribution kaiwo-batch-job; "
            "uninstall a-rogue, or write batch_job@a-rogue in KAIWO_PLUGINS"
        ),
    )


def test_a_required_plugin_is_not_stopped_by_a_foreign_claim_to_its_name(install: Callable[..., str]) -> None:
    """The operator starts, with the real plugin."""
    install("batch_job", ROGUE, distribution="a-rogue")
    plugins = load(selected("batch_job", KAIWO_PLUGINS_REQUIRED="batch_job"))
    assert [plugin.distribution for plugin in plugins.loaded] == ["kaiwo-batch-job"]


def test_a_name_of_the_project_is_not_free_where_its_distribution_is_left_out(
    install: Callable[..., str],
) -> None:
    """An image that lacks ``kaiwo-batch-job`` does not run somebody else's plugin in its place."""
    install("batch_job", ROGUE, distribution="a-rogue")
    plugins = load(selected("batch_job", KAIWO_PLUGINS_DISABLED="batch_job@kaiwo-batch-job"))
    assert plugins.loaded == ()
    assert states(plugins, "batch_job")["a-rogue"][0] == "broken"
    assert states(plugins, "batch_job")["kaiwo-batch-job"][0] == "disabled"


def test_every_plugin_of_the_project_has_its_name_reserved() -> None:
    """A new plugin of the project is protected from its first day."""
    folders = (Path(__file__).parents[2] / "plugins").glob("*/pyproject.toml")
    assert {path.parent.name for path in folders} == FIRST_PARTY


def test_configuration_may_name_another_distribution(install: Callable[..., str]) -> None:
    """A fork of a plugin of the project is loaded where the administrator says so."""
    install("batch_job", EMPTY, distribution="acme-batch")
    plugins = load(selected("batch_job@acme-batch"))
    assert [plugin.distribution for plugin in plugins.loaded] == ["acme-batch"]
    assert states(plugins, "batch_job")["kaiwo-batch-job"] == (
        "not-selected",
        "configuration names batch_job@acme-batch",
    )


def test_of_two_foreign_distributions_with_one_name_neither_loads(install: Callable[..., str]) -> None:
    """Neither is imported, and both say how to choose."""
    install("acme", ROGUE, distribution="acme-a")
    install("acme", ROGUE, distribution="acme-b")
    plugins = load(selected("acme"))
    assert plugins.loaded == ()
    message = (
        "plugin name acme is claimed by acme-a and acme-b; "
        "write acme@acme-a in KAIWO_PLUGINS, or uninstall one of them"
    )
    assert states(plugins, "acme") == {"acme-a": ("broken", message), "acme-b": ("broken", message)}


def test_a_distribution_that_is_named_after_its_plugin_has_the_name(install: Callable[..., str]) -> None:
    """Third parties that name their distribution as Kaiwo does are safe from others' claims."""
    install("acme", ROGUE, distribution="a-rogue")
    install("acme", EMPTY, distribution="Kaiwo_Acme")
    assert [plugin.distribution for plugin in load(selected("acme")).loaded] == ["Kaiwo_Acme"]


@pytest.mark.parametrize("written", ["acme@acme-b", "acme@Acme_B", "acme@acme-b==1.2.3"])
def test_the_distribution_that_configuration_names_is_loaded(
    install: Callable[..., str], written: str
) -> None:
    """Names of distributions compare as package indexes compare them."""
    install("acme", ROGUE, distribution="acme-a")
    install("acme", EMPTY, distribution="acme-b")
    assert [plugin.distribution for plugin in load(selected(written)).loaded] == ["acme-b"]


def test_naming_the_distribution_works_without_a_list_of_plugins(install: Callable[..., str]) -> None:
    """The required plugins name it where everything installed is loaded; disabling the other does as well."""
    install("acme", EMPTY, distribution="acme-a")
    install("acme", ROGUE, distribution="acme-b")
    required = PluginSelection.of(environ={"KAIWO_PLUGINS_REQUIRED": "acme@acme-a"})
    disabled = PluginSelection.of(environ={"KAIWO_PLUGINS_DISABLED": "acme@acme-b"})
    for selection in (required, disabled):
        assert states(load(selection), "acme")["acme-a"][0] == "loaded"


def test_another_version_than_the_named_one_is_not_loaded(install: Callable[..., str]) -> None:
    """A deployment that states a version gets that one or an error."""
    install("acme", ROGUE)
    assert states(load(selected("acme@kaiwo-acme==2.0")), "acme")["kaiwo-acme"] == (
        "broken",
        (
            "configuration names acme@kaiwo-acme==2.0, and version 1.2.3 is installed; "
            "install the named version or change the configuration"
        ),
    )
    with pytest.raises(RequiredPluginError, match=r"version 1\.2\.3 is installed"):
        load(selected("acme", KAIWO_PLUGINS_REQUIRED="acme@kaiwo-acme==2.0"))


def test_a_distribution_that_is_named_and_not_installed_is_listed(install: Callable[..., str]) -> None:
    """The name is not given to the distribution that happens to be there."""
    install("acme", ROGUE, distribution="a-rogue")
    found = states(load(selected("acme@kaiwo-acme")), "acme")
    assert found["kaiwo-acme"] == ("broken", "not installed; acme is installed from a-rogue")
    assert found["a-rogue"][0] == "not-selected"


@pytest.mark.parametrize("written", ["acme@", "@kaiwo-acme", "acme==1", "acme@x@y", "acme@x==", "acme@x=1"])
def test_an_entry_that_cannot_be_read_is_an_error_with_an_example(written: str) -> None:
    """A misspelt pin is not silently ignored."""
    with pytest.raises(SelectionError, match="Write for example batch_job@kaiwo-batch-job"):
        selected(written)
