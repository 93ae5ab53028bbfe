"""What the sandbox builds: the binary sets, and their wrapper modules with exact versions and checksums."""
