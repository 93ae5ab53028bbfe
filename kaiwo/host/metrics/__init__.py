"""Prometheus metrics about workloads, GPUs, plugins and the process."""
