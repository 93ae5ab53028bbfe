"""Wrapper modules: the exact module versions (go.mod) and checksums (go.sum) that each set is built from."""
