"""Decides in the operator which workloads end early, and records it."""
