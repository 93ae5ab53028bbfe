"""Warnings about valid values that first users rarely mean: nothing is ignored, and nothing works."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from kaiwo.api.errors import Problem, join_path
from kaiwo.api.kubelet_expansion import halved_dollars
from kaiwo.api.shell_syntax import almost_shebang, bash_syntax
from kaiwo.engine.quantity import NANO, InvalidQuantity, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_LEAST_BYTES = 1 << 20
"""Memory and volumes below this are a number without its unit."""

_BYTES = ("memory", "ephemeral-storage")

_GATED = re.compile(
    r"(meta-llama|black-forest-labs|CohereForAI|CohereLabs)/.*|mistralai/(Mi[sx]tral|Codestral|Ministral).*"
    r"|google/(gemma|paligemma|codegemma|recurrentgemma|shieldgemma).*|bigcode/star.*|nvidia/Llama-.*"
    r"|stabilityai/stable-diffusion-3.*|databricks/dbrx.*|pyannote/.*|facebook/(sam3|dinov3).*",
    re.IGNORECASE,
)
"""Repositories of the Hugging Face Hub whose terms a user has to accept."""

HUB_TOKEN = "HF_TOKEN"  # noqa: S105  the name of the variable


def usual_slips(spec: Mapping[str, Any], *, on_ray: bool) -> Iterator[Problem]:
    """What in the ``spec`` of a workload is probably not meant; values that the models reject are skipped."""
    yield from _entrypoint(spec.get("entrypoint"), on_ray=on_ray)
    yield from _env(spec.get("env"))
    yield from _resources(spec.get("resources"))
    yield from _storage(spec)


def _entrypoint(text: object, *, on_ray: bool) -> Iterator[Problem]:
    if not isinstance(text, str) or not text.strip():
        return
    if line := halved_dollars(text.strip()):
        yield Problem(
            "spec.entrypoint", f"line {line} has $$; Kubernetes makes $ of it in commands", "write $$$$"
        )
    if not on_ray and (wrong := almost_shebang(text)):
        yield Problem("spec.entrypoint", wrong)
        return
    found = None if text.strip().startswith("#!") else bash_syntax(text.strip())
    if found:
        line, what = found
        hint = "call bash: bash -c '...'" if on_ray else "make #!/bin/bash the first line"
        yield Problem(
            "spec.entrypoint", f"line {line} uses {what}; /bin/sh runs it and may not know that", hint
        )


def _env(env: object) -> Iterator[Problem]:
    for index, item in enumerate(env if isinstance(env, list) else ()):
        if not isinstance(item, dict) or not isinstance(item.get("name"), str):
            continue
        known = set(item) <= {"name", "value", "valueFrom"}  # a misspelt key is a problem of its own
        if known and item.get("value") is None and item.get("valueFrom") is None:
            yield Problem(
                f"spec.env[{index}]",
                f"{item['name']} has neither value nor valueFrom and will be empty",
                "add a value; variables of your shell are not passed on",
            )


def _resources(resources: object) -> Iterator[Problem]:
    for section in ("requests", "limits"):
        amounts = resources.get(section) if isinstance(resources, dict) else None
        for key in _BYTES:
            value = amounts.get(key) if isinstance(amounts, dict) else None
            yield from _bytes(value, join_path(("spec", "resources", section, key)))


def _storage(spec: Mapping[str, Any]) -> Iterator[Problem]:
    storage = spec.get("storage")
    if not isinstance(storage, dict) or storage.get("storageEnabled") is not True:
        return
    sections = {name: storage.get(name) for name in ("data", "huggingFace")}
    given = {name: section for name, section in sections.items() if isinstance(section, dict)}
    for name, section in given.items():
        path = f"spec.storage.{name}"
        wanted = section.get("download") or section.get("preCacheRepos")
        if not section.get("storageSize") and not wanted:
            hint = 'add storageSize, for example "100Gi"'
            yield Problem(path, "has no storageSize, so no volume is made", hint)
        yield from _bytes(section.get("storageSize"), f"{path}.storageSize")
    if not any(value is not None for value in sections.values()):
        hint = 'add data.storageSize or huggingFace.storageSize, for example "100Gi"'
        yield Problem("spec.storage", "has no storageSize, so no volume is made", hint)
    yield from _gated(spec, given.get("huggingFace", {}).get("preCacheRepos"))


def _gated(spec: Mapping[str, Any], repositories: object) -> Iterator[Problem]:
    env = spec.get("env")
    names = [item.get("name") for item in env if isinstance(item, dict)] if isinstance(env, list) else []
    if HUB_TOKEN in names:
        return
    for index, item in enumerate(repositories if isinstance(repositories, list) else ()):
        repository = item.get("repoId") if isinstance(item, dict) else None
        if isinstance(repository, str) and _GATED.fullmatch(repository):
            yield Problem(
                f"spec.storage.huggingFace.preCacheRepos[{index}].repoId",
                f"{repository} is gated: the Hub refuses it without a token",
                f"accept its terms on the Hub, and set {HUB_TOKEN} in spec.env from a Secret",
            )


def _bytes(value: object, path: str) -> Iterator[Problem]:
    try:
        amount = parse_quantity(value) if isinstance(value, str | int) else None
    except InvalidQuantity:
        return
    if amount is not None and 0 < amount.nano < _LEAST_BYTES * NANO:
        shown = f"{value} is {amount.units} bytes"
        yield Problem(path, shown, f'write the unit, for example "{amount.units}Gi"')
