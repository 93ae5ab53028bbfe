"""The reconcilers of workloads: from the cache to a plan, and from a plan to writes."""
