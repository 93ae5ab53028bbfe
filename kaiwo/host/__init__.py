"""The operator process: settings, the workload controllers, KaiwoConfig, probes, and the kopf shell."""
