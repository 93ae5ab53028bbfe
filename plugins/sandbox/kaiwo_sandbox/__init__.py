"""A real control plane on one machine: etcd, the Kubernetes programs, and nodes that only pretend to exist."""
