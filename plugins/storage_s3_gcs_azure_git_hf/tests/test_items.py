from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from kaiwo import testing
from kaiwo.api.schema import structural
from kaiwo.plugin.kit.fields import TargetPath
from kaiwo_storage_s3_gcs_azure_git_hf import fields, items, plugin

if TYPE_CHECKING:
    from pathlib import Path

SECRET = {"secretName": "creds", "secretKey": "key"}
FILE = {"path": "models/a.bin", "targetPath": "a.bin"}
FOLDER = {"path": "models", "targetPath": "models"}
BUCKET = {"name": "data", "files": [FILE]}
S3 = {"endpointUrl": "https://s3.us-east-1.amazonaws.com", "buckets": [BUCKET]}
GIT = {"repository": "https://github.com/user/repo.git", "targetPath": "src"}
DIGEST = "a" * 64
COMMIT = "0123456789" * 4

VALID: dict[str, list[dict[str, Any]]] = {
    "s3": [
        S3,
        {**S3, "region": "eu-north-1", "accessKeyId": SECRET, "secretKey": SECRET},
        {**S3, "endpointUrl": "http://minio.minio:9000"},
        {**S3, "buckets": [{"name": "b", "folders": [FOLDER, {**FOLDER, "path": "", "glob": "**/*.json"}]}]},
        {**S3, "buckets": [{"name": "b", "files": [{**FILE, "sha256": DIGEST}], "folders": [FOLDER]}]},
    ],
    "gcs": [
        {"buckets": [BUCKET]},
        {"applicationCredentials": {**SECRET, "file": "/tmp/key"}, "buckets": [BUCKET]},
    ],
    "azure_blob": [{"connectionString": SECRET, "containers": [BUCKET]}, {"containers": [BUCKET]}],
    "git": [
        GIT,
        {**GIT, "branch": "main", "commit": COMMIT, "path": "examples", "targetPath": ""},
        {**GIT, "commit": COMMIT.upper(), "username": SECRET, "token": SECRET},
        {**GIT, "commit": "ab" * 32, "lfs": True},
    ],
    "hugging_face": [
        {"repoId": "meta-llama/Llama-2-7b-chat-hf"},
        {"repoId": "gpt2", "files": ["config.json", "model.safetensors"], "revision": "refs/pr/1"},
    ],
}

INVALID: dict[str, list[dict[str, Any]]] = {
    "s3": [
        {},
        {"endpointUrl": S3["endpointUrl"]},
        {**S3, "buckets": []},
        {**S3, "buckets": [{"name": "data"}]},
        {**S3, "buckets": [{"files": [FILE]}]},
        {**S3, "endpointUrl": "s3.amazonaws.com"},
        {**S3, "endpointUrl": "file:///etc/passwd"},
        {**S3, "endpoint_url": "https://x"},
        {**S3, "accessKeyId": SECRET},
        {**S3, "secretKey": SECRET},
        {**S3, "region": "eu north"},
        {**S3, "buckets": [{"name": "b", "files": [{"path": "a"}]}]},
        {**S3, "buckets": [{"name": "b", "files": [{**FILE, "targetPath": "/etc/passwd"}]}]},
        {**S3, "buckets": [{"name": "b", "files": [{**FILE, "targetPath": "a/../../b"}]}]},
        {**S3, "buckets": [{"name": "b", "files": [{**FILE, "targetPath": ""}]}]},
        {**S3, "buckets": [{"name": "b", "files": [{**FILE, "sha256": "abc"}]}]},
        {**S3, "buckets": "data"},
    ],
    "gcs": [{}, {"applicationCredentials": "key.json", "buckets": [BUCKET]}],
    "azure_blob": [
        {"connectionString": SECRET},
        {"connectionString": {"secretName": "a"}, "containers": [BUCKET]},
    ],
    "git": [
        {"repository": GIT["repository"]},
        {**GIT, "repository": "git@github.com:user/repo.git"},
        {**GIT, "repository": "ext::sh -c id"},
        {**GIT, "branch": "--upload-pack=id"},
        {**GIT, "commit": "main"},
        {**GIT, "commit": "deadbeef"},
        {**GIT, "commit": "a" * 39},
        {**GIT, "commit": "a" * 41},
        {**GIT, "lfs": "yes"},
        {**GIT, "path": "../other"},
        {**GIT, "token": "plain-text-token"},
    ],
    "hugging_face": [
        {},
        {"repoId": "a/b/c"},
        {"repoId": "../x"},
        {"repoId": "a b"},
        {"repoId": "a", "revision": "-x"},
    ],
}


@pytest.mark.parametrize("source", testing.plugins(plugin).sources, ids=lambda source: source.name)
def test_every_source_keeps_the_contract_and_refuses_what_cannot_be_fetched(source: Any) -> None:
    """Items as the documents show them are taken, and mistakes are reported before anything runs."""
    testing.assert_source_contract(source, valid=VALID[source.name], invalid=INVALID[source.name])


def test_the_five_documented_fields_are_there_on_both_kinds() -> None:
    """S3, GCS, Azure, git and the Hugging Face Hub, where the documents put them."""
    paths = {(field.kind, ".".join(field.path)) for field in testing.plugins(plugin).fields()}
    assert paths == {
        (kind, path)
        for kind in ("KaiwoJob", "KaiwoService")
        for path in (
            "storage.data.download.s3",
            "storage.data.download.gcs",
            "storage.data.download.azureBlob",
            "storage.data.download.git",
            "storage.huggingFace.preCacheRepos",
        )
    }


def test_the_plugin_loads_without_what_only_the_download_container_has() -> None:
    """The operator must not need object store or Hub clients."""
    code = (
        "import sys; from kaiwo_storage_s3_gcs_azure_git_hf import plugin; plugin.kaiwo_download_sources(); "
        "print([m for m in ('obstore', 'huggingface_hub', 'httpx2', 'hf_xet') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_download_program_loads_no_yaml_parser_for_the_operators_json(tmp_path: Path) -> None:
    """Its start is a good part of a short download, and the operator writes JSON."""
    config = tmp_path / "config.yaml"
    config.write_text('{"version": 1, "items": {}}')
    code = (
        "import sys; from kaiwo_storage_s3_gcs_azure_git_hf.download import main; "
        f"main.read_config({str(config)!r}); print('yaml' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_commit_is_ignored_when_a_branch_is_given() -> None:
    """The branch wins, as documented."""
    both = items.GitDownloadItem.parse({**GIT, "branch": "main", "commit": COMMIT})
    assert both.exact_commit is None
    assert items.GitDownloadItem.parse({**GIT, "commit": COMMIT}).exact_commit == COMMIT


@given(st.lists(st.sampled_from(["a", "..", ".", "", "b.c", "..d"]), min_size=1, max_size=5))
def test_no_target_path_leaves_the_volume(parts: list[str]) -> None:
    """Whatever is accepted stays inside the directory it is relative to."""
    path = "/".join(parts)
    try:
        TypeAdapter(TargetPath).validate_python(path)
    except ValidationError:
        assert path.startswith("/") or ".." in parts
    else:
        assert not path.startswith("/")
        assert ".." not in parts


def test_the_api_server_adds_nothing_to_an_item() -> None:
    """What a user wrote stays as it is: no schema default puts empty lists into live objects."""
    for source in testing.plugins(plugin).sources:
        assert '"default"' not in json.dumps(structural(source.item))


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        (fields.RepoId, "https://huggingface.co/org/model", 'write its name alone, such as "org/model"'),
        (fields.GitRef, "-b main", "a branch, tag or commit"),
        (fields.GitRef, "release/*", "not the name of a branch"),
        (fields.GitRef, "main:other", "not the name of a branch"),
        (fields.Commit, "0a1b2c3", "a full commit hash"),
        (fields.Region, "us east", "a region such as us-east-1"),
    ],
)
def test_a_text_of_the_wrong_form_is_answered_in_words(kind: Any, value: str, words: str) -> None:
    """A pattern tells nobody what to write."""
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(kind).validate_python(value)
    (error,) = caught.value.errors()
    assert error["type"] == "value_error"
    assert words in error["msg"]


@pytest.mark.parametrize("name", ["main", "feature/x", "v1.0", "refs/pr/1", "ü", "user@host", "0" * 40])
def test_names_that_git_and_the_hub_allow_are_taken(name: str) -> None:
    """Slashes too."""
    assert TypeAdapter(fields.GitRef).validate_python(name) == name
