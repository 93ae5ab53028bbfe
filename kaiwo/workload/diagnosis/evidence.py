"""Evidence for a cause: events, last lines of logs, and who reported them when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.engine.timestamps import parse_time
from kaiwo.plugin.observation import Finding
from kaiwo.workload.diagnosis.model import log_key, span
from kaiwo.workload.json_access import lenient_map, lenient_maps, lenient_text, name_of, one_line
from kaiwo.workload.observe import pod_status
from kaiwo.workload.observe.image_pulls import IMAGE_PROBLEMS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaiwo.engine.resource import Object
    from kaiwo.workload.diagnosis.model import DiagnosisFacts

MOST_EVENTS = 3
"""Events that are quoted for one object."""

_MOST_TEXT = 300


def event_time(event: Object) -> str:
    """When an event happened last, in UTC without the final Z: such texts sort as times.

    With the Z, a time with fractions of a second would come before the whole second.
    """
    series, metadata = lenient_map(event.get("series")), lenient_map(event.get("metadata"))
    times = (
        series.get("lastObservedTime"),
        event.get("lastTimestamp"),
        event.get("eventTime"),
        event.get("firstTimestamp"),
        metadata.get("creationTimestamp"),
    )
    return next((lenient_text(time) for time in times if lenient_text(time)), "").removesuffix("Z")


def event_order(event: Object) -> tuple[str, int]:
    """What events sort by: the second, then the order in which the API server stored them.

    Most reporters write no fractions of a second. Within a second theirs cannot be compared with those of the
    few that do.
    """
    version = lenient_text(lenient_map(event.get("metadata")).get("resourceVersion"))
    return event_time(event).partition(".")[0], int(version) if version.isdecimal() else 0


def events_about(facts: DiagnosisFacts, obj: Object) -> list[Object]:
    """The Warning events about an object, the newest first."""
    uid = lenient_map(obj.get("metadata")).get("uid")
    found = [e for e in facts.events if uid and lenient_map(e.get("involvedObject")).get("uid") == uid]
    return sorted(found, key=event_order, reverse=True)


def newest_warning(facts: DiagnosisFacts, obj: Object) -> Finding | None:
    """Reason and message of the newest Warning event about an object."""
    for event in events_about(facts, obj)[:1]:
        return Finding(lenient_text(event.get("reason")), one_line(event.get("message")))
    return None


def quoted_events(facts: DiagnosisFacts, obj: Object) -> tuple[str, ...]:
    """The newest events about an object as sentences, equal texts once."""
    lines: dict[str, str] = {}
    for event in events_about(facts, obj):
        said = one_line(event.get("message"))[:_MOST_TEXT]
        if not said or said in lines:
            continue
        count = event.get("count") or lenient_map(event.get("series")).get("count")
        times = f", {count} times" if isinstance(count, int) and count > 1 else ""
        lines[said] = f"event {lenient_text(event.get('reason'))}{times}{_ago(facts, event)}: {said}"
    return tuple(lines.values())[:MOST_EVENTS]


def _ago(facts: DiagnosisFacts, event: Object) -> str:
    at = parse_time(event_time(event))
    return "" if at is None else f", {span((facts.now - at).total_seconds())} ago"


def log_lines(facts: DiagnosisFacts, pod: Object) -> tuple[str, ...]:
    """The last lines of the containers of a pod that failed, each with the container's name."""
    return tuple(
        f"log of container {container}: {line}"
        for container in failed_containers(pod)
        for line in facts.logs.get(log_key(name_of(pod), container), ())
    )


def restart_counts(pod: Object) -> Iterator[str]:
    """How often containers of a pod were restarted, the exact number."""
    for container in pod_status.containers(pod, init=True):
        count = container.get("restartCount")
        if isinstance(count, int) and not isinstance(count, bool) and count > 0:
            times = "once" if count == 1 else f"{count} times"
            yield f"container {lenient_text(container.get('name'))} was restarted {times}"


def failed_containers(pod: Object) -> list[str]:
    """Names of the containers of a pod that ended with an exit code other than 0, now or the last time."""
    found = []
    for container in pod_status.containers(pod, init=True):
        ends = (lenient_map(container.get(part)).get("terminated") for part in ("state", "lastState"))
        if any(lenient_map(end).get("exitCode") for end in ends) and lenient_text(container.get("name")):
            found.append(lenient_text(container.get("name")))
    return found


def pull_secrets(pod: Object) -> list[str]:
    """Names of the Secrets for pulling the images of a pod that waits for one."""
    finding = pod_status.problem([pod])
    if finding is None or finding.reason not in IMAGE_PROBLEMS:
        return []
    secrets = lenient_maps(lenient_map(pod.get("spec")).get("imagePullSecrets"))
    return [name for item in secrets if (name := lenient_text(item.get("name")))]


def missing_pull_secrets(facts: DiagnosisFacts, pod: Object) -> tuple[str, ...]:
    """Secrets that a registry may ask for: a kubelet pulls without those that do not exist."""
    namespace = lenient_text(facts.metadata.get("namespace"))
    return tuple(
        f"Secret {name} of imagePullSecrets does not exist in namespace {namespace}"
        for name in dict.fromkeys(pull_secrets(pod))
        if ("Secret", name) in facts.missing
    )


def _projected(volume: Object) -> list[tuple[str, object]]:
    """Kinds and names of the sources of a projected volume; that of a token is left out."""
    sources = lenient_maps(lenient_map(volume.get("projected")).get("sources"))
    if any("serviceAccountToken" in source for source in sources):
        return []
    return [
        (kind, reference.get("name"))
        for source in sources
        for kind, field in (("Secret", "secret"), ("ConfigMap", "configMap"))
        if not (reference := lenient_map(source.get(field))).get("optional")
    ]


def references(pod: Object) -> list[tuple[str, str]]:
    """Kinds and names of the Secrets and ConfigMaps without which a pod does not start."""
    spec = lenient_map(pod.get("spec"))
    found: list[tuple[str, object]] = []
    for volume in lenient_maps(spec.get("volumes")):
        secret, config = lenient_map(volume.get("secret")), lenient_map(volume.get("configMap"))
        found += [("Secret", secret.get("secretName"))] if not secret.get("optional") else []
        found += [("ConfigMap", config.get("name"))] if not config.get("optional") else []
        found += _projected(volume)
    for container in (*lenient_maps(spec.get("initContainers")), *lenient_maps(spec.get("containers"))):
        for variable in lenient_maps(container.get("env")):
            source = lenient_map(variable.get("valueFrom"))
            for kind, key in (("Secret", "secretKeyRef"), ("ConfigMap", "configMapKeyRef")):
                reference = lenient_map(source.get(key))
                found += [(kind, reference.get("name"))] if not reference.get("optional") else []
        for source in lenient_maps(container.get("envFrom")):
            for kind, key in (("Secret", "secretRef"), ("ConfigMap", "configMapRef")):
                reference = lenient_map(source.get(key))
                found += [(kind, reference.get("name"))] if not reference.get("optional") else []
    return list(dict.fromkeys((kind, name) for kind, name in found if isinstance(name, str) and name))
