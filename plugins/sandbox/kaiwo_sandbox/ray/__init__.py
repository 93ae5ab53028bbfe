"""A simulator of Ray heads: the part of the dashboard's HTTP API that KubeRay uses. Nothing is computed.

KubeRay asks the dashboard of a head for the status of jobs and applications. Fake nodes run no head, so this
program answers instead, as annotations specify (see `annotations`). It is KubeRay's HTTP proxy. The host of
each request is the Service or the pod of a head, so one program without further addresses simulates all
heads. Requests for a head on the real node of the sandbox are forwarded to it.
"""
