"""Workloads read from files and standard input, with every problem at its line and column."""
