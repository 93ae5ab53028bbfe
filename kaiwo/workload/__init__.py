"""The pure core: from a workload and facts about the cluster to the objects and the status it should have."""
