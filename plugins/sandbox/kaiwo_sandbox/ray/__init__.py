"""A stand-in for Ray heads: enough of the dashboard's HTTP API for KubeRay to see jobs and applications.

Nothing is computed. KubeRay asks a head's dashboard how a job or an application does; on fake nodes there is
no head, and this program answers in its place, as annotations say (see `behaviour`). KubeRay is given it as
its HTTP proxy: the host in each request is the head's Service or pod, so that one program plays all heads,
without an address of its own for each.
"""
