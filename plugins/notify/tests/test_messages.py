"""Texts of users are texts in every form of a message."""

from __future__ import annotations

import email.policy
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaiwo_notify import messages
from kaiwo_notify.rules import RateLimit, is_reported
from kaiwo_notify.settings import Email, Rules

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo.plugin.lifecycle import Transition

HOSTILE = (
    "<!channel> <@U123> @here [click](https://evil.example) <https://evil.example|safe> "
    "*bold* `code` &amp;\r\n"
    "Bcc: everybody@example.org\r\n\r\n\u202eevil\x00\x1b[31m"
)
TO = Email(host="mail.example.org", sender="kaiwo@example.org", recipients=("ops@example.org",))


@pytest.fixture
def hostile(transition: Callable[..., Transition]) -> Transition:
    """Whatever a user can write."""
    return transition(message=HOSTILE, user=HOSTILE, reason=HOSTILE)


def test_slack_finds_no_markup(hostile: Transition) -> None:
    """No mention, no link with another text, no formatting; the words can be read."""
    text = messages.slack(hostile)["text"]
    for mark in ("<", ">", "@here", "@U", "[click]", "https://", "`code`", "*bold*"):
        assert mark not in text
    assert "&lt;!channel&gt;" in text
    assert "KaiwoJob team/train: FAILED" in text
    assert text.count("\n") == 3


def test_blocks_of_slack_have_no_markup_to_read(hostile: Transition) -> None:
    """They are plain text, in which entities would be shown."""
    (block,) = messages.slack(hostile)["blocks"]
    assert block["text"]["type"] == "plain_text"
    assert "<!channel>" in block["text"]["text"]
    assert "&amp;\u200b" not in block["text"]["text"]


def test_a_mail_has_no_header_of_a_users(hostile: Transition) -> None:
    """Line ends in a text end no header."""
    raw = messages.mail(hostile, TO).as_bytes(policy=email.policy.SMTP)
    read = email.message_from_bytes(raw, policy=email.policy.default)
    assert read["Bcc"] is None
    assert read["To"] == "ops@example.org"
    assert read["Subject"] == "[kaiwo] KaiwoJob team/train: FAILED"
    body = read.get_content()
    assert "\x00" not in body
    assert "\x1b" not in body


def test_names_that_no_api_server_would_take_break_no_header(transition: Callable[..., Transition]) -> None:
    """The check does not stand on that of the API server."""
    odd = transition(name="a\r\nBcc: x@example.org", namespace="b\nc", after="FAILED\nX: y")
    message = messages.mail(odd, TO)
    assert message["Bcc"] is None
    assert "\n" not in message["Subject"]
    assert message["Message-ID"].count("\n") == 0


def test_a_cloud_event_is_one(hostile: Transition) -> None:
    """With the required attributes, and the same id in each try."""
    event = messages.cloud_event(hostile, 3)
    assert {"specversion", "id", "source", "type"} <= set(event)
    assert event["id"] == messages.cloud_event(hostile)["id"]
    assert event["data"]["leftOut"] == 3
    assert json.loads(messages.encoded(event)) == event
    assert "\n" not in event["data"]["message"]


def test_long_texts_are_cut(transition: Callable[..., Transition]) -> None:
    """A message of a megabyte is no message."""
    long = transition(message="x" * 1_000_000, user="y" * 10_000)
    assert len(messages.encoded(messages.slack(long))) < 10_000
    assert len(messages.encoded(messages.cloud_event(long))) < 20_000
    assert len(messages.mail(long, TO).as_bytes()) < 10_000


@pytest.mark.parametrize(
    ("rules", "reported"),
    [
        ({}, True),
        ({"statuses": ["COMPLETE"]}, False),
        ({"statuses": []}, True),
        ({"users": ["ada"]}, True),
        ({"users": ["bob"]}, False),
        ({"users": ["ada"], "namespaces": ["other"]}, False),
        ({"reasons": ["OOMKilled"], "namespaces": ["team"]}, True),
    ],
)
def test_rules_say_what_is_reported(
    transition: Callable[..., Transition], rules: dict[str, Any], *, reported: bool
) -> None:
    """All rules that are given must fit."""
    assert is_reported(Rules.parse(rules), transition()) is reported


def test_the_rate_is_that_of_the_last_hour() -> None:
    """What is left out is counted."""
    limit = RateLimit()
    taken = [limit.take(at, 2, "team", alone=True) for at in (0.0, 1.0, 2.0, 3599.0)]
    assert taken == [True, True, False, False]
    assert limit.left_out == 2
    assert limit.take(3600.0, 2, "team", alone=True)
    assert not limit.take(3600.5, 2, "team", alone=True)


@given(st.lists(st.sampled_from("abc"), max_size=80), st.integers(1, 40))
def test_a_namespace_gets_no_more_than_is_left_for_the_others(namespaces: list[str], per_hour: int) -> None:
    """The next one to report something for the first time is heard while the hour has a message left."""
    limit, taken = RateLimit(), Counter[str]()
    for namespace in namespaces:
        left = per_hour - taken.total()
        allowed = limit.take(0.0, per_hour, namespace)
        assert allowed == (taken[namespace] < left)
        taken[namespace] += allowed
    assert taken.total() <= per_hour
