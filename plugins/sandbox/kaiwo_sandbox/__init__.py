"""A Kubernetes control plane on this machine: etcd, the Kubernetes programs, and fake nodes."""
