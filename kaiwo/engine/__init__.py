"""Kubernetes machinery that knows nothing of Kaiwo.

Reading goes one way (list and watch into the cache) and writing goes one way (apply);
everything between is a keyed, level-triggered work queue.
"""
