"""Kaiwo: run AI workloads on GPU clusters from one short description."""
