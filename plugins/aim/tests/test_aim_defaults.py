"""AIMNamespaceConfig: what workloads get of it, and that their own values win."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import kaiwo_aim.plugin
import kaiwo_batch_job.plugin
import kaiwo_storage_s3_gcs_azure_git_hf.plugin
from kaiwo import testing
from kaiwo.plugin.namespace_defaults import same_server
from kaiwo_aim.defaults import S3, Gateway, read_config
from kaiwo_aim.route import not_accepted, port_of, served_by, service_names

Object = dict[str, Any]

LOADED = testing.plugins(kaiwo_aim.plugin, kaiwo_batch_job.plugin, kaiwo_storage_s3_gcs_azure_git_hf.plugin)
GOLDEN = Path(__file__).parent / "golden"
AWS = "https://s3.us-east-1.amazonaws.com"
BUCKETS = [{"name": "models", "folders": [{"path": ".", "targetPath": "m"}]}]
ALL: Object = {
    "credentials": {
        "huggingFaceToken": {"secretName": "hub", "secretKey": "token"},
        "s3": [
            {
                "endpointUrl": AWS,
                "accessKeyId": {"secretName": "s3", "secretKey": "id"},
                "secretAccessKey": {"secretName": "s3", "secretKey": "key"},
            }
        ],
        "gcs": [{"applicationCredentials": {"secretName": "gcs", "secretKey": "json"}}],
        "azureBlob": [{"connectionString": {"secretName": "az", "secretKey": "string"}}],
    },
    "images": {"imagePullSecrets": ["registry", "mirror"]},
    "gateway": {"name": "shared", "namespace": "gateways"},
}


def defaults(spec: object, name: str = "default", created: str = "2026-01-01T00:00:00Z") -> Object:
    """An AIMNamespaceConfig."""
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "creationTimestamp": created}
    return {
        "apiVersion": "config.kaiwo.silogen.ai/v1alpha1",
        "kind": "AIMNamespaceConfig",
        "metadata": metadata,
        "spec": spec,
    }


def rendered(workload: Object, *objects: Object) -> dict[str, Object]:
    """What is created for a workload, by kind; the download Job is DownloadJob."""
    text = testing.render(workload, LOADED, namespace_defaults=objects)
    found = {}
    for obj in yaml.safe_load_all(text):
        download = obj["kind"] == "Job" and obj["metadata"]["name"].endswith("-download")
        found["DownloadJob" if download else obj["kind"]] = obj
    return found


def storage(hf: bool = False, **sources: Any) -> Object:
    """Storage with downloads, and a Hugging Face volume."""
    found: Object = {"storageEnabled": True}
    if sources:
        found["data"] = {"storageSize": "1Gi", "download": sources}
    if hf:
        found["huggingFace"] = {"storageSize": "1Gi", "preCacheRepos": [{"repoId": "org/model"}]}
    return found


def variables(job: Object) -> dict[str, Any]:
    """The environment of the first container, by name."""
    container = job["spec"]["template"]["spec"]["containers"][0]
    return {item["name"]: item.get("value") or item["valueFrom"] for item in container.get("env") or ()}


def test_the_declared_defaults_meet_the_contract() -> None:
    """The host's rules for defaults hold, also for malformed objects."""
    (declared,) = LOADED.namespace_defaults
    half = {
        "credentials": {"s3": [{"endpointUrl": AWS, "accessKeyId": {"secretName": "a", "secretKey": "b"}}]}
    }
    token = {"credentials": {"huggingFaceToken": {"secretName": "UPPER", "secretKey": "t"}}}
    testing.assert_defaults_contract(
        declared,
        [defaults(ALL)],
        malformed=[defaults("text"), defaults({"credentials": []}), defaults(half), defaults(token)],
    )


def test_a_workload_gets_what_the_golden_file_says() -> None:
    """The token for the hub, keys for the endpoint, pull secrets: only references to Secrets."""
    sources = {
        "s3": [{"endpointUrl": f"{AWS}:443/", "buckets": BUCKETS}],
        "gcs": [{"buckets": BUCKETS}],
        "azureBlob": [{"containers": BUCKETS}],
    }
    workload = testing.job(storage=storage(hf=True, **sources), imagePullSecrets=[{"name": "own"}])
    text = testing.render(workload, LOADED, namespace_defaults=[defaults(ALL)])
    testing.assert_golden(text, GOLDEN / "all.yaml")


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ([], {"secretKeyRef": {"name": "hub", "key": "token"}}),
        ([{"name": "HF_TOKEN", "value": "own"}], "own"),
        ([{"name": "HUGGING_FACE_HUB_TOKEN", "value": "own"}], None),
        ([{"name": "HF_TOKEN_PATH", "value": "/token"}], None),
    ],
)
def test_a_token_of_the_user_wins(env: list[Object], expected: object) -> None:
    """Whatever variable gives it, in the pod and in its download."""
    found = rendered(testing.job(storage=storage(hf=True), env=env), defaults(ALL))
    assert variables(found["Job"]).get("HF_TOKEN") == expected
    assert variables(found["DownloadJob"]).get("HF_TOKEN") == expected


def test_the_token_goes_only_where_a_hugging_face_volume_is() -> None:
    """Neither to other workloads nor to downloads from elsewhere."""
    assert "HF_TOKEN" not in variables(rendered(testing.job(), defaults(ALL))["Job"])
    found = rendered(testing.job(storage=storage(gcs=[{"buckets": BUCKETS}])), defaults(ALL))
    assert "HF_TOKEN" not in variables(found["DownloadJob"])


def test_a_template_with_environment_of_unknown_content_gets_no_token() -> None:
    """What envFrom brings cannot be known without reading a Secret, and it may be the user's own token."""
    container = {"name": "main", "image": "i", "envFrom": [{"secretRef": {"name": "mine"}}]}
    workload = testing.job(
        storage=storage(hf=True), job={"spec": {"template": {"spec": {"containers": [container]}}}}
    )
    assert "HF_TOKEN" not in variables(rendered(workload, defaults(ALL))["Job"])


def test_pull_secrets_are_added_once() -> None:
    """After the workload's own."""
    found = rendered(testing.job(imagePullSecrets=[{"name": "mirror"}]), defaults(ALL))
    secrets = found["Job"]["spec"]["template"]["spec"]["imagePullSecrets"]
    assert [item["name"] for item in secrets] == ["mirror", "registry"]


@pytest.mark.parametrize(
    ("endpoint", "same"),
    [
        (AWS, True),
        (f"{AWS}/", True),
        (f"{AWS}:443", True),
        ("https://S3.US-East-1.amazonaws.com", True),
        ("https://s3.us-east-1.amazonaws.com.", True),
        ("http://s3.us-east-1.amazonaws.com", False),
        (f"{AWS}:8443", False),
        (f"{AWS}/tenant", False),
        (f"{AWS}.evil.example", False),
        ("https://s3.us-east-1.amazonaws.com@evil.example", False),
        ("https://[", False),
        ("https://s3.us-east-1.amazonaws.com:port", False),
        ("", False),
    ],
)
def test_keys_go_to_their_endpoint_only(endpoint: str, same: bool) -> None:
    """Spelling does not matter; another server never gets them."""
    assert same_server(endpoint, AWS) is same
    assert same_server(AWS, endpoint) is same


@given(st.text(), st.text())
def test_any_two_texts_can_be_compared(one: str, other: str) -> None:
    """In either order with the same result."""
    assert same_server(one, other) is same_server(other, one)


def test_an_item_with_keys_of_its_own_keeps_them() -> None:
    """Beside one that gets those of the namespace, and one for another endpoint."""
    own = {
        "accessKeyId": {"secretName": "me", "secretKey": "i"},
        "secretKey": {"secretName": "me", "secretKey": "k"},
    }
    given_items = [
        {"endpointUrl": AWS, "buckets": BUCKETS, **own},
        {"endpointUrl": AWS, "buckets": BUCKETS},
        {"endpointUrl": "https://other.example", "buckets": BUCKETS},
    ]
    found = rendered(testing.job(storage=storage(s3=given_items)), defaults(ALL))
    listed = yaml.safe_load(found["ConfigMap"]["data"]["config.yaml"])
    text = yaml.safe_dump(listed)
    assert text.count("secretName: me") == 2
    assert text.count("secretName: s3") == 2
    volumes = found["DownloadJob"]["spec"]["template"]["spec"]["volumes"]
    assert {v["secret"]["secretName"] for v in volumes if "secret" in v} == {"me", "s3"}


def test_an_item_that_needs_credentials_and_gets_none_is_refused() -> None:
    """With the path of the field; otherwise the download would only fail later."""
    workload = testing.job(storage=storage(azureBlob=[{"containers": BUCKETS}]))
    with pytest.raises(
        AssertionError, match=r"InvalidSpec: spec.storage.data.download.azureBlob\[0\].connection"
    ):
        testing.render(workload, LOADED)


@pytest.mark.parametrize(
    ("objects", "secret"),
    [
        (["old:2026-01-01", "new:2026-02-01"], "old"),
        (["old:2026-01-01", "default:2026-02-01"], "default"),
        (["b:2026-01-01", "a:2026-01-01"], "a"),
    ],
)
def test_of_several_objects_one_counts(objects: list[str], secret: str) -> None:
    """The one named default, else the oldest; of equally old ones the first by name."""
    many = [
        defaults({"images": {"imagePullSecrets": [name]}}, name, f"{day}T00:00:00Z")
        for name, _, day in (text.partition(":") for text in objects)
    ]
    found = rendered(testing.job(), *many)
    assert found["Job"]["spec"]["template"]["spec"]["imagePullSecrets"] == [{"name": secret}]


def test_a_malformed_part_stops_only_workloads_that_need_it() -> None:
    """And the message names the object and the field."""
    broken = defaults({**ALL, "credentials": {**ALL["credentials"], "s3": [{"endpointUrl": 7}]}})
    assert rendered(testing.job(), broken)["Job"]
    assert rendered(testing.job(storage=storage(hf=True)), broken)["DownloadJob"]
    needs = testing.job(storage=storage(s3=[{"endpointUrl": AWS, "buckets": BUCKETS}]))
    with pytest.raises(
        AssertionError, match=r"InvalidNamespaceDefaults: AIMNamespaceConfig default: spec.*endpointUrl"
    ):
        testing.render(needs, LOADED, namespace_defaults=[broken])
    keys = {"secretName": "me", "secretKey": "k"}
    own = {"endpointUrl": AWS, "buckets": BUCKETS, "accessKeyId": keys, "secretKey": keys}
    assert rendered(testing.job(storage=storage(s3=[own])), broken)["DownloadJob"]


def test_what_is_valid_and_useless_is_named() -> None:
    """Entries that no item can mean are in the condition, and change nothing else."""
    first = ALL["credentials"]["s3"][0]
    second = {**first, "endpointUrl": f"{AWS}/"}
    spec = {
        "credentials": {
            "s3": [first, second, {"endpointUrl": "https://other.example"}, {}],
            "gcs": [*ALL["credentials"]["gcs"], *ALL["credentials"]["gcs"], {}],
        },
        "gateway": {},
    }
    found = read_config(defaults(spec))
    assert not found.faults
    assert len(found.unused) == 6
    assert [entry.path for entry in found.values.credentials].count(S3) == 1
    assert found.gateway is None
    assert read_config(defaults({"gateway": {"name": "g"}})).gateway == Gateway("g", "default")


@pytest.mark.parametrize(
    ("ports", "port"),
    [
        ([{"port": 80}], 80),
        ([{"port": 9000, "name": "metrics"}, {"port": 8000, "name": "http"}], 8000),
        ([{"port": 8265, "name": "dashboard"}, {"port": 8000, "name": "serve"}], 8000),
        ([{"port": 53, "protocol": "UDP"}], None),
        (None, None),
    ],
)
def test_the_port_of_a_service(ports: object, port: int | None) -> None:
    """The one for HTTP by its name, else the first."""
    assert port_of({"spec": {"ports": ports}}) == port


def test_the_names_of_services() -> None:
    """Those of a Deployment and of KubeRay."""
    assert service_names("chat") == ("chat", "chat-serve-svc")


@pytest.mark.parametrize("name", ["chat", "c" * 40, "c" * 41, f"{'c' * 9}-{'d' * 40}", "e" * 47])
def test_each_service_leads_to_its_workload(name: str) -> None:
    """Also one of which KubeRay has cut the name: its route follows it."""
    for service in service_names(name):
        assert name in served_by(service, lambda: [name, "other"])
        assert "other" not in served_by(service, lambda: [name, "other"])


def test_what_another_gateway_said_does_not_count() -> None:
    """It stays in the status of a route that was attached to it before."""
    gateway = Gateway("new", "gateways")

    def answered(status: str, **of: str) -> Object:
        refused = {"type": "Accepted", "status": status, "reason": "NoMatch", "message": "m"}
        return {"parentRef": of, "conditions": [refused]}

    def said(*parents: Object) -> str:
        return not_accepted({"metadata": {"namespace": "team"}, "status": {"parents": [*parents]}}, gateway)

    before = answered("False", name="old", namespace="gateways")
    assert said(before, answered("True", name="new", namespace="gateways")) == ""
    assert said(before, answered("False", name="new")) == ""
    assert said(before, answered("False", name="new", namespace="gateways")) == "NoMatch: m"
