"""Tracks the use of GPUs of any workload, and takes idle ones back."""
