"""The volumes of a workload: which there are, their claims, and what the claims mean."""
