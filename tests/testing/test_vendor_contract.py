"""The vendor contract lets a good vendor pass and names what is wrong with a bad one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kaiwo import testing
from kaiwo.plugin.vendors import GpuVendor, NodeGpus
from kaiwo.workload.gpus.nodes import counts

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo.engine.resource import Object

KEY = "acme.com/gpu"
NODE = testing.node(gpus={KEY: 4})


def good(node: Object) -> tuple[NodeGpus, ...]:
    """What a vendor should do."""
    count = counts(node, [KEY]).get(KEY, 0)
    return (NodeGpus("a1", count, KEY),) if count else ()


def vendor(recognise: Callable[[Object], tuple[NodeGpus, ...]]) -> GpuVendor:
    """A vendor that recognises like this."""
    return GpuVendor(name="acme", resource_keys=(KEY,), recognise=recognise)


def test_a_good_vendor_passes() -> None:
    """The contract requires nothing that cannot be done."""
    testing.assert_vendor_contract(vendor(good), [NODE])


def changes_the_node(node: Object) -> tuple[NodeGpus, ...]:
    """Writes notes into what it was given."""
    node["seen"] = True
    return good(node)


def sees_everything(_: Object) -> tuple[NodeGpus, ...]:
    """Believes every Node to be its own."""
    return (NodeGpus("a1", 8, KEY),)


def shouts(node: Object) -> tuple[NodeGpus, ...]:
    """Takes the model as marketing writes it."""
    return tuple(NodeGpus("MI 300X!", gpus.count, KEY) for gpus in good(node))


def foreign_key(node: Object) -> tuple[NodeGpus, ...]:
    """Answers with a resource that it did not declare."""
    return tuple(NodeGpus("a1", gpus.count, "other.com/gpu") for gpus in good(node))


def believes_capacity(node: Object) -> tuple[NodeGpus, ...]:
    """Counts GPUs that are broken."""
    try:
        count = int(node["status"]["capacity"][KEY])
    except (KeyError, TypeError, ValueError):
        return ()
    return (NodeGpus("a1", count, KEY),) if count > 0 else ()


def trusts_input(node: Object) -> tuple[NodeGpus, ...]:
    """Fails on what nobody should write."""
    count = node.get("status", {}).get("allocatable", {}).get(KEY)
    return (NodeGpus("a1", int(count), KEY),) if count and int(count) else ()


@pytest.mark.parametrize(
    ("recognise", "message"),
    [
        (lambda _: (), "finds no GPU"),
        (lambda node: list(good(node)), "returned list, not a tuple"),
        (changes_the_node, "changed the Node"),
        (sees_everything, "allocatable 0 means no usable GPU"),
        (shouts, "no lower-case label value"),
        (foreign_key, "other.com/gpu is not declared"),
        (believes_capacity, "allocatable 0 means no usable GPU"),
        (trusts_input, "recognise raised"),
    ],
)
def test_a_bad_vendor_fails_with_what_is_wrong(
    recognise: Callable[[Object], tuple[NodeGpus, ...]], message: str
) -> None:
    """An author learns from the kit what a cluster would teach later."""
    with pytest.raises(AssertionError, match=message):
        testing.assert_vendor_contract(vendor(recognise), [NODE])
