"""A real control plane on one machine: etcd, the Kubernetes programs, and fake nodes."""
