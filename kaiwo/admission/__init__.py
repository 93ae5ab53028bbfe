"""Admission webhooks: what is refused, warned about and changed when objects are written."""
