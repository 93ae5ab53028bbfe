"""The state of live children, read from their pods and their queue."""
