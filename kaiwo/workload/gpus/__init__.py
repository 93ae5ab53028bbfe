"""GPUs: which nodes have them, and how a workload's GPUs are split over pods."""
