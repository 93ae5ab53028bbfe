"""The commands of ``kaiwo``, one module per command."""
