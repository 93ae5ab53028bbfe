"""The real node of a sandbox: kubelet, containerd and kube-proxy on this machine, in namespaces of their own.

Its processes have their own process, mount and network namespaces. One process is the init process of these
namespaces. When it ends, the kernel ends the others and removes their mounts, links, addresses, rules and
network sysctls. So nothing of it can remain on the machine, whatever crashes. The sandbox removes its cgroup.
"""
