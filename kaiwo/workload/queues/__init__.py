"""What follows from the use of queues: who is ahead and why, who holds the quota, when a workload starts."""
