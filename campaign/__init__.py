"""Faults by the hundred, on a real control plane, and checks that nothing was lost: ``python -m campaign``.

A set is a kind of fault (``sets/``), a case one fault that strikes one workload, an oracle (`oracles`) a
statement that holds after every case. README.md lists all of them.
"""
