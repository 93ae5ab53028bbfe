"""Which addresses messages may go to: the policy of :mod:`kaiwo.plugin.kit.addresses`."""

from __future__ import annotations

from kaiwo.plugin.kit.addresses import blocked_reason, parse_address

_SETTING = "spec.plugins.notify.allowPrivateEndpoints"


class BlockedAddress(Exception):
    """A message must not go to an address."""


def check_address(text: str, *, private: bool, loopback: bool = False) -> None:
    """Check an address before something is connected to it.

    Args:
        text: the address.
        private: whether private addresses are allowed.
        loopback: whether the administrator wrote a loopback address.

    Raises:
        BlockedAddress: messages must not go there.
        ValueError: the text is a name.
    """
    address = parse_address(text)
    if address is None:
        raise ValueError(f"{text} is a name")
    reason = blocked_reason(address, private=private, loopback=loopback, setting=_SETTING)
    if reason is not None:
        raise BlockedAddress(f"{text} {reason}")
