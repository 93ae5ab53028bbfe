from __future__ import annotations

import hashlib
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from kaiwo import testing
from kaiwo_source_http import plugin

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CONTENT = bytes(range(256)) * 4000
ITEM = {"url": "https://example.com/models/tiny.bin", "targetPath": "models/tiny.bin"}
BAD = [
    {**ITEM, "url": "ftp://example.com/x"},
    {**ITEM, "url": "https://example.com"},
    {**ITEM, "url": "https://user:pw@example.com/x"},
    {**ITEM, "url": "https://example.com/x?token=1"},
    {**ITEM, "targetPath": "/etc/passwd"},
    {**ITEM, "targetPath": "../x"},
    {**ITEM, "targetPath": ""},
    {**ITEM, "sha256": "abc"},
    {"url": ITEM["url"]},
]
HOLD = "kaiwo-sandbox/hold"
NAMESPACE = "example"
WORKLOADS = f"/apis/kaiwo.silogen.ai/v1alpha1/namespaces/{NAMESPACE}/kaiwojobs"
JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
CORE = f"/api/v1/namespaces/{NAMESPACE}"


def items(web: str, **more: str) -> list[dict[str, str]]:
    """The one file of the web server."""
    digest = hashlib.sha256(CONTENT).hexdigest()
    return [{"url": f"{web}/models/tiny%201.bin", "targetPath": "in/tiny.bin", "sha256": digest, **more}]


def job(name: str, wanted: list[dict[str, str]]) -> dict[str, Any]:
    """A KaiwoJob that wants files of a web server."""
    data = {"storageSize": "1Gi", "download": {"http": wanted}}
    return {
        "apiVersion": "kaiwo.silogen.ai/v1alpha1",
        "kind": "KaiwoJob",
        "metadata": {"name": name, "annotations": {HOLD: "true"}},
        "spec": {
            "image": "registry.example/train:1",
            "entrypoint": "python train.py",
            "storage": {"storageEnabled": True, "data": data},
        },
    }


def seen(api: Any, path: str, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The first object of a collection that is as wanted, waited for."""
    with closing(api.watch(path, timeout=90)) as changes:
        for change in changes:
            found: dict[str, Any] = change["object"]
            if change["type"] != "DELETED" and wanted(found):
                return found
    raise AssertionError(f"{path} never had it: {api.get(path)}")


def held(pod: dict[str, Any]) -> bool:
    """Whether a pod waits to be let go."""
    return HOLD in pod["metadata"].get("annotations", {}) and bool(pod["spec"].get("nodeName"))


def test_the_source_keeps_the_contract() -> None:
    """What it takes composes into both kinds of workload, and what is wrong is refused."""
    (source,) = testing.plugins(plugin).sources
    testing.assert_source_contract(source, valid=[ITEM, {**ITEM, "sha256": "0" * 64}], invalid=BAD)


def test_a_file_is_fetched_and_checked(web: str, tmp_path: Path) -> None:
    """By the real download program, of items as users write them."""
    (source,) = testing.plugins(plugin).sources
    assert testing.download(source, items(web), folder=tmp_path / "right").files == {"in/tiny.bin": CONTENT}
    wrong = testing.download(source, items(web, sha256="0" * 64), folder=tmp_path / "wrong")
    assert (wrong.code, wrong.files) == (4, {}), wrong.log


def test_an_item_that_is_wrong_is_named(web: str, tmp_path: Path) -> None:
    """Of several the second one; a user finds it by its place in the list."""
    (source,) = testing.plugins(plugin).sources
    wrong = testing.download(source, [*items(web), {**items(web)[0], "targetPath": "../x"}], folder=tmp_path)
    assert wrong.code == 2, wrong.log
    assert "http[1]" in wrong.log


@pytest.mark.slow
@pytest.mark.timeout(600)
class TestInstalled:
    """From wheels, in an environment where nothing else is."""

    def test_the_crd_has_the_field(self, installed: Any) -> None:
        """Next to those of the first party, for both kinds."""
        rendered = installed.run("kaiwo", "manifests", "crds")
        assert rendered.returncode == 0, rendered.stderr
        crds = {crd["spec"]["names"]["kind"]: crd for crd in yaml.safe_load_all(rendered.stdout)}
        for kind in ("KaiwoJob", "KaiwoService"):
            schema = crds[kind]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
            data = schema["properties"]["spec"]["properties"]["storage"]["properties"]["data"]
            download = data["properties"]["download"]["properties"]
            assert set(download) == {"s3", "gcs", "azureBlob", "git", "http"}
            assert set(download["http"]["items"]["properties"]) == {"url", "sha256", "targetPath"}
            assert set(download["http"]["items"]["required"]) == {"url", "targetPath"}

    @pytest.mark.cluster
    def test_a_job_downloads_before_it_runs(
        self, installed: Any, cluster: Any, web: str, tmp_path: Path
    ) -> None:
        """The API server judges items; the operator prepares the download, which is run here; the job runs.

        Nodes of the sandbox run nothing, so this test stands in for the kubelet: it lays out the files that
        the download pod would have and runs the command that the pod would run.
        """
        with pytest.raises(Exception, match=r"download.http\[0\].url") as refused:
            cluster.api.create(WORKLOADS, job("wrong", [{**ITEM, "url": "ftp://example.com/x"}]))
        assert refused.value.status == 422  # type: ignore[attr-defined] # SandboxApiError
        cluster.api.create(WORKLOADS, job("train", items(web)))
        prepared = seen(cluster.api, JOBS, lambda obj: obj["metadata"]["name"] == "train-download")
        (container,) = prepared["spec"]["template"]["spec"]["containers"]
        config = cluster.api.get(f"{CORE}/configmaps/train-download")["data"]["config.yaml"]
        (tmp_path / "config").mkdir()
        (tmp_path / "config" / "config.yaml").write_text(config, encoding="utf-8")
        for mount in container["volumeMounts"]:
            (tmp_path / mount["mountPath"].lstrip("/")).mkdir(parents=True, exist_ok=True)
        (program,) = container["command"]
        *flags, place = container["args"]
        done = installed.run(program, *flags, f"{tmp_path}{place}", "--target-root", str(tmp_path))
        assert done.returncode == 0, done.stderr
        volume = tmp_path / yaml.safe_load(config)["dataMountPath"].lstrip("/")
        assert (volume / "in" / "tiny.bin").read_bytes() == CONTENT

        names = [obj["metadata"]["name"] for obj in cluster.api.get(JOBS)["items"]]
        assert names == ["train-download"], "the job's own object came before the download was done"
        for _ in ("the download's pod", "the job's own"):
            pod = seen(cluster.api, f"{CORE}/pods", held)
            cluster.api.request(
                "PATCH",
                f"{CORE}/pods/{pod['metadata']['name']}",
                {"metadata": {"annotations": {HOLD: None}}},
                content_type="application/merge-patch+json",
            )
        seen(cluster.api, WORKLOADS, lambda obj: obj.get("status", {}).get("status") == "COMPLETE")

    def test_a_bad_item_is_refused_with_its_place(self, installed: Any) -> None:
        """Before anything is sent anywhere."""
        wrong = job("train", [{**ITEM, "targetPath": "../x"}])
        (installed.directory / "bad.yaml").write_text(yaml.safe_dump(wrong), encoding="utf-8")
        done = installed.run("kaiwo", "plan", "-f", "bad.yaml", "--offline")
        assert done.returncode != 0
        assert "spec.storage.data.download.http[0].targetPath" in done.stdout + done.stderr
        assert "without '..'" in done.stdout + done.stderr

    def test_the_download_program_fetches(self, installed: Any, web: str, tmp_path: Path) -> None:
        """From a document as the operator writes it; a wrong sha256 is exit code 4 and leaves no file."""
        volume = tmp_path / "volume"
        volume.mkdir()
        document = {
            "version": 1,
            "dataMountPath": str(volume),
            "items": {"http": items(web)},
            "downloaders": {"http": "kaiwo_source_http.download:fetch"},
        }
        (tmp_path / "config.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
        done = installed.run("kaiwo-download", str(tmp_path / "config.yaml"))
        assert done.returncode == 0, done.stderr
        assert (volume / "in" / "tiny.bin").read_bytes() == CONTENT
        document["items"] = {"http": items(web, sha256="0" * 64, targetPath="wrong.bin")}
        (tmp_path / "config.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
        done = installed.run("kaiwo-download", str(tmp_path / "config.yaml"))
        assert done.returncode == 4, done.stderr
        assert "http[0]" in done.stderr
        assert not (volume / "wrong.bin").exists()
