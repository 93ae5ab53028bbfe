"""Draws the picture of the dashboard: a real run, recorded by a real Prometheus."""
