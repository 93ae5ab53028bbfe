"""Settings of the plugin, ``spec.plugins.notify`` in KaiwoConfig."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, StringConstraints, model_validator

from kaiwo.plugin.kit.fields import Model, Url

_NAME = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_ADDRESS = r"^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9.-]+$"

Status: TypeAlias = Literal[
    "PENDING", "STARTING", "RUNNING", "READY", "COMPLETE", "FAILED", "ERROR", "TERMINATING", "TERMINATED"
]

SecretFile: TypeAlias = Annotated[
    str, StringConstraints(min_length=1, max_length=253, pattern=r"^[A-Za-z0-9][-._A-Za-z0-9]*$")
]
"""Name of a file in the folder of the plugin's secrets, a key of the Secret that is mounted."""

Address: TypeAlias = Annotated[str, StringConstraints(max_length=254, pattern=_ADDRESS)]
"""An e-mail address, without a display name."""

_Words: TypeAlias = Annotated[
    tuple[Annotated[str, StringConstraints(min_length=1, max_length=253)], ...],
    Field(strict=False, max_length=64),
]


class Rules(Model):
    """Which transitions are reported. All that are given must fit; an empty list fits everything."""

    statuses: Annotated[
        tuple[Status, ...],
        Field(strict=False, max_length=16, description="New statuses that are reported."),
    ] = ("FAILED", "ERROR", "TERMINATING", "TERMINATED")
    users: Annotated[_Words, Field(description="Users whose workloads are reported; empty for all.")] = ()
    namespaces: Annotated[_Words, Field(description="Their namespaces; empty for all.")] = ()
    reasons: Annotated[_Words, Field(description="Reasons that are reported; empty for all.")] = ()


class Email(Model):
    """A mail server, and who gets the mails."""

    host: Annotated[
        str,
        StringConstraints(max_length=253, pattern=r"^[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?$"),
        Field(description="Name or IPv4 address of the mail server."),
    ]
    port: Annotated[int, Field(ge=1, le=65535, description="Its port.")] = 587
    encryption: Annotated[
        Literal["starttls", "tls", "none"],
        Field(description="starttls and tls check the server's certificate; none only without a password."),
    ] = "starttls"
    username: Annotated[str, Field(max_length=254, description="Name to log in with; empty for none.")] = ""
    password_file: Annotated[
        SecretFile | None, Field(description="File with its password, in the folder of secrets.")
    ] = None
    sender: Annotated[Address, Field(description="Address in From.")]
    recipients: Annotated[
        tuple[Address, ...],
        Field(strict=False, min_length=1, max_length=32, description="Addresses in To."),
    ]

    @model_validator(mode="after")
    def _password_is_protected(self) -> Email:
        if bool(self.username) != bool(self.password_file):
            raise ValueError("give username and passwordFile together, or neither")
        if self.password_file and self.encryption == "none":
            raise ValueError("a password needs encryption: starttls or tls")
        return self


class Sink(Model):
    """One place that messages go to."""

    name: Annotated[
        str, StringConstraints(max_length=63, pattern=_NAME), Field(description="Unique; it is in the log.")
    ]
    type: Annotated[
        Literal["slack", "cloudevents", "email"],
        Field(
            description="slack for webhooks that take Slack's messages; cloudevents for HTTP; email for SMTP."
        ),
    ]
    url: Annotated[Url | None, Field(description="Where slack and cloudevents send to.")] = None
    url_file: Annotated[
        SecretFile | None,
        Field(description="File with the URL, where the URL is a secret, in the folder of secrets."),
    ] = None
    token_file: Annotated[
        SecretFile | None, Field(description="File with a bearer token, in the folder of secrets.")
    ] = None
    email: Annotated[Email | None, Field(description="Server and addresses, of type email.")] = None
    rules: Annotated[Rules, Field(description="Which transitions are reported.")] = Rules()
    per_hour: Annotated[
        int,
        Field(
            ge=1,
            le=10_000,
            description="Messages within an hour at most; the next one counts those left out.",
        ),
    ] = 60

    @model_validator(mode="after")
    def _has_one_target(self) -> Sink:
        if self.type == "email":
            if self.email is None or self.url or self.url_file or self.token_file:
                raise ValueError("type email takes email, and neither url, urlFile nor tokenFile")
        elif self.email is not None or (self.url is None) == (self.url_file is None):
            raise ValueError(f"type {self.type} takes either url or urlFile, and no email")
        return self


class NotifySettings(Model):
    """Who is told of status changes."""

    sinks: Annotated[
        tuple[Sink, ...], Field(strict=False, max_length=16, description="Places that messages go to.")
    ] = ()
    allow_private_endpoints: Annotated[
        bool,
        Field(
            description="Let messages go to private addresses (RFC 1918), as services in the cluster have. "
            "Link-local and metadata addresses are never reached."
        ),
    ] = False
    allow_http: Annotated[bool, Field(description="Let messages go to http URLs, without encryption.")] = (
        False
    )

    @model_validator(mode="after")
    def _names_are_unique(self) -> NotifySettings:
        names = [sink.name for sink in self.sinks]
        double = sorted({name for name in names if names.count(name) > 1})
        if double:
            raise ValueError(f"two sinks have the name {double[0]}; give each its own")
        return self
