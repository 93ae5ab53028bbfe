"""KaiwoServices that run as a Deployment."""
