"""Quantities mean and print what the API server takes them for."""

from __future__ import annotations

import contextlib
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaiwo.engine.quantity import InvalidQuantity, Quantity, parse_quantity

if TYPE_CHECKING:
    from kaiwo_sandbox.sandbox import Sandbox

SUFFIXES = [
    "",
    "n",
    "u",
    "m",
    "k",
    "M",
    "G",
    "T",
    "P",
    "E",
    "Ki",
    "Mi",
    "Gi",
    "Ti",
    "Pi",
    "Ei",
    "e3",
    "e-2",
    "E5",
]
LEGAL = st.builds(
    "{}{}".format,
    st.one_of(
        st.integers(0, 10**7).map(str),
        st.decimals(0, 10**5, places=4).map(lambda number: f"{number:f}"),
    ),
    st.sampled_from(SUFFIXES),
)

CANONICAL = {
    "0": "0",
    "0Gi": "0",
    "1.": "1",
    ".5": "500m",
    "+5": "5",
    "1000m": "1",
    "1500m": "1500m",
    "1.5": "1500m",
    "1024Mi": "1Gi",
    "1000Mi": "1000Mi",
    "1023Ki": "1023Ki",
    "1024": "1024",
    "0.5Gi": "512Mi",
    "1.5Gi": "1536Mi",
    "0.3Ki": "307200m",
    "1e3": "1e3",
    "12e6": "12e6",
    "1E3": "1e3",
    "1e4": "10e3",
    "1E": "1E",
    "1000k": "1M",
    "0.1n": "1n",
    "100n": "100n",
    "00012": "12",
    "200Gi": "200Gi",
    "9223372036854775808": "9223372036854775808",
    "9Ei": "9223372036854775807",
    "1e30": "1e30",
}


@pytest.mark.parametrize(("text", "expected"), CANONICAL.items())
def test_the_canonical_text_is_the_api_servers(text: str, expected: str) -> None:
    """Comparing what we rendered with what came back finds no difference that is not one."""
    assert str(parse_quantity(text)) == expected


@pytest.mark.parametrize("text", ["", ".", "Gi", "1e", "--1", "1.5.2", "0x10", "NaN", "٣", "1e999"])
def test_what_is_no_quantity_is_refused_with_examples(text: str) -> None:
    """A typing error is answered with how to write it."""
    with pytest.raises(InvalidQuantity, match=r"is not a quantity; write it as 4"):
        parse_quantity(text)


@pytest.mark.parametrize(
    ("text", "meant"),
    [("64GB", "64Gi"), ("1 Gi", "1Gi"), ("1gi", "1Gi"), ("1K", "1Ki"), ("1Gi\n", "1Gi"), ("1.5gib", "1.5Gi")],
)
def test_units_of_everyday_use_are_answered_with_those_of_kubernetes(text: str, meant: str) -> None:
    """GB, gib and blanks are what people write elsewhere."""
    with pytest.raises(InvalidQuantity, match=f'is not a quantity; write "{meant}"'):
        parse_quantity(text)


@pytest.mark.parametrize("value", [True, None, [], {}])
def test_other_types_are_refused_not_crashed_on(value: object) -> None:
    """Whatever YAML holds, the answer is a sentence."""
    with pytest.raises(InvalidQuantity):
        parse_quantity(value)  # type: ignore[arg-type]  # the point of the test


def test_huge_input_is_refused_quickly_and_briefly() -> None:
    """A megabyte of digits neither stalls nor floods the terminal."""
    with pytest.raises(InvalidQuantity) as refused:
        parse_quantity("9" * 1_000_000)
    assert len(str(refused.value)) < 200


def test_equal_amounts_are_equal_whatever_they_were_written_as() -> None:
    """1Gi and 1024Mi, 1 and 1000m are one amount: no write because of notation."""
    assert parse_quantity("1Gi") == parse_quantity("1024Mi") == parse_quantity("1073741824")
    assert parse_quantity("1") == parse_quantity("1000m") == parse_quantity(1)
    assert len({parse_quantity("1Gi"), parse_quantity("1024Mi")}) == 1
    assert parse_quantity("1Gi") > parse_quantity("1G")


def test_sums_and_multiples_keep_the_notation() -> None:
    """4 GPUs of 32Gi each are 128Gi, not a long number of bytes."""
    assert str(parse_quantity("32Gi") * 4) == "128Gi"
    assert str(parse_quantity("1Gi") + parse_quantity("512Mi")) == "1536Mi"
    assert str(Quantity(0) + parse_quantity("1Gi")) == "1Gi"
    assert str(parse_quantity("2") - parse_quantity("500m")) == "1500m"


def test_whole_units_round_up() -> None:
    """1500m of something that comes in pieces takes two."""
    assert parse_quantity("1500m").units == 2
    assert parse_quantity("-1500m").units == -1
    assert parse_quantity("0.0001").milli == 1
    assert parse_quantity("1.5").value == Decimal("1.5")


@given(LEGAL)
def test_the_canonical_text_is_stable_and_means_the_same(text: str) -> None:
    """Printing and reading again changes neither amount nor text."""
    quantity = parse_quantity(text)
    again = parse_quantity(str(quantity))
    assert again == quantity
    assert str(again) == str(quantity)


@given(st.text(max_size=30))
def test_any_text_is_either_a_quantity_or_refused(text: str) -> None:
    """No input crashes."""
    with contextlib.suppress(InvalidQuantity):
        assert parse_quantity(text) == parse_quantity(str(parse_quantity(text)))


@pytest.mark.cluster
def test_the_api_server_prints_the_same(control_plane: Sandbox, namespace: str) -> None:
    """The table, and some hundred combinations of digits and suffixes, agree with the real thing."""
    numbers = ["1", "7.5", "1023", "1025", "0.3", "123456789.123456789", "1048576", "0.000000001", "100"]
    texts = [text for text in CANONICAL if not text.startswith("+")]
    texts += [number + suffix for number in numbers for suffix in SUFFIXES]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "quantities"},
        "spec": {
            "containers": [
                {"name": f"c{index}", "image": "none", "resources": {"limits": {"memory": text}}}
                for index, text in enumerate(texts)
            ]
        },
    }
    answer = control_plane.api.create(f"/api/v1/namespaces/{namespace}/pods?dryRun=All", pod)
    served = [item["resources"]["limits"]["memory"] for item in answer["spec"]["containers"]]
    assert len(served) == len(texts)
    for text, answer_text in zip(texts, served, strict=True):
        ours = _rounded_to_milli(parse_quantity(text))
        assert parse_quantity(answer_text) == ours
        assert answer_text in (str(ours), text), "neither canonical nor as it was written"


def _rounded_to_milli(quantity: Quantity) -> Quantity:
    """What the defaulting of pods does to every amount."""
    return Quantity(quantity.milli * 10**6, quantity.form)
