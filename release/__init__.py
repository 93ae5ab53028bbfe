"""Commands that make a release: its version, its locked requirements, and the files to publish."""
