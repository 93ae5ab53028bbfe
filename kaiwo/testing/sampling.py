"""Random JSON values, and what can be done with them: fit a schema, change a little, shrink.

A seed gives the same values in every process.
"""

from __future__ import annotations

import ast
import copy
import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kaiwo.engine.resource import Object

# fmt: off
WORDS: Final = (
    "affinity", "allocatable", "annotations", "args", "attempts", "capacity", "command", "completionTime",
    "completions", "conditions", "containerStatuses", "containers", "controller", "cpu",
    "creationTimestamp", "deletionTimestamp", "env", "exitCode", "failed", "finishedAt", "generation",
    "image", "imagePullSecrets", "initContainerStatuses", "initContainers", "key", "kind", "labels",
    "lastState", "lastTransitionTime", "limits", "memory", "message", "metadata", "name", "namespace",
    "nodeSelector", "observedGeneration", "ownerReferences", "parallelism", "phase", "ports", "ready",
    "reason", "replicas", "requests", "resources", "restartCount", "running", "schedulingGates", "spec",
    "startTime", "started", "startedAt", "state", "status", "succeeded", "suspend", "template",
    "terminated", "tolerations", "type", "uid", "value", "valueFrom", "volumeMounts", "volumes", "waiting",
)
TEXTS: Final = (
    "", "a", "default", "true", "True", "False", "Unknown", "0", "1", "2", "-1", "1.5", "1Gi", "8", "1h",
    "2026-01-02T03:04:05Z", "2026-01-02", "Complete", "Failed", "Ready", "Running", "Pending", "Succeeded",
    "CrashLoopBackOff", "ImagePullBackOff", "OOMKilled", "https://a.example/b", "models/a.bin", "/data",
    "../x", "é\u2028", "x" * 300, "\x7f", '{[",', "{}", "[]",
)
# fmt: on
_NUMBERS: Final = (0, 1, 2, 7, -1, 137, 2**31, 2**40, 1.5)
_MOST_WORD: Final = 60


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What the code of a package looks up and compares with, so that random values get further into it.

    Attributes:
        words: texts without blanks.
        pairs: keys with the values that they are compared with.
    """

    words: tuple[str, ...] = ()
    pairs: tuple[tuple[str, str], ...] = ()


def vocabulary_of(package: str) -> Vocabulary:
    """Read the source of a package, which is not imported."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.origin or not spec.origin.endswith(".py"):
        return Vocabulary()
    files = sorted(Path(spec.origin).parent.rglob("*.py")) if spec.submodule_search_locations else []
    words: set[str] = set()
    pairs: set[tuple[str, str]] = set()
    for file in files or [Path(spec.origin)]:
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.Constant):
                words.update(_words_in(node))
            elif isinstance(node, ast.Compare):
                keys = _words_in(node.left)[-1:]
                values = [word for side in node.comparators for word in _words_in(side)]
                pairs.update((key, value) for key in keys for value in values)
    return Vocabulary(tuple(sorted(words)), tuple(sorted(pairs)))


def _words_in(node: ast.AST) -> list[str]:
    texts = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
    return [
        text
        for text in texts
        if isinstance(text, str) and text and len(text) <= _MOST_WORD and not re.search(r"\s", text)
    ]


class Sampler:
    """A source of random values."""

    def __init__(self, seed: str, vocabulary: Vocabulary | None = None) -> None:
        """Prepare.

        Args:
            seed: equal seeds give equal values.
            vocabulary: keys and texts to use beside the usual ones of Kubernetes objects.
        """
        self.random = Random(seed)  # noqa: S311  values for tests
        known = vocabulary or Vocabulary()
        self._words, self._pairs = known.words, known.pairs
        self._texts = (*TEXTS, *known.words)

    def chance(self, share: float) -> bool:
        """True in this share of all calls."""
        return self.random.random() < share

    def one(self, *values: Any) -> Any:
        """One of the values, copied."""
        return copy.deepcopy(self.random.choice(values))

    def leaf(self) -> Any:
        """Anything that has no parts."""
        match self.random.randrange(8):
            case 0:
                return None
            case 1:
                return self.chance(0.5)
            case 2 | 3:
                return self.random.choice(_NUMBERS)
            case _:
                return self.text()

    def text(self) -> str:
        """A text."""
        return self.random.choice(self._words if self._words and self.chance(0.4) else TEXTS)

    def key(self) -> str:
        """A key."""
        return self.random.choice(self._words if self._words and self.chance(0.5) else WORDS)

    def anything(self, depth: int = 4) -> Any:
        """Any value, with known words as keys."""
        if depth <= 0 or self.chance(0.35):
            return self.leaf()
        if self.chance(0.35):
            return [self.anything(depth - 1) for _ in range(self.random.randrange(4))]
        found = {self.key(): self.anything(depth - 1) for _ in range(self.random.randrange(5))}
        return found | self._pair()

    def _pair(self) -> Object:
        """A key with a value that the code compares it with; usually none."""
        return dict([self.random.choice(self._pairs)]) if self._pairs and self.chance(0.3) else {}

    def changed(self, value: Any, changes: int = 3) -> Any:
        """A copy of a value in which up to so many parts are something else, missing or new."""
        holder = [copy.deepcopy(value)]
        for _ in range(self.random.randrange(changes + 1)):
            container, key = self.random.choice(list(_parts(holder)))
            match self.random.randrange(4):
                case 0 if container is not holder:
                    del container[key]
                case 1 if isinstance(container[key], dict):
                    container[key] |= self._pair() or {self.key(): self.anything(3)}
                case 1 if isinstance(container[key], list):
                    container[key].append(self.anything(3))
                case _:
                    container[key] = self.anything(3)
        return holder[0]

    def fitting(self, schema: Object, depth: int = 6) -> Any:
        """A value that a structural schema accepts, except for patterns that no known text matches."""
        if schema.get("enum"):
            return self.one(*schema["enum"])
        if schema.get("x-kubernetes-int-or-string"):
            return self.one(0, 1, "25%", "2")
        match schema.get("type"):
            case "object":
                return self._object(schema, depth)
            case "array":
                count = schema.get("minItems", 0)
                if depth > 0:
                    count = min(schema.get("maxItems", 3), count + self.random.randrange(3))
                return [self.fitting(schema.get("items", {}), depth - 1) for _ in range(count)]
            case "string":
                return self._string(schema)
            case "integer":
                return self._number(schema)
            case "number":
                return self._number(schema) + self.one(0, 0.5)
            case "boolean":
                return self.chance(0.5)
        return self.anything(3)

    def _object(self, schema: Object, depth: int) -> Object:
        required = schema.get("required", ())
        found = {
            name: self.fitting(part, depth - 1)
            for name, part in schema.get("properties", {}).items()
            if name in required or (depth > 0 and self.chance(0.4))
        }
        if isinstance(values := schema.get("additionalProperties"), dict) and depth > 0:
            for _ in range(self.random.randrange(3)):
                found[self.key()] = self.fitting(values, depth - 1)
        return found

    def _number(self, schema: Object) -> Any:
        low = schema.get("minimum", 0)
        high = schema.get("maximum", low + 10)
        return self.one(low, high, low + (high - low) // 2, min(high, low + 1))

    def _string(self, schema: Object) -> str:
        shortest, longest = schema.get("minLength", 0), schema.get("maxLength", 10_000)
        pattern = re.compile(schema.get("pattern", ""))
        # A description often has an example in quotes.
        texts = (*re.findall(r'"([^"\s]+)"', schema.get("description", "")) * 3, *self._texts)
        good = [text for text in texts if shortest <= len(text) <= longest and pattern.search(text)]
        chosen: str = self.random.choice(good or self._texts)
        return chosen


def _parts(container: Any) -> Iterator[tuple[Any, Any]]:
    """Every part of a value, as its container and its key there."""
    for key in list(container if isinstance(container, dict) else range(len(container))):
        yield container, key
        if isinstance(container[key], dict | list):
            yield from _parts(container[key])


def shrunk(value: Any, fails: Callable[[Any], bool], tries: int = 1000) -> Any:
    """The value with every part removed that a failure does not need, within so many tries.

    Args:
        value: one that fails.
        fails: whether another value fails in the same way.
        tries: how often `fails` is called at most.
    """
    best = [copy.deepcopy(value)]
    position = 0
    while tries > 0:
        parts = list(_parts(best))[1:]
        if position >= len(parts):
            break
        smaller = copy.deepcopy(best)
        container, key = list(_parts(smaller))[1:][position]
        del container[key]
        tries -= 1
        if fails(copy.deepcopy(smaller[0])):
            best = smaller
        else:
            position += 1
    return best[0]
