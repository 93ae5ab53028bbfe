"""The guided first run: a control plane, an operator, some workloads, one story."""

from kaiwo.cli.demo.command import demo

__all__ = ["demo"]
