"""A Ray job: one task on each node of the cluster, which print where they ran."""

import socket
import sys

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy


@ray.remote(num_cpus=0)
def host() -> str:
    """The name of the pod."""
    return socket.gethostname()


ray.init()
nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
places = [NodeAffinitySchedulingStrategy(node, soft=False) for node in nodes]
tasks = [host.options(scheduling_strategy=place).remote() for place in places]
sys.stdout.write(f"hosts: {' '.join(sorted(ray.get(tasks)))}\n")
