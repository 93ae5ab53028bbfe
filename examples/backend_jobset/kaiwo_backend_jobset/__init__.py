"""A Kaiwo plugin of a third party: KaiwoJobs as JobSets."""
