"""GPU monitoring in the operator: reads the metrics endpoint, and hands results to reconciliation."""
