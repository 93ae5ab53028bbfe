"""The plugin contract: hook specifications, the declarations they return, and the loader."""
