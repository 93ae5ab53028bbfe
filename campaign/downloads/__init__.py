"""Servers that misbehave towards the download program, and what has to hold then."""
