"""Ends workloads early: the record of a decision, who is chosen, and how a decision is carried out."""
