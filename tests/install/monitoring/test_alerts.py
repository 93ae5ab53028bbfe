"""Each alert fires when it should, and none fires on a platform that is well."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from docs.generate.metrics import of_plugins
from kaiwo.host.metrics.definitions import DEFINITIONS
from kaiwo.install.monitoring.alerts import ALERTS, rules
from kaiwo.testing.golden import assert_golden

if TYPE_CHECKING:
    from collections.abc import Callable

FILE = Path(__file__).parents[3] / "deploy" / "monitoring" / "rules.yaml"

WELL = {
    'leader_election_master_status{name="kaiwo",pod="a"}': "1+0x120",
    'leader_election_master_status{name="kaiwo",pod="b"}': "0+0x120",
    'kaiwo_health_check{check="writes",pod="a"}': "1+0x120",
    'kaiwo_workloads{kind="KaiwoJob",status="RUNNING",reason_class="running",queue="q",pod="a"}': "4+0x120",
    'kaiwo_workloads_ended_total{kind="KaiwoJob",status="COMPLETE",queue="q",pod="a"}': "0+1x120",
    'kaiwo_workloads_ended_total{kind="KaiwoJob",status="FAILED",queue="q",pod="a"}': "0+0.2x120",
    'controller_runtime_reconcile_total{controller="kaiwojob",result="success",pod="a"}': "0+10x120",
    'controller_runtime_reconcile_errors_total{controller="kaiwojob",pod="a"}': "0+1x120",
    'workqueue_depth{name="kaiwojob",controller="kaiwojob",pod="a"}': "0 500 0 500 0 500 0+0x114",
    'kaiwo_config_condition{kind="KaiwoConfig",condition="Ready",status="True",pod="a"}': "1+0x120",
    'kaiwo_config_recreated{pod="a"}': "0+0x120",
    'kaiwo_plugin{name="ray_job",state="loaded",pod="a"}': "1+0x120",
    'kaiwo_webhook_certificate_expiry_timestamp_seconds{pod="a"}': "5000000+0x120",
    'kaiwo_webhook_certificate_expiry_timestamp_seconds{pod="b"}': "0+0x120",
    'kaiwo_gpus_reserved{queue="q",pod="a"}': "8+0x120",
    'kaiwo_gpus_reserved{queue="q",pod="b"}': "8+0x120",
    'kaiwo_gpus_idle{queue="q",pod="a"}': "3+0x120",
    'kaiwo_gpus_idle{queue="q",pod="b"}': "3+0x120",
    'kaiwo_gpus_outside_queues{pod="a"}': "0+0x120",
    'kaiwo_monitoring_last_success_timestamp_seconds{pod="a"}': "0+60x120",
    'kaiwo_monitoring_last_success_timestamp_seconds{pod="b"}': "0+0x120",
}
"""Two processes for two hours; what may happen without harm is in it."""

ILL = {
    "KaiwoNotLeading": {'leader_election_master_status{name="kaiwo",pod="a"}': "0+0x120"},
    "KaiwoSeveralLeaders": {'leader_election_master_status{name="kaiwo",pod="b"}': "1+0x120"},
    "KaiwoUnhealthy": {'kaiwo_health_check{check="writes",pod="a"}': "0+0x120"},
    "KaiwoWritesFail": {
        'kaiwo_failing_writes{cause="Webhook",verb="create",resource="jobs.batch"}': "1+0x120"
    },
    "KaiwoWorkloadsNotReconciled": {'kaiwo_workloads{kind="KaiwoJob",status="",queue=""}': "3+0x120"},
    "KaiwoReconciliationsFail": {
        'controller_runtime_reconcile_errors_total{controller="kaiwojob",pod="a"}': "0+3x120"
    },
    "KaiwoQueueGrows": {'workqueue_depth{name="kaiwojob",controller="kaiwojob",pod="a"}': "500+0x120"},
    "KaiwoManyFailures": {
        'kaiwo_workloads_ended_total{kind="KaiwoJob",status="FAILED",queue="q",pod="a"}': "0+2x120"
    },
    "KaiwoConfigNotInForce": {
        'kaiwo_config_condition{kind="KaiwoConfig",condition="Ready",status="True",pod="a"}': "0+0x120"
    },
    "KaiwoConfigRecreated": {'kaiwo_config_recreated{pod="a"}': "1+0x120"},
    "KaiwoPluginBroken": {'kaiwo_plugin{name="ray_job",state="broken",pod="a"}': "1+0x120"},
    "KaiwoCertificateEnds": {'kaiwo_webhook_certificate_expiry_timestamp_seconds{pod="a"}': "800000+0x120"},
    "KaiwoGpusIdle": {
        'kaiwo_gpus_idle{queue="q",pod="a"}': "5+0x120",
        'kaiwo_gpus_idle{queue="q",pod="b"}': "5+0x120",
    },
    "KaiwoMonitoringFails": {'kaiwo_monitoring_last_success_timestamp_seconds{pod="a"}': "60+0x120"},
    "KaiwoGpusOutsideQueues": {'kaiwo_gpus_outside_queues{pod="a"}': "8+0x120"},
}
"""What makes each alert fire."""


def test_the_file_is_what_the_definitions_give() -> None:
    """An alert that changes changes the file."""
    assert_golden(yaml.safe_dump(rules(), sort_keys=False, width=1000), FILE)


def test_alerts_name_metrics_that_exist() -> None:
    """A metric that is renamed is renamed here too."""
    known = {item.name for item in DEFINITIONS} | {name for name, _ in of_plugins()}
    words = {
        word
        for alert in ALERTS
        for word in re.findall(r"\b(?:kaiwo|workqueue|controller_runtime|leader)_\w+", alert.expr)
    }
    assert words <= known


def test_every_alert_has_a_case() -> None:
    """No alert is untested."""
    assert {alert.name for alert in ALERTS} == set(ILL)


def test_prometheus_reads_the_rules(promtool: Callable[..., None]) -> None:
    """As it would load them."""
    promtool("check", "rules", FILE)


def _case(series: dict[str, str], firing: str | None) -> dict[str, Any]:
    """Only this alert fires after 100 minutes, and every other one is silent."""
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {
                "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": "100m",
                "exp_samples": [{"labels": f'{{alertname="{firing}"}}', "value": 1}] if firing else [],
            }
        ],
    }


@pytest.mark.usefixtures("promtool")
def test_each_alert_fires_alone(promtool: Callable[..., None], tmp_path: Path) -> None:
    """What is well makes no alert, and each fault makes its own."""
    cases = [_case(WELL, None), *(_case({**WELL, **ILL[alert.name]}, alert.name) for alert in ALERTS)]
    file = tmp_path / "test.yaml"
    file.write_text(
        yaml.safe_dump({"rule_files": [str(FILE)], "evaluation_interval": "1m", "tests": cases}),
        encoding="utf-8",
    )
    promtool("test", "rules", file)


def test_definitions_follow_the_conventions_of_prometheus(promtool: Callable[..., None]) -> None:
    """Units at the end, counters with _total, a help text for each."""
    lines = []
    for item in DEFINITIONS:
        labels = ",".join(f'{label}="x"' for label in item.labels)
        lines += [f"# HELP {item.name} {item.text}", f"# TYPE {item.name} {item.type}"]
        if item.type == "histogram":
            within = f"{labels}," if labels else ""
            lines += [
                f'{item.name}_bucket{{{within}le="+Inf"}} 1',
                f"{item.name}_sum{{{labels}}} 1",
                f"{item.name}_count{{{labels}}} 1",
            ]
        else:
            lines.append(f"{item.name}{{{labels}}} 1")
    promtool("check", "metrics", stdin=("\n".join(lines) + "\n").encode())
