"""Names: the limits, and a legal name that is near for every illegal one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaiwo.api.errors import Problem, join_path, render, shorten
from kaiwo.api.name_rules import ON_RAY, PLAIN, NameRule, label_key_problem, label_value_problem, runs_on_ray


@pytest.mark.parametrize("rule", [PLAIN, ON_RAY])
@given(text=st.text(max_size=100))
def test_the_advice_is_always_legal(rule: NameRule, text: str) -> None:
    """Whoever copies the suggested name is not refused a second time."""
    assert rule.problem(rule.legal(text)) is None


@pytest.mark.parametrize("rule", [PLAIN, ON_RAY])
def test_a_legal_name_is_its_own_advice(rule: NameRule) -> None:
    """Nothing is changed that need not be."""
    assert rule.legal("train-1") == "train-1"


def test_the_limits_are_63_and_47() -> None:
    """A Job's name becomes a label; KubeRay adds to a RayJob's."""
    assert PLAIN.problem("a" * 63) is None
    assert "may have at most 63 characters" in str(PLAIN.problem("a" * 64))
    assert ON_RAY.problem("a" * 47) is None
    assert "may have at most 47 characters" in str(ON_RAY.problem("a" * 48))
    assert PLAIN.problem("1a") is None
    assert "with a letter first" in str(ON_RAY.problem("1a"))
    assert PLAIN.problem("a\n") is not None


def test_ray_is_selected_by_the_flag_or_a_ray_block() -> None:
    """``ray`` false with a Ray block still runs on Ray."""
    assert runs_on_ray({"ray": True}, ["ray"])
    assert runs_on_ray({"ray": False}, ["ray", "rayJob"])
    assert not runs_on_ray({"ray": False}, ["ray", "job"])


@pytest.mark.parametrize("key", ["team", "example.com/team", "a" * 63, f"{'a.' * 100}b/c"])
def test_legal_label_keys(key: str) -> None:
    """As Kubernetes has them."""
    assert label_key_problem(key) is None


@pytest.mark.parametrize("key", ["", "a b", "a" * 64, "/a", "a/", "A.com/x", "a/b/c", f"{'a' * 254}/b"])
def test_illegal_label_keys(key: str) -> None:
    """As Kubernetes refuses them."""
    assert "is not a valid label key" in str(label_key_problem(key))


def test_label_values() -> None:
    """At most 63 characters, empty is legal."""
    assert label_value_problem("") is None
    assert label_value_problem("A_1.b") is None
    assert "is not a valid label value" in str(label_value_problem("a b"))
    assert "is not a valid label value" in str(label_value_problem("a" * 64))


def test_problems_are_one_line_each() -> None:
    """Path, message and hint; several on one line for a condition."""
    found = [Problem("spec.gpus", "-1 is less than 0", "use 0"), Problem("", "is not a mapping")]
    assert render(found) == "spec.gpus: -1 is less than 0 (use 0); is not a mapping"


def test_paths_are_written_as_in_yaml_tools() -> None:
    """Keys that hold dots or slashes are quoted, so that a path has one reading."""
    assert join_path(("spec", "env", 2, "name")) == "spec.env[2].name"
    assert join_path(("spec", "limits", "amd.com/gpu")) == 'spec.limits["amd.com/gpu"]'


def test_long_values_are_cut_in_messages() -> None:
    """A megabyte of text does not flood a terminal; truths are written as in YAML."""
    assert len(shorten("x" * 1_000_000)) <= 60
    assert (shorten(True), shorten(None), shorten("a")) == ("true", "null", '"a"')  # noqa: FBT003 (a value)
