"""The download program: everything that runs inside the download container, nothing the operator loads."""

import os

# The models have no use for plugins of pydantic, and the search reads the metadata of every package.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
