"""What scripts, notebooks and the command line use: submit, wait, logs, exec, why, queue, report."""
