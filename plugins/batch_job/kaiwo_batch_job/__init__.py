"""KaiwoJobs as a batch/v1 Job."""
