"""The download program: everything that runs inside the download container, nothing the operator loads."""
