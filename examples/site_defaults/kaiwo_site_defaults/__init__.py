"""What one site adds to its workloads: a complete Kaiwo plugin whose code follows its settings."""
