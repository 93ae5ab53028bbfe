"""The ConfigMap and the Job that fetch what a workload wants before it starts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from kaiwo.api.download import CONTAINER, DownloadConfig, DownloadPolicy
from kaiwo.plugin.rendering import Rendered
from kaiwo.workload.applied_record import digest
from kaiwo.workload.download.requested import fetches, fingerprint
from kaiwo.workload.download.secret_mounts import secret_mounts
from kaiwo.workload.errors import SpecError
from kaiwo.workload.json_access import lenient_map, lenient_maps
from kaiwo.workload.labels import DOWNLOADER, RESOLVED, TYPE
from kaiwo.workload.metadata import copied, derived_name, embedded, layered, owned, system_labels
from kaiwo.workload.namespace_defaults import DEFAULTS_ORIGIN, default_variables, used_for_downloads
from kaiwo.workload.pods.list_merge import merged
from kaiwo.workload.pods.origins import Origins
from kaiwo.workload.pods.security import restricted_container, restricted_pod
from kaiwo.workload.storage.volumes import DATA, HF, check_mounts, volumes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pydantic import BaseModel

    from kaiwo.api.resolved_config import ResolvedConfig
    from kaiwo.api.workload import Workload
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.rendering import Resolved
    from kaiwo.workload.download.requested import Fetch
    from kaiwo.workload.model import PlanContext

CONFIG_PATH = "/config"
CONFIG_KEY = "config.yaml"
HOME = "/tmp"  # noqa: S108  a path in the container, where an emptyDir is mounted

_NOT_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")

FATAL_EXITS = (2, 3, 4)
"""Exit codes of the download program after which another try gives the same: configuration, not found or
denied, integrity."""

BACKOFF_LIMIT = 3
"""Further tries after any other failure; each resumes where the last one ended."""

SCHEDULING_SECONDS = 24 * 3600
"""Seconds for which a download Job may wait before it runs: for a node, its volumes, its image, a Secret."""

_LONGEST_DEADLINE = 100 * 365 * 24 * 3600
"""Seconds of a Job at most. Kubernetes counts them in nanoseconds of 64 bits, which is 292 years; with more
the Job fails at once."""

LIMIT_SETTINGS: Mapping[str, str] = {
    "max-bytes": "storage.downloadLimits.maxSize",
    "max-files": "storage.downloadLimits.maxFiles",
    "timeout": "storage.downloadLimits.timeout",
}
"""Limits of the download program, by the argument, and the fields of KaiwoConfig that set them."""

SCRATCH_SETTING = "storage.downloadResources.limits.ephemeral-storage"


@dataclass(frozen=True, slots=True)
class _Input:
    workload: Workload
    resolved: Resolved
    config: ResolvedConfig
    settings: Mapping[str, BaseModel]
    found: tuple[Fetch, ...]
    child: Object
    defaults: str


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is created for downloads.

    Attributes:
        config_map: what the download program is to fetch.
        job: runs it.
    """

    config_map: Rendered
    job: Rendered


def as_yaml(value: object) -> str:
    """JSON that is YAML as well: written a hundred times as fast as block style.

    What YAML takes for a line break or for no character is escaped.
    """
    text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    return _NOT_IN_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n"


def downloads(labels: Mapping[str, str] | None) -> bool:
    """Whether a pod with these labels is one of a download Job."""
    return (labels or {}).get(TYPE) == DOWNLOADER


def name_of(workload: Workload) -> str:
    """The name of a workload's download Job and of its ConfigMap."""
    return derived_name(workload.name, "-download")


def stamp(workload: Workload, defaults: str) -> str:
    """What the Job was made for: hashes of what is fetched, of how, and of what the namespace adds.

    Args:
        workload: the workload.
        defaults: the last of them, empty for nothing.
    """
    spec = workload.spec
    how = [
        [variable.dump() for variable in spec.env or ()],
        [secret.dump() for secret in spec.image_pull_secrets or ()],
    ]
    return _joined(fingerprint(workload), digest(how), defaults)


def config_stamp(what: str, data: object, defaults: str) -> str:
    """What stands on the ConfigMap: what is fetched, a hash of its content, and what the namespace adds."""
    return _joined(what, digest(data), defaults)


def _joined(*hashes: str) -> str:
    return "-".join(one for one in hashes if one)


def prepare(case: PlanContext, resolved: Resolved, child: Object) -> Prepared:
    """Render both.

    Args:
        case: the workload; loaded sources serve all that it wants.
        resolved: what was resolved for the workload.
        child: the workload's own object as rendered; the download pod tolerates what its pods tolerate.

    Raises:
        SpecError: an item is not what its source takes, or its Secrets cannot be mounted.
        PluginError: a source failed to name its Secrets.
    """
    facts = case.facts
    found = fetches(case.workload, case.registry, facts.namespace_defaults)
    defaults = used_for_downloads(case.workload, case.registry, facts.namespace_defaults)
    inp = _Input(case.workload, resolved, facts.config, facts.settings, found, child, defaults)
    return Prepared(_config_map(inp), _job(inp))


def _metadata(workload: Workload, stamped: str) -> Object:
    metadata: Object = {
        "name": name_of(workload),
        "labels": copied(workload.labels),
        "annotations": {RESOLVED: stamped},
    }
    return owned(metadata, workload, DOWNLOADER)


def _config_map(inp: _Input) -> Rendered:
    workload, config, found, origins = inp.workload, inp.config, inp.found, Origins()
    places = {volume.name: volume.mount_path for volume in volumes(workload, inp.resolved)}
    settings = {
        fetch.key: given.model_dump(mode="json", by_alias=True)
        for fetch in found
        if fetch.source.settings is not None and (given := inp.settings.get(fetch.source.plugin)) is not None
    }
    document = DownloadConfig(
        version=1,
        data_mount_path=places.get(DATA),
        hf_mount_path=places.get(HF),
        items={fetch.key: list(fetch.items) for fetch in found},
        downloaders={fetch.key: fetch.source.downloader or "" for fetch in found},
        policy=DownloadPolicy(
            allow_private_endpoints=config.allow_private_endpoints,
            ambient_credentials=config.ambient_credentials,
        ),
    )
    if settings:
        document = document.model_copy(update={"settings": settings})
    content = document.dump()
    data = {CONFIG_KEY: as_yaml(content)}
    fields = ", ".join(fetch.field for fetch in found)
    origins.note(f"data.{CONFIG_KEY}", "user", f"{fields}; policy: KaiwoConfig storage")
    return Rendered(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": _metadata(workload, config_stamp(fingerprint(workload), data, inp.defaults)),
            "data": data,
        },
        origins=origins.known(),
    )


def _job(inp: _Input) -> Rendered:
    workload, origins = inp.workload, Origins()
    origins.note("spec.backoffLimit", "default", "a failed download is tried again from where it ended")
    origins.note("spec.podFailurePolicy", "default", "what would fail again is not tried again")
    origins.note("spec.activeDeadlineSeconds", "config", "KaiwoConfig storage.downloadLimits.timeout")
    rule = {
        "action": "FailJob",
        "onExitCodes": {"containerName": CONTAINER, "operator": "In", "values": list(FATAL_EXITS)},
    }
    return Rendered(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": _metadata(workload, stamp(workload, inp.defaults)),
            "spec": {
                "activeDeadlineSeconds": _deadline(inp.config),
                "backoffLimit": BACKOFF_LIMIT,
                "podFailurePolicy": {"rules": [rule]},
                "template": {
                    "metadata": _pod_metadata(workload, origins),
                    "spec": _pod(inp, origins),
                },
            },
        },
        origins=origins.known(),
    )


def _deadline(config: ResolvedConfig) -> int:
    """Seconds of the whole Job. The program ends by itself before: this one holds where it hangs."""
    tries = (BACKOFF_LIMIT + 1) * int(config.download_timeout.total_seconds())
    return min(SCHEDULING_SECONDS + tries, _LONGEST_DEADLINE)


def _pod_metadata(workload: Workload, origins: Origins) -> Object:
    path = "spec.template.metadata"
    labels = layered(
        f"{path}.labels",
        origins,
        (copied(workload.labels), "user", "metadata.labels"),
        (embedded(workload.spec.pod_template_spec_labels or {}), "user", "spec.podTemplateSpecLabels"),
        (system_labels(workload, DOWNLOADER), "system", "by which Kaiwo finds what belongs to the workload"),
    )
    metadata: Object = {"labels": labels}
    if annotations := copied(workload.annotations):
        metadata["annotations"] = annotations
    return metadata


def _pod(inp: _Input, origins: Origins) -> Object:
    """A pod that passes the Pod Security Standard ``restricted`` and has no token of a service account."""
    path = "spec.template.spec"
    workload, config = inp.workload, inp.config
    mounts, pod_volumes = _mounts(workload, inp.resolved, inp.found)
    origins.note(f"{path}.containers[0].image", "config", "KaiwoConfig storage.downloadImage")
    origins.note(f"{path}.containers[0].resources", "config", "KaiwoConfig storage.downloadResources")
    origins.note(f"{path}.containers[0].args", "config", "KaiwoConfig storage")
    origins.note(f"{path}.securityContext", "default", "Pod Security Standard restricted")
    origins.note(f"{path}.containers[0].securityContext", "default", "Pod Security Standard restricted")
    container: Object = {
        "name": CONTAINER,
        "image": config.download_image,
        "command": ["kaiwo-download"],
        "args": ["--progress=json", *_policy(config), *_limits(config), f"{CONFIG_PATH}/{CONFIG_KEY}"],
        "env": _environment(workload, inp.resolved, f"{path}.containers[0]", origins),
        "resources": config.download_resources.dump(),
        "securityContext": {**restricted_container(), "readOnlyRootFilesystem": True},
        # A program that could not even start leaves its last words in the log alone.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts,
    }
    pod: Object = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {**restricted_pod(), "fsGroupChangePolicy": "OnRootMismatch"},
        "containers": [container],
        "volumes": pod_volumes,
    }
    secrets = [secret.dump() for secret in workload.spec.image_pull_secrets or ()]
    if secrets or inp.resolved.image_pull_secrets:
        more = [{"name": name} for name in inp.resolved.image_pull_secrets]
        pod["imagePullSecrets"] = merged([*secrets, *more], ("name",))
        if secrets:
            origins.note(f"{path}.imagePullSecrets", "user", "spec.imagePullSecrets")
    if tolerations := _tolerations(inp.child):
        pod["tolerations"] = tolerations
        origins.note(f"{path}.tolerations", "template", "what the workload's own pods tolerate")
    return pod


def _policy(config: ResolvedConfig) -> list[str]:
    """The egress policy as arguments: they override the ConfigMap, which others in the namespace may edit."""
    return [
        f"--allow-private-endpoints={str(config.allow_private_endpoints).lower()}",
        f"--ambient-credentials={str(config.ambient_credentials).lower()}",
    ]


def _limits(config: ResolvedConfig) -> list[str]:
    return [
        f"--max-bytes={config.download_max_bytes}",
        f"--max-files={config.download_max_files}",
        f"--timeout={int(config.download_timeout.total_seconds())}",
    ]


def _environment(workload: Workload, resolved: Resolved, path: str, origins: Origins) -> list[Object]:
    """HOME, which is ours; HF_HOME, unless the user sets it; the namespace's; then the user's variables."""
    own: dict[str, Object] = {"HOME": {"name": "HOME", "value": HOME}}
    for volume in volumes(workload, resolved):
        if volume.name == HF:
            own["HF_HOME"] = {"name": "HF_HOME", "value": volume.mount_path}
    given = {variable.name: variable.dump() for variable in workload.spec.env or ()}
    given = {name: item for name, item in given.items() if name != "HOME" and not _of_other_pod(item)}
    defaults = default_variables(workload, resolved, own.keys() | given.keys())
    entries = own | defaults | given
    for position, name in enumerate(entries):
        if name in given:
            origins.note(f"{path}.env[{position}]", "user", "spec.env")
        elif name in defaults:
            origins.note(f"{path}.env[{position}]", "plugin", DEFAULTS_ORIGIN)
    return list(entries.values())


def _of_other_pod(variable: Object) -> bool:
    """Whether a variable's value comes from a volume or another container of the workload's own pods."""
    source = lenient_map(variable.get("valueFrom"))
    container = lenient_map(source.get("resourceFieldRef")).get("containerName")
    return bool(source.get("fileKeyRef")) or container not in (None, "", CONTAINER)


def _mounts(
    workload: Workload, resolved: Resolved, found: tuple[Fetch, ...]
) -> tuple[list[Object], list[Object]]:
    """Mounts and volumes: the workload's own volumes, the configuration, a writable /tmp, Secrets."""
    asked = volumes(workload, resolved)
    check_mounts((volume.mount_path, volume.path) for volume in asked)
    for volume in asked:
        if problem := _clash(volume.mount_path):
            raise SpecError(f"{volume.path}.mountPath", problem)
    own = {volume.mount_path: f"volume {volume.name}" for volume in asked}
    secret_volumes, mounted = secret_mounts(
        (pair for fetch in found for pair in fetch.secrets()), own | {CONFIG_PATH: "its configuration"}
    )
    mounts: list[Object] = [
        {"name": "config", "mountPath": CONFIG_PATH, "readOnly": True},
        {"name": "tmp", "mountPath": HOME},
        *({"name": volume.name, "mountPath": volume.mount_path} for volume in asked),
        *mounted,
    ]
    pod_volumes: list[Object] = [
        {"name": "config", "configMap": {"name": name_of(workload)}},
        {"name": "tmp", "emptyDir": {}},
        *({"name": volume.name, "persistentVolumeClaim": {"claimName": volume.claim}} for volume in asked),
        *secret_volumes,
    ]
    return mounts, pod_volumes


def _clash(mount_path: str) -> str:
    """Why a volume cannot be mounted in the download pod at the place it has in the workload."""
    place = mount_path.rstrip("/") or "/"
    taken: Mapping[str, str] = {
        CONFIG_PATH: "its configuration",
        HOME: "its scratch space",
        "/": "its system",
    }
    if place in taken:
        return f"is {place}, where the download pod has {taken[place]}; choose another"
    if f"{place}/".startswith((f"{CONFIG_PATH}/", "/app/secrets/")):
        return f"is {place}, where the download pod has read-only files; choose another"
    return ""


def _tolerations(child: Object) -> list[Object]:
    """The tolerations of all pod templates in an object, each once."""
    found = (item for pod in _pods(child) for item in lenient_maps(pod.get("tolerations")))
    return list({msgspec.json.encode(item, order="deterministic"): item for item in found}.values())


def _pods(value: object) -> Iterator[Object]:
    """Every pod specification in an object, at any depth."""
    if isinstance(value, dict):
        if isinstance(value.get("containers"), list):
            yield value
            return
        for part in value.values():
            yield from _pods(part)
    elif isinstance(value, list):
        for part in value:
            yield from _pods(part)
