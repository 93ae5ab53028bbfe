"""The address policy that downloads and notifications have in common."""

from __future__ import annotations

import pytest

from kaiwo.plugin.kit.addresses import blocked_reason, is_loopback_host, parse_address

PUBLIC = ("8.8.8.8", "2001:4860:4860::8888")
PRIVATE = (
    "10.1.2.3", "172.16.0.1", "192.168.1.1", "100.64.0.1", "fd00::1", "::ffff:10.0.0.1", "192.0.2.1",
)  # fmt: skip
NEVER = (
    "169.254.169.254", "169.254.1.1", "168.63.129.16", "100.100.100.200", "fd00:ec2::254", "fe80::1",
    "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "0.0.0.0", "::", "224.0.0.1", "ff02::1",
)  # fmt: skip
LOOPBACK = ("127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1", "2002:7f00:1::")


def blocked(text: str, *, private: bool, loopback: bool = False) -> str | None:
    """The reason for an address."""
    address = parse_address(text)
    assert address is not None
    return blocked_reason(address, private=private, loopback=loopback, setting="spec.allowPrivate")


@pytest.mark.parametrize("text", PUBLIC)
def test_public_addresses_are_allowed(text: str) -> None:
    """With and without private ones."""
    assert blocked(text, private=False) is None
    assert blocked(text, private=True) is None


@pytest.mark.parametrize("text", PRIVATE)
def test_private_addresses_depend_on_the_setting_that_is_named(text: str) -> None:
    """Also where an IPv6 address embeds one."""
    assert blocked(text, private=True) is None
    assert "spec.allowPrivate is false" in (blocked(text, private=False) or "")


@pytest.mark.parametrize("text", NEVER)
def test_metadata_and_what_is_no_host_are_always_blocked(text: str) -> None:
    """Whatever the settings say."""
    assert blocked(text, private=True, loopback=True)


@pytest.mark.parametrize("text", LOOPBACK)
def test_loopback_must_be_written_as_such(text: str) -> None:
    """A name that resolves to it is an attempt to reach something else."""
    assert is_loopback_host(text)
    assert blocked(text, private=True, loopback=True) is None
    assert blocked(text, private=True)
    assert blocked(text, private=False, loopback=True)
