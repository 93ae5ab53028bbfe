"""The command `kaiwo demo`: workloads on a control plane of its own, with fake GPU nodes."""

from kaiwo_sandbox.demo.command import demo

__all__ = ["demo"]
