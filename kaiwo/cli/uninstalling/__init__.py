"""Removing an installation: what there is to remove, and its removal in order."""
