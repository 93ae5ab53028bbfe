from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaiwo.plugin.selection import PluginSelection, SelectionError


def test_flag_wins_over_environment_wins_over_file() -> None:
    """What is typed now beats what a container sets, and that what a file says."""
    file = {"plugins": ["from_file"], "pluginsDisabled": ["off"], "pluginsRequired": ["must"]}
    environ = {"KAIWO_PLUGINS": "from_env"}
    assert PluginSelection.of(settings=file).names == ("from_file",)
    assert PluginSelection.of(settings=file, environ=environ).names == ("from_env",)
    assert PluginSelection.of(settings=file, environ=environ, flag="from_flag").names == ("from_flag",)


def test_each_setting_is_resolved_on_its_own() -> None:
    """A list in the environment does not forget what the file disables and requires."""
    file = {"plugins": ["a"], "pluginsDisabled": ["b"], "pluginsRequired": ["c"]}
    selection = PluginSelection.of(
        settings=file, environ={"KAIWO_PLUGINS": "d", "KAIWO_PLUGINS_REQUIRED": "e"}
    )
    assert selection == PluginSelection(names=("d",), disabled=frozenset({"b"}), required=frozenset({"e"}))


def test_no_list_means_everything_and_an_empty_list_means_nothing() -> None:
    """A deployment can ask for a host without plugins."""
    assert PluginSelection.of().names is None
    assert PluginSelection.of(environ={}).names is None
    assert PluginSelection.of(environ={"KAIWO_PLUGINS": ""}).names == ()
    assert PluginSelection.of(settings={"plugins": []}).names == ()
    assert PluginSelection.of(flag="").names == ()


@pytest.mark.parametrize("text", ["a,b", "a b", " a ,  b ", "a,b,", "a\nb\n", "a,b,a"])
def test_names_are_separated_by_commas_or_blanks(text: str) -> None:
    """Whatever way somebody writes a list in an environment variable, it means the same."""
    assert PluginSelection.of(environ={"KAIWO_PLUGINS": text}).names == ("a", "b")
    assert PluginSelection.of(settings={"plugins": text}).names == ("a", "b")


@pytest.mark.parametrize("value", [7, {"a": 1}, [1], ["a", None], True])
def test_a_list_that_is_none_is_an_error_with_place_and_example(value: object) -> None:
    """A wrong file is explained, not guessed at."""
    with pytest.raises(
        SelectionError, match=r"operator\.yaml: pluginsDisabled: .* is not a list of plugin names"
    ):
        PluginSelection.of(settings={"pluginsDisabled": value}, where="operator.yaml")


@given(
    st.lists(st.from_regex(r"[a-z][a-z0-9_]{0,10}", fullmatch=True), unique=True),
    st.sampled_from([",", " ", ", "]),
)
def test_any_list_of_names_survives_being_written_as_text(names: list[str], separator: str) -> None:
    """No name is lost or made up between a deployment's list and the variable it becomes."""
    assert PluginSelection.of(environ={"KAIWO_PLUGINS": separator.join(names)}).names == tuple(names)
