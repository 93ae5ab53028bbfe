"""Kinds that the plugin reads and writes."""

from kaiwo.plugin.kit.kinds import Resource

NAMESPACE_CONFIG = Resource(
    "config.kaiwo.silogen.ai", "v1alpha1", "AIMNamespaceConfig", "aimnamespaceconfigs"
)
HTTP_ROUTE = Resource("gateway.networking.k8s.io", "v1", "HTTPRoute", "httproutes")
