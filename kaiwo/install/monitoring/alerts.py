"""The alerts on the operator's metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from kaiwo.engine import metric_definitions as of_engine
from kaiwo.host.metrics import definitions as of_host

if TYPE_CHECKING:
    from kaiwo.engine.metric_definition import MetricDefinition

GROUP: Final = "kaiwo"

_MINUTE: Final = 60
_HOUR: Final = 3600

_PAGE: Final = "https://github.com/silogen/kaiwo/blob/main/docs/metrics.md#alerts"


def _name(definition: MetricDefinition) -> str:
    return definition.with_prefix(of_host.PREFIX).name


_WORKLOADS = _name(of_host.WORKLOADS)
_ENDED = _name(of_host.ENDED)
_RECONCILES = _name(of_engine.RECONCILES)
_ERRORS = _name(of_engine.RECONCILE_ERRORS)


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert.

    Attributes:
        name: CamelCase, unique.
        severity: ``critical`` where users are harmed now, ``warning`` where somebody has to act soon.
        expr: PromQL; each series of its result is an alert.
        seconds: how long it must hold.
        text: what it means, and what to do. Labels of the series may stand in it.
    """

    name: str
    severity: Literal["critical", "warning"]
    expr: str
    seconds: int
    text: str


ALERTS: Final = (
    Alert(
        "KaiwoNotLeading", "critical",
        f"absent({_name(of_engine.LEADER)} == 1)", 2 * _MINUTE,
        "No operator leads, so nothing is reconciled. `kaiwo doctor` says why.",
    ),
    Alert(
        "KaiwoSeveralLeaders", "critical",
        f"sum by (name) ({_name(of_engine.LEADER)}) > 1", 2 * _MINUTE,
        "More than one operator leads. Were two installed with different names of the Lease?",
    ),
    Alert(
        "KaiwoUnhealthy", "warning", f"{_name(of_engine.HEALTH_CHECK)} == 0", 5 * _MINUTE,
        "A health check of an operator fails; `/readyz` of the pod says what is wrong.",
    ),
    Alert(
        "KaiwoWritesFail", "critical",
        f"sum by (cause, verb, resource) ({_name(of_engine.FAILING_WRITES)}) > 0", 5 * _MINUTE,
        "The API server refuses writes of one kind: a webhook does not answer, or a right is missing.",
    ),
    Alert(
        "KaiwoWorkloadsNotReconciled", "critical",
        f'sum(max by (kind, queue) ({_WORKLOADS}{{status=""}})) > 0', 10 * _MINUTE,
        "Workloads have no status. The operator is overloaded, or does not watch their kind.",
    ),
    Alert(
        "KaiwoReconciliationsFail", "warning",
        f"sum by (controller) (rate({_ERRORS}[10m])) / "
        f"sum by (controller) (rate({_RECONCILES}[10m])) > 0.2", 10 * _MINUTE,
        "More than a fifth of the reconciliations fail. The operator's log has the cause of each.",
    ),
    Alert(
        "KaiwoQueueGrows", "warning",
        f"min_over_time({_name(of_engine.QUEUE_DEPTH)}[15m]) > 100", 0,
        "Keys have waited for a worker for 15 minutes. Raise `KAIWO_WORKERS`, or find what is slow.",
    ),
    Alert(
        "KaiwoManyFailures", "warning",
        f'sum(increase({_ENDED}{{status="FAILED"}}[1h])) > 10 and '
        f'sum(increase({_ENDED}{{status="FAILED"}}[1h])) / sum(increase({_ENDED}[1h])) > 0.5', 0,
        "More than half of the workloads that ended within an hour failed. `kaiwo list` shows their reasons; "
        "one reason for all points to the platform.",
    ),
    Alert(
        "KaiwoConfigNotInForce", "warning",
        f'max by (kind) ({_name(of_engine.CONFIG_CONDITION)}{{condition="Ready",status="True"}}) == 0',
        10 * _MINUTE,
        "A configuration is not in force as it is written; its conditions name the field.",
    ),
    Alert(
        "KaiwoConfigRecreated", "warning", f"max({_name(of_host.CONFIG_RECREATED)}) == 1", 0,
        "The KaiwoConfig was deleted, and the defaults are in force. Its condition has the command that "
        "brings the values back.",
    ),
    Alert(
        "KaiwoPluginBroken", "warning", f'max by (name) ({_name(of_host.PLUGIN)}{{state="broken"}}) == 1',
        5 * _MINUTE,
        "A plugin does not load, so workloads that need it wait. `kaiwo plugins` says why.",
    ),
    Alert(
        "KaiwoCertificateEnds", "warning",
        f"min({_name(of_host.CERTIFICATE_EXPIRY)} > 0) - time() < {14 * 24 * _HOUR}", _HOUR,
        "The certificate of the webhooks ends within 14 days and was not replaced.",
    ),
    Alert(
        "KaiwoGpusIdle", "warning",
        f"sum by (queue) (max by (queue, user) ({_name(of_host.GPUS_IDLE)})) > "
        f"0.5 * sum by (queue) (max by (queue, user) ({_name(of_host.GPUS_RESERVED)}))", _HOUR,
        "More than half of the GPUs that workloads of a queue hold have been idle for an hour.",
    ),
    Alert(
        "KaiwoMonitoringFails", "warning",
        f"max({_name(of_host.LAST_SCRAPE)}) > 0 and time() - max({_name(of_host.LAST_SCRAPE)}) > 900", 0,
        "The metrics endpoint was not read for 15 minutes. No workload is ended for idle GPUs meanwhile.",
    ),
    Alert(
        "KaiwoGpusOutsideQueues", "warning", "max(kaiwo_gpus_outside_queues) > 0", 15 * _MINUTE,
        "Nodes have GPUs that no flavor of any queue selects, so nobody can use them.",
    ),
)  # fmt: skip


def rules() -> dict[str, Any]:
    """The alerts as a rules file of Prometheus."""
    return {"groups": [{"name": GROUP, "rules": [_rule(alert) for alert in ALERTS]}]}


def _rule(alert: Alert) -> dict[str, Any]:
    return {
        "alert": alert.name,
        "expr": alert.expr,
        **({"for": f"{alert.seconds // _MINUTE}m"} if alert.seconds else {}),
        "labels": {"severity": alert.severity},
        "annotations": {"summary": alert.text.replace("`", ""), "runbook_url": _PAGE},
    }
