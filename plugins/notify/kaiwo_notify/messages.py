"""The forms of a message. Names and messages of workloads are written by users: nothing in them is markup."""

from __future__ import annotations

import json
import re
from email.message import EmailMessage
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kaiwo.plugin.lifecycle import Transition
    from kaiwo_notify.settings import Email

LONGEST: Final = 1000
"""Characters of the message of a workload that are sent."""

EVENT_TYPE: Final = "ai.silogen.kaiwo.workload.transition.v1"

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]+")
"""Control characters, line ends, and what turns the direction of writing."""

_BREAK: Final = "\u200b"
"""A zero-width space: it takes a mention or a mark of Markdown apart without being seen."""


def plain(text: str, longest: int = LONGEST) -> str:
    """A text on one line without control characters, and not longer than allowed."""
    clean = _CONTROL.sub(" ", text).strip()
    return clean if len(clean) <= longest else f"{clean[: longest - 1]}…"


def headline(transition: Transition) -> str:
    """What happened, in one line."""
    return plain(f"{transition.kind} {transition.namespace}/{transition.name}: {transition.after}", 300)


def details(transition: Transition, left_out: int) -> list[str]:
    """The lines below the headline."""
    lines = [f"{plain(transition.reason, 100)}: {plain(transition.message)}"]
    if transition.user:
        lines.append(f"user: {plain(transition.user, 253)}")
    lines.append(f"before: {transition.before or 'new'}, at: {_time(transition)}")
    if left_out:
        lines.append(f"{left_out} more messages were left out before this one")
    return lines


def slack(transition: Transition, left_out: int = 0) -> dict[str, Any]:
    """A message for Slack, and for what takes Slack's messages and may read Markdown in them."""
    head, *rest = (_unmarked(line) for line in (headline(transition), *details(transition, left_out)))
    text = "\n".join((head, *rest))
    return {
        "text": text,
        "mrkdwn": False,
        "link_names": False,
        "unfurl_links": False,
        "unfurl_media": False,
        "blocks": [
            {"type": "section", "text": {"type": "plain_text", "text": _shown(text), "emoji": False}},
        ],
    }


def cloud_event(transition: Transition, left_out: int = 0) -> dict[str, Any]:
    """A CloudEvent 1.0 in structured mode; its id is the same in each try, so that receivers can tell."""
    return {
        "specversion": "1.0",
        "type": EVENT_TYPE,
        "source": f"/kaiwo/namespaces/{transition.namespace}",
        "subject": f"{transition.kind}/{transition.name}",
        "id": identity(transition),
        "time": _time(transition),
        "datacontenttype": "application/json",
        "data": {
            "kind": transition.kind,
            "namespace": transition.namespace,
            "name": transition.name,
            "uid": transition.uid,
            "user": transition.user,
            "before": transition.before,
            "after": transition.after,
            "reason": transition.reason,
            "message": plain(transition.message),
            "leftOut": left_out,
        },
    }


def mail(transition: Transition, to: Email, left_out: int = 0) -> EmailMessage:
    """A mail of plain text; nothing of the workload is in a header but the clean headline."""
    message = EmailMessage()
    message["From"] = to.sender
    message["To"] = ", ".join(to.recipients)
    message["Subject"] = f"[kaiwo] {headline(transition)}"
    message["Message-ID"] = f"<{identity(transition)}@kaiwo.invalid>"
    message["Date"] = transition.at
    message["Auto-Submitted"] = "auto-generated"
    message.set_content("\n".join((headline(transition), "", *details(transition, left_out))) + "\n")
    return message


def encoded(document: dict[str, Any]) -> bytes:
    """A document as JSON."""
    return json.dumps(document, ensure_ascii=False).encode("utf-8", "replace")


def identity(transition: Transition) -> str:
    """What is the same for each try to report one transition."""
    uid, after = (re.sub(r"[^A-Za-z0-9-]", "", word)[:64] for word in (transition.uid, transition.after))
    return f"{uid}.{after.lower()}.{int(transition.at.timestamp() * 1000)}"


def _unmarked(text: str) -> str:
    """A text in which neither Slack nor Markdown finds a mention, a link or a mark."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    broken = re.sub(r"[@`*_~\[]", lambda match: match[0] + _BREAK, escaped)
    return broken.replace("://", f":{_BREAK}//")


def _shown(text: str) -> str:
    """The text of a block that has no markup: entities are not read there."""
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")[:2900]


def _time(transition: Transition) -> str:
    return transition.at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
