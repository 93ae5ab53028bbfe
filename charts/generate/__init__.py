"""Generates the Helm chart from what ``kaiwo manifests`` renders, so that both install the same."""
