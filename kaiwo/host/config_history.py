"""The last specs of the KaiwoConfig, kept in a ConfigMap in the operator's namespace.

A KaiwoConfig that is deleted comes back with defaults. From the ConfigMap an administrator brings the values
back with one command.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import yaml

from kaiwo.api.config_names import SINGLETON
from kaiwo.api.crds import KAIWO_CONFIG
from kaiwo.api.errors import join_path
from kaiwo.api.kaiwoconfig import HISTORY
from kaiwo.engine.errors import NotFound
from kaiwo.engine.resource import CONFIG_MAP
from kaiwo.engine.yaml_reader import parse_value
from kaiwo.engine.yaml_scalars import DocumentError
from kaiwo.workload.json_access import lenient_map

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from kaiwo.engine.cached_object import CachedObject
    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object

GENERATIONS: Final = 5
"""Specs that are kept."""

UID: Final = "kaiwo.silogen.ai/config-uid"
"""Annotation of the ConfigMap: uid of the KaiwoConfig that had the latest spec."""

SPEC: Final = ("spec",)
"""Path whose field managers show who wrote the spec."""

_LATEST = "latest.yaml"
_MAX_BYTES = 900_000  # the API server takes a ConfigMap of 1 MiB
_SECRET = re.compile(
    r"(password|passwd|passphrase|token|secret|credentials?|(api|access|private|secret)_?key)$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class _Kept:
    """One spec that was in force.

    Attributes:
        spec: without secrets.
        text: the manifest that brings it back.
    """

    spec: Object
    text: str


class ConfigHistory:
    """The kept specs; one process writes them at a time.

    Attributes:
        namespace: of the ConfigMap.
    """

    def __init__(self, client: Client, namespace: str, field_manager: str) -> None:
        """Prepare; nothing is read yet.

        Args:
            client: reads and writes the ConfigMap.
            namespace: the operator's own.
            field_manager: of all that the operator writes.
        """
        self.namespace = namespace
        self._client = client
        self._field_manager = field_manager
        self._kept: tuple[_Kept, ...] = ()
        self._uid = ""
        self._is_read = False

    @property
    def latest(self) -> Object | None:
        """The latest spec, None where none is kept."""
        return self._kept[0].spec if self._kept else None

    def latest_of(self, entry: CachedObject) -> Object | None:
        """The latest spec, if it was one of this KaiwoConfig and not of an earlier one of its name."""
        return self.latest if entry.uid == self._uid else None

    @property
    def command(self) -> str:
        """The command that brings the latest spec back."""
        return (
            f"kubectl -n {self.namespace} get configmap {HISTORY} -o jsonpath='{{.data.latest\\.yaml}}' | "
            "kubectl apply --server-side --force-conflicts -f -"
        )

    def begin(self) -> None:
        """Begin to lead: another process may have kept specs since the ConfigMap was read."""
        self._is_read = False

    async def read(self) -> None:
        """Read the ConfigMap, once while this process leads.

        Raises:
            EngineError: it cannot be read.
        """
        if self._is_read:
            return
        try:
            found = await self._client.get(CONFIG_MAP, self.namespace, HISTORY)
        except NotFound:
            found = {}
        data = lenient_map(found.get("data"))
        annotations = lenient_map(lenient_map(found.get("metadata")).get("annotations"))
        self._uid = str(annotations.get(UID, ""))
        kept = ((text, _spec_of(text)) for key in _keys() if isinstance(text := data.get(key), str))
        self._kept = tuple(_Kept(spec, text) for text, spec in kept if spec is not None)
        self._is_read = True

    def is_recreated(self, entry: CachedObject) -> bool:
        """Whether an earlier KaiwoConfig had other values, and nobody has written this one since.

        Args:
            entry: the KaiwoConfig.
        """
        return (
            bool(self._kept)
            and entry.uid != self._uid
            and self._is_own(entry)
            and without_secrets(entry.part("spec"))[0] != self._kept[0].spec
        )

    async def keep(self, entry: CachedObject, now: datetime) -> None:
        """Keep the spec of a KaiwoConfig that is in force; nothing is written when it is the latest already.

        One that the operator created and that nobody has changed holds no values that could be lost.

        Args:
            entry: the KaiwoConfig.
            now: the time, UTC.

        Raises:
            EngineError: the ConfigMap cannot be written.
        """
        spec, left_out = without_secrets(entry.part("spec"))
        if self._is_own(entry) or (self._kept and self._kept[0].spec == spec):
            return
        latest = _Kept(spec, _manifest(spec, left_out, entry.generation, now))
        kept = _fitting((latest, *self._kept))
        if not kept:
            return
        body: Object = {
            "apiVersion": CONFIG_MAP.api_version,
            "kind": CONFIG_MAP.kind,
            "metadata": {"name": HISTORY, "namespace": self.namespace, "annotations": {UID: entry.uid}},
            "data": {key: item.text for key, item in zip(_keys(), kept, strict=False)},
        }
        await self._client.apply(CONFIG_MAP, body, field_manager=self._field_manager, force=True)
        self._kept, self._uid = kept, entry.uid

    def _is_own(self, entry: CachedObject) -> bool:
        """Whether nobody but the operator has written the spec."""
        return set(entry.managers(SPEC)) <= {self._field_manager}


def without_secrets(spec: object) -> tuple[Object, tuple[str, ...]]:
    """A spec without texts in plugin settings whose key says that they are secret, and their paths."""
    left_out: list[str] = []

    def clean(value: Any, path: tuple[str | int, ...]) -> Any:
        if isinstance(value, list):
            return [clean(item, (*path, at)) for at, item in enumerate(value)]
        if not isinstance(value, dict):
            return value
        kept: Object = {}
        for key, item in value.items():
            if isinstance(item, str) and _SECRET.search(str(key)):
                left_out.append(join_path((*path, str(key))))
            else:
                kept[key] = clean(item, (*path, str(key)))
        return kept

    written = lenient_map(spec)
    plugins = clean(lenient_map(written.get("plugins")), ("spec", "plugins"))
    return ({**written, "plugins": plugins} if "plugins" in written else written), tuple(left_out)


def _manifest(spec: Object, left_out: Iterable[str], generation: int, now: datetime) -> str:
    """The manifest that brings a spec back, with where it comes from in comments."""
    lines = [f"# KaiwoConfig {SINGLETON}, generation {generation}, in force at {now:%Y-%m-%dT%H:%M:%SZ}"]
    lines += [f"# {path} is left out, because it may be a secret" for path in left_out]
    obj = {
        "apiVersion": KAIWO_CONFIG.api_version,
        "kind": KAIWO_CONFIG.kind,
        "metadata": {"name": SINGLETON},
        "spec": spec,
    }
    return "\n".join([*lines, yaml.safe_dump(obj, sort_keys=False)])


def _spec_of(text: str) -> Object | None:
    """The spec in a manifest; None where somebody made the text unreadable."""
    try:
        obj = parse_value(text)
    except DocumentError:
        return None
    return lenient_map(obj["spec"]) if isinstance(obj, dict) and "spec" in obj else None


def _fitting(kept: tuple[_Kept, ...]) -> tuple[_Kept, ...]:
    """As many of the newest as are kept, and as fit into a ConfigMap."""
    total, fitting = 0, []
    for item in kept[:GENERATIONS]:
        total += len(item.text.encode())
        if total > _MAX_BYTES:
            break
        fitting.append(item)
    return tuple(fitting)


def _keys() -> tuple[str, ...]:
    return (_LATEST, *(f"previous-{number}.yaml" for number in range(1, GENERATIONS)))
