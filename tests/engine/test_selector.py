"""Label selectors of watches."""

from __future__ import annotations

import pytest

from kaiwo.engine.store import Selector


@pytest.mark.parametrize(
    ("text", "labels", "matches"),
    [
        (None, {}, True),
        ("", {"a": "1"}, True),
        ("a", {"a": ""}, True),
        ("a", {"b": "1"}, False),
        ("a=1", {"a": "1", "b": "2"}, True),
        ("a=1", {"a": "2"}, False),
        ("a=1", {}, False),
        ("a=", {"a": ""}, True),
        ("example.com/run-id", {"example.com/run-id": "u"}, True),
    ],
)
def test_a_selector_selects_what_the_api_server_would(
    text: str | None, labels: dict[str, str], *, matches: bool
) -> None:
    """Own writes are judged as the API server judges them."""
    assert Selector.parse(text).matches(labels) is matches


@pytest.mark.parametrize("text", ["a b", "=1", "a in (x)", "a=1,b=2", "!a", "a!=1"])
def test_a_selector_that_a_watch_cannot_have_is_an_error(text: str) -> None:
    """A selector that would be evaluated wrongly is not accepted."""
    with pytest.raises(ValueError, match="expected"):
        Selector.parse(text)
