"""A TLS handshake in memory, without sockets."""

from __future__ import annotations

import ssl

from kaiwo.testing.assertions import require

_ROUNDS = 10
"""Each round carries what both sides have written to the other one; a handshake takes a few."""


def shake_hands(client: ssl.SSLContext, server: ssl.SSLContext, host: str) -> None:
    """Carry out both sides of a handshake.

    Args:
        client: its settings.
        server: those of the server, with its certificate.
        host: name of the server, as the client calls it.

    Raises:
        ssl.SSLError: one side refuses the other.
        AssertionError: it does not end.
    """
    to_client, from_client, to_server, from_server = (ssl.MemoryBIO() for _ in range(4))
    sides = [
        client.wrap_bio(to_client, from_client, server_hostname=host),
        server.wrap_bio(to_server, from_server, server_side=True),
    ]
    done = set()
    for _ in range(_ROUNDS):
        for side in sides:
            try:
                side.do_handshake()
                done.add(side)
            except ssl.SSLWantReadError:
                pass
            to_server.write(from_client.read())
            to_client.write(from_server.read())
    require(len(done) == len(sides), "the handshake does not end")
