"""Images that a node cannot get: the kubelet's reasons, and the cause in its text."""

from __future__ import annotations

from kaiwo.plugin.observation import Finding

PULLING = ("ImagePullBackOff", "ErrImagePull", "RegistryUnavailable", "SignatureValidationFailed")
"""Reasons that alternate while a kubelet tries again and again, that of the time in between first."""

IMAGE_PROBLEMS = (*PULLING, "InvalidImageName", "ErrImageNeverPull", "ImageInspectError")
"""Reasons of a kubelet for an image that it does not have."""

_IMAGE = ": image "
_FAILS = " cannot be pulled"

_UNREACHED = "; the node does not reach the registry"

_CAUSES = (
    ("no match for platform", "; it is not built for the node's architecture"),
    ("for architecture", "; it is not built for the node's architecture"),
    ("no matching manifest", "; it is not built for the node's architecture"),
    ("toomanyrequests", "; the registry allows no more pulls for now"),
    ("too many requests", "; the registry allows no more pulls for now"),
    ("executable file not found", "; the node lacks the program for the registry's credentials"),
    ("no such host", "; the name of the registry is unknown to the node"),
    ("x509:", "; the node does not trust the registry's certificate"),
    ("server gave http response", "; the registry serves HTTP, and the node expects HTTPS"),
    ("no space left on device", "; the node's disk is full"),
    ("i/o timeout", _UNREACHED),
    ("handshake timeout", _UNREACHED),
    ("connection refused", _UNREACHED),
    ("no route to host", _UNREACHED),
    ("network is unreachable", _UNREACHED),
    ("server misbehaving", _UNREACHED),
    ("connection reset", "; the connection to the registry broke off"),
    ("unexpected eof", "; the connection to the registry broke off"),
    ("with pull policy of never", "; the node does not have it, and its imagePullPolicy is Never"),
    ("must be lowercase", "; its name has upper case letters"),
    ("couldn't parse image name", "; no image can have this name"),
    ("not found", "; it does not exist there"),
    ("manifest unknown", "; it does not exist there"),
    ("denied", "; access was denied"),
    ("unauthorized", "; access was denied"),
    ("forbidden", "; access was denied"),
    ("no basic auth credentials", "; access was denied"),
    ("authentication required", "; access was denied"),
)
"""What kubelets, container runtimes and registries write, in lower case, to the cause; the first that occurs
in a text."""


def pull_problem(what: str, reason: str, image: object, said: object) -> Finding:
    """A container whose image is not there.

    The kubelet's own text changes with every try; which image, and why, is what one needs to know.

    Args:
        what: the container and its pod.
        reason: the kubelet's reason.
        image: the image as the container's status has it.
        said: the kubelet's text.
    """
    text = str(said or "").lower()
    why = next((cause for sign, cause in _CAUSES if sign in text), "")
    return Finding(reason, f"{what}: {reason}{_IMAGE}{image!r}{_FAILS}{why}")


def stable_pull(found: Finding, recorded: Finding) -> Finding:
    """A finding of :func:`pull_problem` as the status already has it, so that a further try is no new state.

    Once the kubelet has waited between two tries, what was reported then stays. The cause that the try before
    had stays, too: kubelets before Kubernetes 1.31 write it for the try alone.

    Args:
        found: of a pod.
        recorded: reason and message of the status.
    """
    what, _, _ = found.message.partition(f"{found.reason}{_IMAGE}")
    places = (recorded.message.find(f"{what}{known}{_IMAGE}") for known in PULLING)
    kept = next((recorded.message[at:] for at in places if at >= 0), "")
    if recorded.reason == PULLING[0]:
        return Finding(PULLING[0], kept or found.message.replace(found.reason, PULLING[0], 1))
    if kept and found.message.endswith(_FAILS):
        return Finding(found.reason, found.message + kept.partition(_FAILS)[2])
    return found
