"""YAML is read as kubectl reads it, with positions, and nothing in it can hurt."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaiwo.cli.output.serialization import to_yaml
from kaiwo.engine.field_paths import format_path, parse_path
from kaiwo.engine.yaml_reader import MAX_DEPTH, Limits, parse, parse_value
from kaiwo.engine.yaml_scalars import DocumentError


def values(text: str) -> list[Any]:
    """The values of all documents."""
    return [document.value for document in parse(text)]


def refusal(text: str) -> DocumentError | None:
    """Why the text is refused, None when it is read."""
    try:
        values(text)
    except DocumentError as error:
        return error
    return None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8", 8),
        ("+8", 8),
        ("-8", -8),
        ("0x1F", 31),
        ("0o17", 15),
        ("0777", 511),
        ("1_000", 1000),
        ("0", 0),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("true", True),
        ("yes", True),
        ("off", False),
        ("~", None),
        ("'8'", "8"),
        ('"yes"', "yes"),
        ("1:30", "1:30"),
        ("2026-01-31", "2026-01-31"),
        ("2026-01-31T09:00:00Z", "2026-01-31T09:00:00Z"),
        ("500m", "500m"),
        ("v1.2.3", "v1.2.3"),
        ("!!str 8", "8"),
        ("!!int 8", 8),
        ("=", "="),
        ("+", "+"),
        (".", "."),
        ("_", "_"),
    ],
)
def test_a_scalar_means_what_it_means_to_kubectl(text: str, value: object) -> None:
    """Times, clock times and versions stay text; numbers and booleans are those of YAML 1.1."""
    found = parse_value(text)
    assert found == value
    assert type(found) is type(value)


def test_every_field_and_item_has_line_and_column() -> None:
    """Positions are those of a field's name and of an item's first character, counted from 1."""
    (document,) = parse("spec:\n  gpus: 4\n  env:\n    - name: A\n      value: b\n    - {name: C}\n")
    assert document.position(("spec", "gpus")) == (2, 3)
    assert document.position(("spec", "env")) == (3, 3)
    assert document.position(("spec", "env", 0)) == (4, 7)
    assert document.position(("spec", "env", 0, "value")) == (5, 7)
    assert document.position(("spec", "env", 1, "name")) == (6, 8)


def test_a_field_that_is_not_written_is_where_its_parent_is() -> None:
    """A missing field is shown at the nearest one that is there."""
    (document,) = parse("---\nspec:\n  gpus: 4\n")
    assert document.position(("spec", "image")) == (2, 1)
    assert document.position(("metadata", "name")) == (2, 1)


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, 1, "a: the field is already given in line 1; remove one of them"),
        (
            "s:\n  x: {k: 1, k: 2}\n",
            2,
            13,
            "s.x.k: the field is already given in column 7; remove one of them",
        ),
        ("spec:\n\tgpus: 1\n", 2, 1, "a tab cannot indent YAML; use spaces"),
        ("spec:\n  a: 1\n \tb: 1\n", 3, 2, "a tab cannot indent YAML; use spaces"),
        ("a: *nowhere\n", 1, 4, "no anchor &nowhere before the alias *nowhere"),
        ("a: &x [1, *x]\n", 1, 11, "the alias *x refers to itself"),
        ("? [a]\n: 1\n", 1, 3, "a list or a mapping cannot be a field's name"),
        ("a: !!binary aGk=\n", 1, 4, "the tag !!binary is not supported; remove it"),
        ("a: !env HOME\n", 1, 4, "the tag !env is not supported; remove it"),
        ("a: !!map [1]\n", 1, 4, "the tag !!map is not supported; remove it"),
        ("a: .nan\n", 1, 4, ".nan is not a finite number; write a number, or quote it"),
        ("a: 1e999\n", 1, 4, "1e999 is too large for a number"),
        ("a: 0x_\n", 1, 4, "0x_ is not a number"),
        ("a: x\x00y\n", 1, 5, "the character U+0000 is not allowed in YAML"),
        ("a: 1\nb: \x1b[31m\n", 2, 4, "the character U+001B is not allowed in YAML"),
        ("<<: 1\n", 1, 1, "<< takes a mapping or a list of mappings, by alias"),
    ],
)
def test_what_cannot_be_used_is_shown_where_it_is(text: str, line: int, column: int, message: str) -> None:
    """Each refusal names line, column, what is wrong and what to do."""
    with pytest.raises(DocumentError) as caught:
        values(text)
    error = caught.value
    assert (error.line, error.column, error.message) == (line, column, message)


def test_broken_syntax_is_shown_where_the_parser_stopped() -> None:
    """The parser's own words are kept, in one line, with its position."""
    with pytest.raises(DocumentError) as caught:
        values("a: [b\nc: d")
    assert (caught.value.line, caught.value.column) == (2, 2)
    assert caught.value.message.startswith("invalid YAML: ")
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("a: b: c\n", (1, 5), "quote the whole value"),
        ('a: 1\nb: "c\nd: 1\n', (2, 4), "this quote is not closed"),
        ("a:\n\tb: 1\n", (2, 1), "a tab cannot indent YAML"),
    ],
)
def test_usual_slips_of_syntax_have_their_own_words(text: str, place: tuple[int, int], words: str) -> None:
    """The parser's words name its own state, and the end of the file for a quote that is not closed."""
    with pytest.raises(DocumentError) as caught:
        values(text)
    assert (caught.value.line, caught.value.column) == place
    assert words in caught.value.message


def test_documents_before_a_broken_one_are_read() -> None:
    """Problems of several documents can be reported at once."""
    found: list[Any] = []
    with pytest.raises(DocumentError):
        found.extend(document.value for document in parse("a: 1\n---\nb: [\n"))
    assert found == [{"a": 1}]


def test_a_byte_order_mark_does_not_shift_or_break_anything() -> None:
    """Files written on Windows begin with one."""
    (document,) = parse("\ufeffa: 1\n")
    assert document.value == {"a": 1}
    assert document.position(("a",)) == (1, 1)


def test_empty_documents_are_left_out() -> None:
    """A file that begins or ends with --- has no extra document."""
    assert values("---\n---\na: 1\n---\n# nothing\n---\n") == [{"a": 1}]


def test_merge_keys_fill_in_what_is_not_given() -> None:
    """A mapping's own fields win over merged ones, earlier merged ones over later."""
    text = "a: &a {x: 1, y: 1}\nb: &b {y: 2, z: 2}\nc:\n  <<: [*a, *b]\n  x: 0\n"
    assert values(text)[0]["c"] == {"x": 0, "y": 1, "z": 2}


def test_an_alias_is_a_copy() -> None:
    """Changing one place by a flag must not change the other."""
    value = values("a: &x {k: 1}\nb: *x\n")[0]
    value["a"]["k"] = 2
    assert value["b"] == {"k": 1}


def test_a_quoted_merge_key_is_a_name() -> None:
    """Without quotes ``<<`` merges; with them it is a field like any other, as the writer means it."""
    assert parse_value('{"<<": "x", a: 1}') == {"<<": "x", "a": 1}


def test_aliases_cannot_multiply_without_bound() -> None:
    """Ten levels of ten references each are ten billion values; they are refused at once."""
    lines = ["l0: &l0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 10)}]" for i in range(1, 11)]
    with pytest.raises(DocumentError, match="aliases written out has more than 100000 values"):
        values("\n".join(lines))


def test_merge_keys_cannot_multiply_without_bound() -> None:
    """The same bomb made of merged mappings is refused, too."""
    lines = ["m0: &m0 {" + ", ".join(f"k{i}: {'x' * 100}" for i in range(100)) + "}"]
    lines += [f"m{i}: &m{i} {{a: *m{i - 1}, b: *m{i - 1}, <<: *m{i - 1}}}" for i in range(1, 30)]
    with pytest.raises(DocumentError, match="larger than 3 MiB"):
        values("\n".join(lines))


def test_nesting_has_a_limit() -> None:
    """Deep nesting is refused long before it could exhaust a stack."""
    assert values("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    with pytest.raises(DocumentError, match=f"nested deeper than {MAX_DEPTH} levels"):
        values("[" * 100_000)


def test_a_large_document_is_refused() -> None:
    """An API server takes no request over 3 MiB."""
    with pytest.raises(
        DocumentError, match="larger than 3 MiB; split it, or put data into a volume or an image"
    ):
        values("a: |\n" + "  xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n" * 60_000)


@given(st.text())
def test_no_text_crashes_the_reader(text: str) -> None:
    """Any text is read or refused with a position inside it."""
    problem = refusal(text)
    if problem is not None:
        assert problem.line >= 1
        assert problem.column >= 1
        assert "\n" not in problem.message


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), json_values, min_size=1))
def test_what_is_written_is_read_back(value: dict[str, Any]) -> None:
    """The output of one command is the input of another."""
    (document,) = parse(to_yaml(value))
    assert document.value == value


names = st.text(min_size=1).filter(lambda s: not set(s) & set("\"'[]."))


@given(names, st.lists(names | st.integers(0, 99)))
def test_a_path_is_read_back(first: str, rest: list[str | int]) -> None:
    """What is shown for a path names the same field when it is typed."""
    path = (first, *rest)
    assert parse_path(format_path(path)) == path


@pytest.mark.parametrize("text", ["", ".", "a..b", "a[", "a[x", "[", "]", "a]"])
def test_what_is_no_path_is_none(text: str) -> None:
    """Nonsense is not taken for a field."""
    assert parse_path(text) is None


@pytest.mark.parametrize("text", ["1e3", "0o17", "yes", "1_0", "09", "~", ".inf", "2026-01-31", "1:30"])
def test_text_that_resembles_another_type_stays_text(text: str) -> None:
    """A version "1e3" is quoted when written, so that neither kaiwo nor kubectl takes it for a number."""
    assert parse_value(to_yaml({"version": text})) == {"version": text}


MANY = 120_000
MAPPING = "a: &a {" + ",".join(f"k{n}: 1" for n in range(1000)) + "}\n"


@pytest.mark.parametrize(
    "text",
    [
        "[" + "1," * MANY + "1]",
        "[" + "[]," * MANY + "[]]",
        "[" + ("[" * 95 + "]" * 95 + ",") * (MANY // 95) + "1]",
        "{" + ",".join(f"k{n}: 1" for n in range(MANY)) + "}",
        "a: &a [1]\nb: [" + "*a," * MANY + "*a]",
        "1\n---\n" * MANY,
        MAPPING + "".join(f"m{n}: {{<<: *a}}\n" for n in range(MANY // 1000)),
    ],
    ids=["numbers", "empty lists", "nested lists", "fields", "aliases", "documents", "merged mappings"],
)
def test_a_stream_has_a_limited_number_of_values(text: str) -> None:
    """However few characters it has: three megabytes of brackets took ten seconds and a gigabyte."""
    problem = refusal(text)
    assert problem is not None
    assert "more than 100000 values; split it" in problem.message


def test_a_reader_may_take_less() -> None:
    """What is read often has lower limits; the message names the limit in force."""
    limits = Limits(characters=2048, values=10)
    assert parse_value("[1, 2, 3]", limits) == [1, 2, 3]
    with pytest.raises(DocumentError, match="more than 10 values") as caught:
        parse_value("- a\n" * 20, limits)
    assert caught.value.line == 10
    with pytest.raises(DocumentError, match="larger than 2 KiB"):
        parse_value("a: " + "x" * 3000, limits)


def test_all_yaml_of_users_has_one_reader() -> None:
    """No other module of the host or a plugin loads YAML, but for the download program and the sandbox."""
    root = Path(__file__).parents[2]
    files = [*root.glob("kaiwo/**/*.py"), *root.glob("plugins/*/kaiwo_*/**/*.py")]
    assert len(files) > 200
    loading = {
        str(file.relative_to(root))
        for file in files
        if re.search(r"yaml\.\w*load|SafeLoader", file.read_text(encoding="utf-8"))
        and "kaiwo_sandbox" not in file.parts
    }
    assert loading == {
        "kaiwo/engine/yaml_reader.py",
        "plugins/storage_s3_gcs_azure_git_hf/kaiwo_storage_s3_gcs_azure_git_hf/download/main.py",
    }
