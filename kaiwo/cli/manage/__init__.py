"""The full-screen view of ``kaiwo manage``.

`rows` and `layout` are pure; `source` reads the cluster; the other modules draw with textual, which only
``kaiwo manage`` imports.
"""
