"""Namespace defaults: what workloads of a namespace get where their own fields say nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kaiwo.engine.resource import Object, Resource
    from kaiwo.plugin.rbac import PolicyRule
    from kaiwo.plugin.sources import SecretReference

DEFAULT_NAME: Final = "default"
"""Name of the object that counts where a namespace has several of a kind of defaults."""

_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class SecretVariable:
    """An environment variable whose value is in a Secret of the namespace.

    Attributes:
        name: name of the variable.
        secret: name of the Secret.
        key: key in it.
        section: only workloads with a volume of this section of ``spec.storage`` get it, in their download
            pods too; empty for all workloads.
        replaced_by: other variables by which a user says the same; the variable is left out where the
            container has one of them.
    """

    name: str
    secret: str
    key: str
    section: Literal["", "data", "huggingFace"] = ""
    replaced_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ItemCredentials:
    """Credentials for items of a download source that give none.

    Attributes:
        path: the source's list below ``spec.storage``: ``("data", "download", "s3")``.
        secrets: fields of an item to the values in Secrets that they get. Fields that the source does not
            name as `credentials` make the entry unused.
        urls: fields of an item that must name the same server as these URLs; without any, every item counts.
    """

    path: tuple[str, ...]
    secrets: Mapping[str, SecretReference]
    urls: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DefaultsProblem:
    """Why a part of the defaults cannot be used.

    Workloads that it concerns wait until it is corrected: without their credentials they would fail for good.

    Attributes:
        message: which object and field, what is wrong and what to do, in one line.
        path: below ``spec.storage``, what a workload must have to be concerned: ``("huggingFace",)``, or the
            list of a source, of which an item gives no credentials. Empty for all workloads.
    """

    message: str
    path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DefaultValues:
    """What the workloads of a namespace get. Values of Secrets are only referred to, never read.

    Attributes:
        variables: environment variables; the first of a name counts.
        image_pull_secrets: names of Secrets that are added to those of all generated pods.
        credentials: for items of download sources; the first that fits counts.
        problems: what of the defaults cannot be used.
    """

    variables: tuple[SecretVariable, ...] = ()
    image_pull_secrets: tuple[str, ...] = ()
    credentials: tuple[ItemCredentials, ...] = ()
    problems: tuple[DefaultsProblem, ...] = ()


NO_DEFAULTS: Final = DefaultValues()


@dataclass(frozen=True, slots=True)
class NamespaceDefaults:
    """A kind of objects that have defaults for their namespace.

    Of several objects in a namespace one counts, see :func:`precedence`.

    Attributes:
        name: short name, for messages.
        kind: a kind with namespaces; the operator watches it.
        read: pure function from the object that counts to the defaults. It gets whatever the API server has,
            and describes what it cannot use in `problems`.
        rules: what it needs of the cluster: to get, list and watch the kind.
    """

    name: str
    kind: Resource
    read: Callable[[Object], DefaultValues]
    rules: tuple[PolicyRule, ...] = ()


def precedence(name: str, created: str) -> tuple[bool, str, str]:
    """The key by which the object that counts is the smallest: the one named ``default``, else the oldest.

    Args:
        name: of the object.
        created: its creationTimestamp, as the API server writes it.
    """
    return (name != DEFAULT_NAME, created, name)


def same_server(one: object, other: str) -> bool:
    """Whether two URLs name the same server.

    Scheme and host count without case, the usual port of the scheme and slashes at the end of the path not at
    all. What is no URL is the same as nothing.
    """
    wanted = _server(other)
    return wanted is not None and isinstance(one, str) and _server(one) == wanted


def _server(url: str) -> tuple[str, str, int | None, str] | None:
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError:
        return None
    if not parts.hostname or parts.scheme not in _PORTS or parts.query or parts.fragment:
        return None
    host = parts.hostname.rstrip(".")
    return parts.scheme, host, port or _PORTS[parts.scheme], parts.path.rstrip("/")
