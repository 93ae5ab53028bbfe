"""The program of pause containers, assembled here: it waits, and ends on SIGTERM.

It is a static program for x86-64 Linux. It ignores SIGCHLD with SA_NOCLDWAIT, so that the kernel collects the
ended processes of a pod that shares its process namespace.
"""

from __future__ import annotations

import struct

_BASE, _HEADERS = 0x400000, 120
_SIGINT, _SIGTERM, _SIGCHLD = 2, 15, 17
_SA_NOCLDWAIT, _SA_RESTORER = 0x2, 0x04000000
_SIG_IGN = 1


def _sigaction(number: int, address: int) -> bytes:
    """Machine code of rt_sigaction(number, address, NULL, 8)."""
    load = b"\xb8\x0d\0\0\0\xbf" + struct.pack("<I", number) + b"\x48\xbe" + struct.pack("<Q", address)
    return load + b"\x31\xd2\x41\xba\x08\0\0\0\x0f\x05"


def _code(actions: int) -> tuple[bytes, int]:
    """The machine code, and the offset of its exit; `actions` is the address of the two signal actions."""
    code = _sigaction(_SIGCHLD, actions)
    code += _sigaction(_SIGINT, actions + 32) + _sigaction(_SIGTERM, actions + 32)
    code += b"\xb8\x22\0\0\0\x0f\x05\xeb\xf7"  # pause(), again and again
    return code + b"\xb8\x3c\0\0\0\x31\xff\x0f\x05", len(code)  # exit(0)


def program() -> bytes:
    """The ELF file."""
    length = len(_code(0)[0])
    actions = (_BASE + _HEADERS + length + 7) & ~7
    code, exit_offset = _code(actions)
    exit_address = _BASE + _HEADERS + exit_offset
    body = code.ljust(actions - _BASE - _HEADERS, b"\0")
    body += struct.pack("<QQQQ", _SIG_IGN, _SA_NOCLDWAIT, 0, 0)
    body += struct.pack("<QQQQ", exit_address, _SA_RESTORER, exit_address, 0)
    size = _HEADERS + len(body)
    identity = b"\x7fELF\x02\x01\x01" + b"\0" * 9
    header = struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, _BASE + _HEADERS, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, _BASE, _BASE, size, size, 0x1000)
    return identity + header + segment + body
