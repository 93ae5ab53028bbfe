"""What is known of nodes, as the client returns it and ``kaiwo nodes -o json`` prints it."""

from __future__ import annotations

from kaiwo.client.record import Record


class NodeGpuUse(Record, frozen=True, kw_only=True):
    """GPUs of one kind on a node.

    Attributes:
        vendor: for example ``amd``.
        model: the model's short name (``mi300x``).
        resource: resource key that pods request.
        allocatable: GPUs that pods may use.
        unhealthy: further GPUs of the node, which its device plugin lets no pod use.
        used: GPUs that pods on the node request.
        free: GPUs that a new pod could get: 0 on a node that is cordoned or not ready.
    """

    vendor: str
    model: str
    resource: str
    allocatable: int
    unhealthy: int
    used: int
    free: int


class NodeAmount(Record, frozen=True, kw_only=True):
    """CPU or memory of a node. Amounts are Kubernetes quantities.

    Attributes:
        resource: ``cpu`` or ``memory``.
        allocatable: what pods may use.
        used: what pods on the node request.
    """

    resource: str
    allocatable: str
    used: str


class NodeUser(Record, frozen=True, kw_only=True):
    """A workload that uses GPUs of a node.

    Attributes:
        kind: ``KaiwoJob``, ``KaiwoService``; of other pods that of their controller, else ``Pod``.
        namespace: its namespace.
        name: its name.
        user: by the label on its pods; empty where there is none.
        resource: resource key.
        gpus: how many it requests there.
        pods: its pods on the node that request GPUs.
    """

    kind: str
    namespace: str
    name: str
    user: str
    resource: str
    gpus: int
    pods: int


class NodeRecord(Record, frozen=True, kw_only=True):
    """One node.

    Attributes:
        name: its name.
        pool: name of its pool; empty for a node in none.
        flavors: the queue system's flavors whose labels it has; empty where they are not known.
        state: ``Ready``, ``NotReady`` or ``Cordoned``.
        reason: why it is not ready, in the kubelet's words; empty when it is.
        taints: ``key=value:effect``, without the one that says that it is cordoned.
        gpus: by vendor, model and resource key; empty for a node without.
        used_by: who uses GPUs of it, the largest share first.
        amounts: CPU and memory.
    """

    name: str
    pool: str
    flavors: tuple[str, ...]
    state: str
    reason: str
    taints: tuple[str, ...]
    gpus: tuple[NodeGpuUse, ...]
    used_by: tuple[NodeUser, ...]
    amounts: tuple[NodeAmount, ...]


class GpuTotal(Record, frozen=True, kw_only=True):
    """The GPUs of one model in all nodes that are shown.

    Attributes:
        vendor: for example ``amd``.
        model: the model's short name.
        resource: resource key.
        nodes: nodes that have some.
        allocatable: GPUs that pods may use.
        used: GPUs that pods request.
        free: GPUs that new pods could get.
        unavailable: unused GPUs on nodes that are cordoned or not ready, and unhealthy ones.
    """

    vendor: str
    model: str
    resource: str
    nodes: int
    allocatable: int
    used: int
    free: int
    unavailable: int


class ExpectedNodes(Record, frozen=True, kw_only=True):
    """Nodes that an autoscaler can bring, as ``nodes.expectedGpus`` of KaiwoConfig lists them.

    Attributes:
        vendor: for example ``amd``.
        model: the model's short name, empty for any.
        nodes: how many at most.
        gpus_per_node: GPUs of each.
    """

    vendor: str
    model: str
    nodes: int
    gpus_per_node: int


class NodeList(Record, frozen=True, kw_only=True):
    """Nodes, totals and expectations.

    Attributes:
        items: the nodes, by vendor, pool and name.
        totals: by vendor, model and resource key.
        expected: nodes that may come.
        unseen: what may not be read, or a plugin could not tell, one sentence each.
    """

    items: tuple[NodeRecord, ...]
    totals: tuple[GpuTotal, ...]
    expected: tuple[ExpectedNodes, ...]
    unseen: tuple[str, ...]
