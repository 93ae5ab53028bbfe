"""JSON and YAML carry the data unchanged, in characters that no terminal obeys."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kaiwo.cli.output.serialization import to_json, to_yaml

texts = st.text(
    st.characters(exclude_categories=("Cs",)) | st.sampled_from("\x1b\x9b\x85\u202e\u2066\u200b\U000e0001\n")
)
values = st.recursive(
    texts, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=5
)


def harmless(text: str) -> bool:
    """No control character, nothing invisible, nothing that turns the direction of text."""
    return all(char.isprintable() for char in text.replace("\n", ""))


@given(values)
def test_any_text_of_a_cluster_is_harmless_and_unchanged_as_json(value: Any) -> None:
    """Escape sequences, C1 controls and bidirectional overrides are escaped; a parser reads the same."""
    text = to_json(value)
    assert harmless(text)
    assert json.loads(text) == value


@given(values)
def test_any_text_of_a_cluster_is_harmless_and_unchanged_as_yaml(value: Any) -> None:
    """The same for YAML."""
    text = to_yaml(value)
    assert harmless(text)
    assert yaml.safe_load(text) == value


@pytest.mark.parametrize(
    ("char", "escape"), [("\x9b", "\\u009b"), ("\u202e", "\\u202e"), ("\U000e0001", "\\udb40\\udc01")]
)
def test_what_a_terminal_would_obey_is_escaped(char: str, escape: str) -> None:
    """Letters of any language stay readable beside it."""
    assert to_json(f"ü{char}") == f'"ü{escape}"\n'
