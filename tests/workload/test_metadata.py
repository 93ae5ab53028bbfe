import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaiwo.workload.metadata import derived_name, label_value, name_problem, user_label


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("jane.doe+x@Amd.com", "jane.doe-x-amd.com"),
        ("", ""),
        ("@@@", ""),
        ("-a-", "a"),
        ("a..b", "a-b"),
        ("a.-.b", "a-b"),
        ("Jürgen Größe", "j-rgen-gr-e"),
        ("a" * 70, "a" * 63),
        ("a" * 62 + "-b", "a" * 62),
    ],
)
def test_a_label_value_still_reads_like_the_text(text: str, value: str) -> None:
    """An e-mail address becomes a label by which its owner recognises it."""
    assert label_value(text) == value


@given(st.text(max_size=200))
def test_every_text_gives_a_legal_label_value(text: str) -> None:
    """Nothing a user can write makes the API server refuse a label."""
    value = label_value(text)
    assert re.fullmatch(r"([a-z0-9]([-.a-z0-9]*[a-z0-9])?)?", value)
    assert len(value) <= 63
    assert label_value(value) == value


def test_the_label_of_a_person_is_the_label_value() -> None:
    """What people are called today stays the label by which their pods are found."""
    assert user_label("jane.doe+x@Amd.com") == "jane.doe-x-amd.com"
    assert user_label("system:serviceaccount:") == "system-serviceaccount"
    assert user_label("system:serviceaccount:Team:ci") == "system-serviceaccount-team-ci"


account = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)
dotted = st.lists(account, min_size=1, max_size=3).map(".".join)


@given(st.tuples(account, dotted), st.tuples(account, dotted))
def test_no_two_service_accounts_share_a_label(one: tuple[str, str], other: tuple[str, str]) -> None:
    """A workload is never attributed to another team's service account, however both are called."""
    labels = [user_label(f"system:serviceaccount:{namespace}:{name}") for namespace, name in (one, other)]
    assert all(re.fullmatch(r"[a-z0-9]([-.a-z0-9]{0,61}[a-z0-9])?", label) for label in labels)
    assert (labels[0] == labels[1]) == (one == other)


def test_the_label_of_a_service_account_names_it() -> None:
    """Namespaces and names with dashes and dots stay apart, and a long one is cut with a hash."""
    assert user_label("system:serviceaccount:team-a:ci") == "serviceaccount.team-a.ci"
    assert user_label("system:serviceaccount:team:a-ci") == "serviceaccount.team.a-ci"
    long = user_label(f"system:serviceaccount:{'n' * 63}:{'a' * 253}")
    assert (len(long), long.startswith("serviceaccount.nnn")) == (63, True)


def test_a_derived_name_fits_and_stays_distinct() -> None:
    """Two long workload names that begin alike never share a volume."""
    assert derived_name("train", "-data") == "train-data"
    assert derived_name("a" * 58, "-data") == "a" * 58 + "-data"
    one, other = derived_name("a" * 62 + "b", "-data"), derived_name("a" * 62 + "c", "-data")
    assert one != other
    assert len(one) == len(other) == 63
    assert one.endswith("-data")


@pytest.mark.parametrize(
    ("name", "limit", "pattern", "word"),
    [
        ("a" * 64, 63, "dns1123", "64 characters"),
        ("a" * 48, 47, "dns1035", "48 characters"),
        ("Train", 63, "dns1123", '"train"'),
        ("1train", 47, "dns1035", '"w-1train"'),
        ("train_1", 63, "dns1123", '"train-1"'),
        ("trainé", 63, "dns1123", '"train"'),
        ("", 63, "dns1123", '"w"'),
    ],
)
def test_an_illegal_name_is_reported_with_the_limit_and_a_legal_one(
    name: str, limit: int, pattern: str, word: str
) -> None:
    """Who chose a bad name sees the rule and a name to take instead."""
    problem = name_problem(name, limit, pattern)  # type: ignore[arg-type] # a table of plain texts
    assert problem is not None
    assert word in problem
    assert str(limit) in problem


@pytest.mark.parametrize(
    ("name", "limit", "pattern"), [("a" * 63, 63, "dns1123"), ("1a", 63, "dns1123"), ("a-1", 47, "dns1035")]
)
def test_a_legal_name_is_fine(name: str, limit: int, pattern: str) -> None:
    """63 characters are legal for a Job, a leading digit too."""
    assert name_problem(name, limit, pattern) is None  # type: ignore[arg-type] # a table of plain texts
