"""What commands print: tables, JSON, YAML and the detail view of one workload."""
