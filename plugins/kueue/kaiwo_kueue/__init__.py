"""Queueing of workloads with Kueue."""
