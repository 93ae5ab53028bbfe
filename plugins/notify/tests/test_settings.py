"""What an administrator writes into spec.plugins.notify."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from kaiwo import testing
from kaiwo_notify import plugin

if TYPE_CHECKING:
    from collections.abc import Callable

SLACK = {"name": "chat", "type": "slack", "urlFile": "url"}
MAIL = {"host": "mail.example.org", "sender": "kaiwo@example.org", "recipients": ["ops@example.org"]}


@pytest.mark.parametrize(
    ("sink", "words"),
    [
        ({**SLACK, "url": "https://example.org"}, "either url or urlFile"),
        ({"name": "chat", "type": "slack"}, "either url or urlFile"),
        ({**SLACK, "urlFile": "../token"}, "urlFile"),
        ({**SLACK, "urlFile": ".."}, "urlFile"),
        ({**SLACK, "urlFile": "/var/run/secrets/kubernetes.io/serviceaccount/token"}, "urlFile"),
        ({"name": "chat", "type": "slack", "url": "https://user:pass@example.org"}, "credentials"),
        ({"name": "chat", "type": "slack", "url": "file:///etc/passwd"}, "url"),
        ({"name": "mail", "type": "email"}, "type email takes email"),
        ({"name": "mail", "type": "email", "email": {**MAIL, "recipients": ["a@b\nBcc: c@d"]}}, "recipients"),
        ({"name": "mail", "type": "email", "email": {**MAIL, "host": "mail example"}}, "host"),
        ({"name": "mail", "type": "email", "email": {**MAIL, "username": "kaiwo"}}, "passwordFile"),
        (
            {
                "name": "mail", "type": "email",
                "email": {**MAIL, "username": "k", "passwordFile": "p", "encryption": "none"},
            },
            "a password needs encryption",
        ),
        ({**SLACK, "rules": {"statuses": ["BROKEN"]}}, "statuses"),
        ({**SLACK, "password": "hunter2"}, "password"),
    ],
)  # fmt: skip
def test_mistakes_are_refused(parsed: Callable[..., Any], sink: dict[str, Any], words: str) -> None:
    """No setting reaches another file than those of the plugin's Secret, and no password goes unencrypted."""
    with pytest.raises(ValidationError, match=words):
        parsed(sink)


def test_sinks_have_names_of_their_own(parsed: Callable[..., Any]) -> None:
    """Their messages are counted and logged by name."""
    with pytest.raises(ValidationError, match="two sinks have the name chat"):
        parsed(SLACK, SLACK)


def test_by_default_what_went_wrong_is_reported(parsed: Callable[..., Any]) -> None:
    """And no private address is reached."""
    settings = parsed(SLACK, allowPrivateEndpoints=None, allowHttp=None)
    assert settings.sinks[0].rules.statuses == ("FAILED", "ERROR", "TERMINATING", "TERMINATED")
    assert not settings.allow_private_endpoints
    assert not settings.allow_http


def test_listener_and_lifecycle_keep_the_contract() -> None:
    """Called as the operator does; without a sink nothing is sent and no task is left behind."""
    loaded = testing.plugins(plugin)
    (listener,), (lifecycle,) = loaded.listeners, loaded.lifecycles
    testing.assert_listener_contract(listener, [testing.transition(), testing.transition("COMPLETE")])
    testing.assert_lifecycle_contract(lifecycle)
