"""Rules for names of workloads and for labels: what objects need and Kubernetes and KubeRay accept."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kaiwo.api.errors import shorten

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

LABEL_KEY = re.compile(
    r"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
LABEL_TEXT = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
MAX_LABEL_VALUE = 63
MAX_LABEL_PREFIX = 253


@dataclass(frozen=True, slots=True)
class NameRule:
    """What a name must be like.

    Attributes:
        limit: longest name, in characters.
        pattern: regular expression that the whole name matches, for Go and Python alike.
        words: the pattern in words.
    """

    limit: int
    pattern: str
    words: str

    @property
    def requirement(self) -> str:
        """What a name may be like, in the words of the CRD's own rule."""
        return f"may have at most {self.limit} characters and only {self.words}"

    def problem(self, name: str) -> str | None:
        """What is wrong with a name, with the rule and a legal name that is near; None when nothing is."""
        if len(name) <= self.limit and re.fullmatch(self.pattern, name) and not name.endswith("\n"):
            return None
        length = f" ({len(name)} characters)" if len(name) > self.limit else ""
        return f'{shorten(name, 80)}{length} {self.requirement}; for example "{self.legal(name)}"'

    def legal(self, text: str) -> str:
        """The legal name that is nearest to a text; never empty."""
        name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
        if not re.match(self.pattern, name[:1]):
            name = f"w-{name}".strip("-")
        return name[: self.limit].rstrip("-")


PLAIN = NameRule(
    63,
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
    "lower-case letters, digits and '-', with a letter or digit at both ends",
)
"""Job and Deployment put their name into a label of their pods: DNS-1123 label, RFC 1123."""

ON_RAY = NameRule(
    47,
    r"^[a-z]([-a-z0-9]*[a-z0-9])?$",
    "lower-case letters, digits and '-', with a letter first and a letter or digit last",
)
"""KubeRay makes Services (DNS-1035) of the name and adds up to 16 characters of its own."""


def is_ray_block(name: str) -> bool:
    """Whether an embedded block's presence alone puts a workload on Ray: ``rayJob``, ``rayService``."""
    return name.startswith("ray") and name != "ray"


def runs_on_ray(spec: Mapping[str, Any], blocks: Iterable[str]) -> bool:
    """Whether a workload runs on Ray: ``ray`` is true, or one of the embedded blocks is Ray's."""
    return spec.get("ray") is True or any(is_ray_block(name) for name in blocks)


def rule_for(*, ray: bool) -> NameRule:
    """The rule for names of workloads on Ray or not."""
    return ON_RAY if ray else PLAIN


def label_key_problem(key: str) -> str | None:
    """What is wrong with a label key, None when nothing is."""
    prefix, _, _ = key.rpartition("/")
    if len(prefix) <= MAX_LABEL_PREFIX and LABEL_KEY.fullmatch(key):
        return None
    advice = "write it like team or example.com/team, at most 63 after the slash"
    return f"{shorten(key)} is not a valid label key; {advice}"


def topology_label_problems(preferred: object, required: object) -> Iterator[tuple[str, str]]:
    """Which of the topology labels of a spec is no label key: the field below ``spec``, and the problem.

    Args:
        preferred: ``preferredTopologyLabel``.
        required: ``requiredTopologyLabel``.
    """
    for field, label in (("preferredTopologyLabel", preferred), ("requiredTopologyLabel", required)):
        if isinstance(label, str) and label and (problem := label_key_problem(label)):
            yield field, problem


def label_value_problem(value: str) -> str | None:
    """What is wrong with a label value, None when nothing is."""
    if len(value) <= MAX_LABEL_VALUE and LABEL_TEXT.fullmatch(value):
        return None
    return (
        f"{shorten(value)} is not a valid label value; at most 63 letters, digits, '-', '_' and '.', "
        "with a letter or digit at both ends"
    )
