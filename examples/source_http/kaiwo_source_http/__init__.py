"""Downloads from web servers for Kaiwo."""
