"""Checks of a cluster and an installation, each with the fix for what fails.

Each module reads one subject and judges it with pure functions; `run` calls them all at once.
"""
