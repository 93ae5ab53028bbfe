"""Images for the real node, made of files of this machine and served by a registry of the sandbox."""
