"""The conformance suite of ``kaiwo plugin test``: what the host relies on in any installed plugin."""
