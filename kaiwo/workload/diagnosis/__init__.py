"""Why a workload is where it is: rules from what a cluster holds to one verdict and the chain behind it."""
