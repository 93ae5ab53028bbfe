"""Label selectors."""

from __future__ import annotations

import pytest

from kaiwo.engine.selector import Selector


@pytest.mark.parametrize(
    ("text", "labels", "matches"),
    [
        ("", {}, True),
        ("a", {"a": ""}, True),
        ("a", {}, False),
        ("!a", {"b": "1"}, True),
        ("!a", {"a": "1"}, False),
        ("a=1,b==2", {"a": "1", "b": "2"}, True),
        ("a=1,b==2", {"a": "1"}, False),
        ("a!=1", {}, True),
        ("a!=1", {"a": "1"}, False),
        ("tier in (x, y)", {"tier": "y"}, True),
        ("tier in (x,y)", {"tier": "z"}, False),
        ("tier notin (x)", {}, True),
        ("example.com/run-id,tier in (x)", {"example.com/run-id": "u", "tier": "x"}, True),
        ("a=", {"a": ""}, True),
    ],
)
def test_a_selector_selects_what_kubectl_would(text: str, labels: dict[str, str], matches: bool) -> None:
    """Own writes are judged as the API server judges them."""
    assert Selector.parse(text).matches(labels) is matches


@pytest.mark.parametrize("text", ["a b", "=1", "a in x", "a=1;b", "(a)"])
def test_what_is_no_selector_is_refused(text: str) -> None:
    """A mistake is told with the place where reading stopped."""
    with pytest.raises(ValueError, match="cannot be read at"):
        Selector.parse(text)
