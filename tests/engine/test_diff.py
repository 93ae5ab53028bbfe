"""Comparison by meaning: no write where nothing would change, a write wherever something would."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaiwo.engine.diff import contains, difference, would_change
from kaiwo.engine.quantity import quantity

Json = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab", max_size=2),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("xyz", max_size=2), inner, max_size=3)
    ),
    max_leaves=12,
)
Maps = st.dictionaries(st.text("xyz", max_size=2), Json, max_size=4)


def merge(target: Any, patch: Any) -> Any:
    """RFC 7386, as the standard's pseudocode has it."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def without_null(value: Any) -> Any:
    """As the API server stores it: null keys of maps are absent."""
    if isinstance(value, dict):
        return {k: without_null(v) for k, v in value.items() if v is not None}
    return [without_null(v) for v in value] if isinstance(value, list) else value


def pod(**container: Any) -> dict[str, Any]:
    """A pod with one container."""
    return {"spec": {"containers": [{"name": "main", **container}]}}


@pytest.mark.parametrize(
    ("live", "desired"),
    [
        ({"a": 1, "b": 2}, {"a": 1}),
        ({"a": 1}, {"a": 1, "b": None}),
        ({}, {"labels": {}, "env": [], "deep": {"er": None}}),
        (pod(resources={"limits": {"cpu": "1500m"}}), pod(resources={"limits": {"cpu": "1.5"}})),
        (pod(resources={"requests": {"memory": "1Gi"}}), pod(resources={"requests": {"memory": "1024Mi"}})),
        (pod(resources={"limits": {"amd.com/gpu": "8"}}), pod(resources={"limits": {"amd.com/gpu": 8}})),
        ({"emptyDir": {"sizeLimit": "1Gi"}}, {"emptyDir": {"sizeLimit": "1073741824"}}),
        (
            pod(imagePullPolicy="Always", env=[{"name": "X"}, {"name": "A", "value": "1"}]),
            pod(env=[{"name": "A", "value": "1"}]),
        ),
        ({"spec": {"containers": [{"name": "sidecar"}, {"name": "main", "image": "i"}]}}, pod(image="i")),
        (pod(ports=[{"containerPort": 80, "protocol": "TCP"}]), pod(ports=[{"containerPort": 80}])),
        (
            {"ports": [{"port": 1, "protocol": "UDP"}, {"port": 1, "protocol": "TCP", "nodePort": 3}]},
            {"ports": [{"port": 1}]},
        ),
        ({"x": 1.0}, {"x": 1}),
    ],
)
def test_defaults_and_spelling_are_no_difference(live: Any, desired: Any) -> None:
    """What the API server and other controllers add or respell costs no write."""
    assert contains(live, desired)


@pytest.mark.parametrize(
    ("live", "desired"),
    [
        ({"a": 1}, {"a": 2}),
        ({"a": True}, {"a": 1}),
        ({"a": 0}, {"a": False}),
        ({"a": 1}, {"a": None}),
        ({"labels": {}}, {"labels": {"a": ""}}),
        ({"params": {}}, {"params": {"no-cache": ""}}),
        ({"params": {}}, {"params": {"example.com/a": False}}),
        ({"args": ["a", "b"]}, {"args": ["a"]}),
        ({"args": ["a", "b"]}, {"args": ["b", "a"]}),
        (pod(env=[{"name": "A", "value": "1.0"}]), pod(env=[{"name": "A", "value": "1"}])),
        (pod(env=[{"name": "A", "value": "1"}]), pod(env=[{"name": "B", "value": "1"}])),
        (pod(resources={"limits": {"cpu": "1500m"}}), pod(resources={"limits": {"cpu": "2"}})),
        ({"params": {"num-cpus": "1"}}, {"params": {"num-cpus": "1.0"}}),
        ({"tolerations": [{"key": "a"}, {"key": "b"}]}, {"tolerations": [{"key": "a"}]}),
        ({"a": [1]}, {"a": {"0": 1}}),
        ({"a": "x"}, {"a": ["x"]}),
        ({"a": [None]}, {"a": [[]]}),
    ],
)
def test_a_real_difference_is_seen(live: Any, desired: Any) -> None:
    """Whatever means something else is written again."""
    assert not contains(live, desired)


@given(Json)
def test_everything_contains_itself(value: Any) -> None:
    """An object just written is never written again."""
    assert contains(value, copy.deepcopy(value))


@given(Maps, Maps)
def test_would_change_agrees_with_merge_patch(live: Any, patch: Any) -> None:
    """A patch that is held back would have changed nothing but empty maps."""
    live = without_null(live)
    if not would_change(live, patch):
        after = without_null(merge(live, patch))
        assert contains(live, after)
        assert contains(after, live)


@given(Maps, Maps)
def test_difference_leads_from_one_status_to_the_other(live: Any, wanted: Any) -> None:
    """The patch made for a status gives exactly that status."""
    live, wanted = without_null(live), without_null(wanted)
    assert merge(live, difference(live, wanted)) == wanted


@given(Maps)
def test_no_difference_no_patch(live: Any) -> None:
    """The same status again is an empty patch, also with nulls spelled out."""
    assert difference(without_null(live), live) == {}


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1500m", 1.5),
        ("1.5", 1.5),
        ("1Gi", 2**30),
        ("1024Mi", 2**30),
        ("1k", 1000),
        ("2e3", 2000),
        (".5", 0.5),
        ("1E", 10**18),
        ("1E2", 100),
        ("-1", -1),
        (8, 8),
        (0.25, 0.25),
        ("100n", 1e-7),
    ],
)
def test_quantities_are_numbers(text: Any, number: float) -> None:
    """Every spelling that the API server takes is understood exactly."""
    found = quantity(text)
    assert found is not None
    assert float(found.value) == number


@given(st.text(max_size=12) | st.booleans() | st.floats() | st.none() | st.lists(st.integers()))
def test_nonsense_is_no_quantity_and_no_crash(value: Any) -> None:
    """Whatever stands in a quantity field, comparing does not fail."""
    quantity(value)
    contains({"limits": {"cpu": "1"}}, {"limits": {"cpu": value}})


@pytest.mark.parametrize("zero", ["", 0, False])
def test_what_the_api_server_drops_is_no_difference(zero: Any) -> None:
    """An empty variable would otherwise be applied for ever; a merge patch still says what it means."""
    assert contains({"env": [{"name": "A"}]}, {"env": [{"name": "A", "value": zero}]})
    assert not contains({"value": "x"}, {"value": zero})
    assert would_change({}, {"value": zero})
