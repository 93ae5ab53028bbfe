"""Node labels, node pools and the taint of GPU nodes."""
