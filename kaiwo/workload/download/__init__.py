"""The step before a workload: what it wants downloaded, the Job that does it, and what that means."""
