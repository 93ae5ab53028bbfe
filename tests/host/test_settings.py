"""Process settings: where they come from, who wins, and what wrong ones are answered with."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaiwo.host.settings import SETTINGS, Settings, SettingsError, describe, load
from kaiwo.plugin.selection import SETTINGS as PLUGIN_SETTINGS

if TYPE_CHECKING:
    from pathlib import Path


def test_flag_wins_over_environment_over_file_over_default(tmp_path: Path) -> None:
    """Each source overrides the ones below it, setting by setting."""
    file = tmp_path / "operator.yaml"
    file.write_text("metricsAddress: 127.0.0.1:1\nleaseName: from-file\nlogFormat: json\nworkers: 3\n")
    environ = {"KAIWO_METRICS_ADDRESS": "127.0.0.1:2", "KAIWO_LEASE_NAME": "from-env"}

    settings = load(flags={"metrics_address": "127.0.0.1:3"}, environ=environ, file=file)

    assert settings.metrics_address == ("127.0.0.1", 3)
    assert settings.lease_name == "from-env"
    assert (settings.log_format, settings.workers) == ("json", 3)
    assert settings.default_cluster_queue_name == "kaiwo"


def test_the_documented_variables_are_read() -> None:
    """The names that the product's documents give work as they say."""
    settings = load(
        environ={
            "DEFAULT_CLUSTER_QUEUE_NAME": "research",
            "RESOURCE_MONITORING_ENABLED": "true",
            "RESOURCE_MONITORING_METRICS_ENDPOINT": "http://prometheus:9090",
            "RESOURCE_MONITORING_POLLING_INTERVAL": "1m30s",
            "ENFORCE_KAIWO_ON_GPU_WORKLOADS": "1",
            "KAIWO_WEBHOOKS": "true",
        }
    )
    assert settings.default_cluster_queue_name == "research"
    assert settings.resource_monitoring_enabled
    assert settings.resource_monitoring_metrics_endpoint == "http://prometheus:9090"
    assert settings.resource_monitoring_polling_interval == 90
    assert settings.enforce_kaiwo_on_gpu_workloads


def test_probes_listen_on_loopback_by_default() -> None:
    """Nobody's metrics are open to the network by accident."""
    assert Settings().metrics_address[0] == "127.0.0.1"
    assert load(environ={"KAIWO_METRICS_ADDRESS": ":8080"}).metrics_address == ("0.0.0.0", 8080)
    assert load(environ={"KAIWO_METRICS_ADDRESS": "[::1]:9"}).metrics_address == ("::1", 9)


def test_webhooks_are_off_by_default_and_set_by_five_variables() -> None:
    """An operator without these variables serves nothing to the API server."""
    assert (Settings().webhooks, Settings().webhook_address, Settings().identity) == (
        False,
        ("0.0.0.0", 9443),
        "off",
    )
    settings = load(
        environ={
            "KAIWO_WEBHOOKS": "true",
            "KAIWO_WEBHOOK_ADDRESS": "127.0.0.1:0",
            "KAIWO_WEBHOOK_CERTIFICATES": "/certificates",
            "KAIWO_IDENTITY": "check",
            "ENFORCE_KAIWO_ON_GPU_WORKLOADS": "true",
        }
    )
    assert settings.webhooks
    assert settings.enforce_kaiwo_on_gpu_workloads
    assert settings.webhook_address == ("127.0.0.1", 0)
    assert str(settings.webhook_certificates) == "/certificates"
    assert settings.identity == "check"


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"KAIWO_METRICS_ADDRESS": "8080"}, "environment: KAIWO_METRICS_ADDRESS: '8080' is not ADDRESS:PORT"),
        ({"KAIWO_METRICS_ADDRESS": "here:80"}, "is not ADDRESS:PORT; write for example 127.0.0.1:8080"),
        ({"KAIWO_METRICS_ADDRESS": "127.0.0.1:70000"}, "is not ADDRESS:PORT"),
        ({"KAIWO_LEADER_ELECTION": "maybe"}, "KAIWO_LEADER_ELECTION: 'maybe' is not true or false"),
        ({"RESOURCE_MONITORING_POLLING_INTERVAL": "30"}, "write for example 30s"),
        ({"RESOURCE_MONITORING_POLLING_INTERVAL": "0s"}, "must be at least 1s; write for example 30s"),
        ({"RESOURCE_MONITORING_POLLING_INTERVAL": "1ms"}, "POLLING_INTERVAL: '1ms' must be at least 1s"),
        ({"KAIWO_PLUGIN_TIME_LIMIT": "1us"}, "'1us' must be at least 0.01s and at most 60s"),
        ({"KAIWO_PLUGIN_TIME_LIMIT": "1h"}, "'1h' must be at least 0.01s and at most 60s"),
        ({"RESOURCE_MONITORING_ENABLED": "true"}, "RESOURCE_MONITORING_METRICS_ENDPOINT is not set"),
        ({"RESOURCE_MONITORING_METRICS_ENDPOINT": "https://["}, "is not an http:// or https:// URL"),
        (
            {"RESOURCE_MONITORING_METRICS_ENDPOINT": "http://p", "RESOURCE_MONITORING_TOKEN_FILE": "/t"},
            "RESOURCE_MONITORING_TOKEN_FILE is set and RESOURCE_MONITORING_METRICS_ENDPOINT is not an https://",
        ),
        ({"RESOURCE_MONITORING_CA_FILE": "/ca"}, "write https, or leave the file out"),
        (
            {"RESOURCE_MONITORING_METRICS_ENDPOINT": "https://u@p", "RESOURCE_MONITORING_TOKEN_FILE": "/t"},
            "RESOURCE_MONITORING_METRICS_ENDPOINT has a user: leave one of them out",
        ),
        ({"KAIWO_IDENTITY": "guess"}, "is not one of off, set, check"),
        (
            {"KAIWO_IDENTITY": "set"},
            "KAIWO_IDENTITY is set and KAIWO_WEBHOOKS is not true: turn the webhooks on",
        ),
        ({"ENFORCE_KAIWO_ON_GPU_WORKLOADS": "1"}, "is true and KAIWO_WEBHOOKS is not true"),
        ({"KAIWO_WEBHOOK_ADDRESS": "9443"}, "KAIWO_WEBHOOK_ADDRESS: '9443' is not ADDRESS:PORT"),
        ({"KAIWO_WORKERS": "0"}, "is not an integer from 1 to 64"),
        ({"KAIWO_WORKERS": "many"}, "is not an integer from 1 to 64"),
        ({"KAIWO_LOG_FORMAT": "xml"}, "is not one of json, text"),
        ({"DEFAULT_CLUSTER_QUEUE_NAME": "My Queue"}, "is not a Kubernetes name"),
        ({"DEFAULT_CLUSTER_QUEUE_NAME": "größe"}, "is not a Kubernetes name"),
        ({"DEFAULT_CLUSTER_QUEUE_NAME": "team-"}, "is not a Kubernetes name"),
        ({"DEFAULT_CLUSTER_QUEUE_NAME": "q" * 64}, "at most 63 characters"),
        ({"KAIWO_WATCH_NAMESPACE": "team.a"}, "is not a Kubernetes name"),
        ({"KAIWO_WATCH_NAMESPACE": "team-a,Team-B"}, "is not a Kubernetes name"),
        ({"KAIWO_WATCH_NAMESPACE": ",".join(f"n{i}" for i in range(65))}, "more than 64 namespaces"),
        ({"KAIWO_SHARD": "Team A"}, "is not a Kubernetes name"),
        ({"KAIWO_SHARD": "a", "KAIWO_WATCH_NAMESPACE": "b"}, "KAIWO_WATCH_NAMESPACE is set: leave one"),
        ({"KAIWO_SHARD": "a", "KAIWO_LEADER_ELECTION": "false"}, "shards hand namespaces over by their"),
    ],
)
def test_a_wrong_value_is_answered_with_its_source_and_what_would_be_right(
    environ: dict[str, str], expected: str
) -> None:
    """The message names the variable, the value, and the way out."""
    with pytest.raises(SettingsError) as caught:
        load(environ=environ)
    assert expected in str(caught.value)


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    """Nobody has to start the operator five times to find five typos."""
    file = tmp_path / "operator.yaml"
    file.write_text("metricsAdress: 127.0.0.1:1\nworkers: [1]\n")
    with pytest.raises(SettingsError) as caught:
        load(flags={"log_format": "xml"}, environ={"KAIWO_LEASE_NAME": "Nope!"}, file=file)
    problems = "\n".join(caught.value.problems)
    assert 'metricsAdress: unknown setting; did you mean "metricsAddress"?' in problems
    assert f"{file}: workers: [1] is not an integer" in problems
    assert "--log-format: 'xml'" in problems
    assert "environment: KAIWO_LEASE_NAME: 'Nope!'" in problems


@pytest.mark.parametrize("content", ["- a\n", "a: [", "\x00", "just text", "{1: 2}", "a: &a [*a]"])
def test_a_broken_file_is_named(tmp_path: Path, content: str) -> None:
    """A settings file that cannot be read is an error with its path, never a traceback."""
    file = tmp_path / "operator.yaml"
    file.write_text(content)
    with pytest.raises(SettingsError) as caught:
        load(file=file)
    assert str(file) in str(caught.value)


def test_the_file_may_come_from_the_environment_and_may_be_missing(tmp_path: Path) -> None:
    """KAIWO_OPERATOR_CONFIG names the file; a missing file is reported, not ignored."""
    file = tmp_path / "operator.yaml"
    file.write_text("leaseName: mine\nplugins: [batch_job]\n")
    settings = load(environ={"KAIWO_OPERATOR_CONFIG": str(file)})
    assert (settings.lease_name, settings.selection.names) == ("mine", ("batch_job",))
    with pytest.raises(SettingsError, match="cannot be read"):
        load(environ={"KAIWO_OPERATOR_CONFIG": str(tmp_path / "none.yaml")})


def test_plugins_come_from_flag_environment_and_file(tmp_path: Path) -> None:
    """The selection follows the same precedence; an empty list loads nothing."""
    file = tmp_path / "operator.yaml"
    file.write_text("plugins: [a]\npluginsDisabled: [b]\n")
    assert load(file=file).selection.names == ("a",)
    assert load(file=file, environ={"KAIWO_PLUGINS": "c,d"}).selection.names == ("c", "d")
    chosen = load(file=file, environ={"KAIWO_PLUGINS": "c"}, flags={"plugins": ""}).selection
    assert (chosen.names, chosen.disabled) == ((), frozenset({"b"}))


def test_every_setting_is_documented_and_has_a_key_and_a_variable_of_its_own() -> None:
    """`kaiwo operator settings` lists them all."""
    rows = describe()
    assert len(rows) == len(SETTINGS) + len(PLUGIN_SETTINGS)
    assert len({row[0] for row in rows}) == len({row[1] for row in rows}) == len(rows)
    assert all(row[3] for row in rows)


@given(st.sampled_from([s.metadata["env"] for s in SETTINGS]), st.text(max_size=30))
def test_any_text_in_a_variable_is_either_taken_or_refused_in_words(variable: str, text: str) -> None:
    """No value of a variable crashes the start."""
    with contextlib.suppress(SettingsError):
        load(environ={variable: text})
        return
    with pytest.raises(SettingsError) as caught:
        load(environ={variable: text})
    assert all(variable in problem for problem in caught.value.problems)


@pytest.mark.parametrize(
    "source",
    [
        {"environ": {"KAIWO_WATCH_NAMESPACE": "b, a,,b"}},
        {"flags": {"watch_namespace": "b,a"}},
        {"file": "watchNamespace: [b, a]"},
        {"file": "watchNamespace: b,a"},
    ],
)
def test_namespaces_are_listed_in_every_source(tmp_path: Path, source: dict[str, Any]) -> None:
    """Separated by commas, or as a list in the file; each counts once and the order does not matter."""
    if "file" in source:
        file = tmp_path / "operator.yaml"
        file.write_text(source["file"])
        source = {"file": file}
    assert load(**source).watch_namespace == ("a", "b")
    assert load().watch_namespace == ()
