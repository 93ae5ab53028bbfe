"""Runs download pods on this machine, because the fake nodes run no containers."""
