"""Intel Gaudi accelerators for Kaiwo."""
