"""Benchmarks: what the operator costs, always beside a floor that was taken in the same run."""
