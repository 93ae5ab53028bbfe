"""GPU monitoring without I/O: what samples say about a workload, and what its status says of it."""
