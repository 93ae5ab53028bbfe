"""A Grafana dashboard, alert rules, and objects of the Prometheus operator, from the metric definitions."""
