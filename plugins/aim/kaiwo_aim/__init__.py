"""AIMNamespaceConfig: credentials, pull secrets and routes for the workloads of a namespace."""
