"""Plans of one workload: what to create, change, delete and report in each situation."""
