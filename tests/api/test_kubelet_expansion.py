"""What a kubelet changes in a script is found before it runs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaiwo.api.kubelet_expansion import halved_dollars, literal
from kaiwo.api.spec_checks import check_workload


@pytest.mark.parametrize(
    ("script", "line"),
    [
        ("trap 'kill -- -$$' EXIT", 1),
        ("set -e\nmkdir /tmp/run.$$", 2),
        ("echo $(date) $$", 1),
        ("echo $$$(date)", 1),
        ("echo $$$$", None),
        ("echo $", None),
        ("echo $HOME ${x} $(hostname) $((1 + 2))", None),
        ("echo $(ps -o pgid= $$)", None),
        ("echo $$(HOME)", None),
        ("echo $(unclosed $$", 1),
        ("", None),
    ],
)
def test_a_process_id_that_a_kubelet_takes_away_is_found(script: str, line: int | None) -> None:
    """It halves two dollar signs, but not in what it takes for a reference."""
    assert halved_dollars(script) == line


@pytest.mark.parametrize("on_ray", [False, True])
def test_a_script_with_its_process_id_is_warned_about(on_ray: bool) -> None:
    """The shell would get a single dollar sign, and kill nothing at its end."""
    spec = {"entrypoint": "set -e\ntrap 'kill -- -$$' EXIT\npython a.py"}
    problems, (warning,) = check_workload("KaiwoJob", spec, on_ray=on_ray, defaulted=False)
    assert not problems
    assert warning.path == "spec.entrypoint"
    assert "line 2" in warning.message
    assert "$$$$" in warning.hint


def expanded(text: str, variables: dict[str, str]) -> str:
    """What a kubelet makes of a text: its Expand, in Python."""
    result, position = "", 0
    while position < len(text):
        following = text[position + 1 : position + 2]
        if text[position] != "$" or not following:
            result, position = result + text[position], position + 1
        elif following == "(" and (end := text.find(")", position)) >= 0:
            name = text[position + 2 : end]
            result, position = result + variables.get(name, f"$({name})"), end + 1
        else:
            result += "$" if following == "$" else f"${following}"
            position += 2
    return result


@given(st.text(alphabet="$()a"))
def test_a_literal_text_is_what_it_was_after_the_kubelet(text: str) -> None:
    """With a variable of any name that the text may refer to."""
    assert expanded(literal(text), {"a": "X", "": "Y"}) == text


@pytest.mark.parametrize("text", ["echo $HOME ${x}", "a", "", "$"])
def test_a_text_that_a_kubelet_leaves_alone_stays_readable(text: str) -> None:
    """Manifests are read by people."""
    assert literal(text) == text


@given(st.text(alphabet="$()a\n"))
def test_no_text_makes_it_fail(script: str) -> None:
    """Scripts are anything."""
    found = halved_dollars(script)
    assert found is None or 1 <= found <= script.count("\n") + 1
