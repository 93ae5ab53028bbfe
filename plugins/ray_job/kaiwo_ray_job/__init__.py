"""KaiwoJobs that run as a RayJob."""
