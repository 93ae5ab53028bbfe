"""Messages about a field that no loaded plugin serves name the installed plugin that would."""

from __future__ import annotations

import pytest

from kaiwo import testing
from kaiwo.api.workload import Workload
from kaiwo.plugin.absent_plugins import AbsentPlugin, serving
from kaiwo.plugin.loader import load
from kaiwo.plugin.selection import PluginSelection
from kaiwo.workload.backend_selection import select_backend
from kaiwo.workload.download.requested import unserved
from kaiwo.workload.model import Registry

GIT = {"repository": "https://example.com/a.git", "targetPath": "a"}

RAY = AbsentPlugin("ray_job", "kaiwo-ray-job", "not-selected", "not in the configured list of plugins")
STORAGE = AbsentPlugin("storage", "kaiwo-storage", "disabled", "disabled by configuration")
HUB = AbsentPlugin("hub", "kaiwo-hub", "not-allowed", "not in KAIWO_PLUGINS_ALLOWED")
BROKEN = AbsentPlugin("acme", "kaiwo-acme", "broken", "ImportError: no driver")
ABSENT = {
    ("KaiwoJob", "rayJob"): RAY,
    ("KaiwoJob", "storage.data.download.s3"): STORAGE,
    ("KaiwoJob", "storage.data.download.git"): STORAGE,
    ("KaiwoJob", "storage.data.download.hub"): HUB,
    ("KaiwoJob", "acmeRun"): BROKEN,
}
SELECT_RAY = "plugin ray_job of kaiwo-ray-job serves it and is installed, but not selected; select ray_job"

REMOVE_STORAGE = (
    "plugin storage of kaiwo-storage serves it and is disabled; remove storage from KAIWO_PLUGINS_DISABLED"
)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("spec.rayJob", SELECT_RAY),
        ("rayJob.spec", SELECT_RAY),
        (
            "spec.storage.data.download.git[0].path",
            REMOVE_STORAGE,
        ),
        ("spec.acmeRun", "plugin acme of kaiwo-acme serves it and is broken: ImportError: no driver"),
        (
            "spec.storage.data.download.hub",
            "plugin hub of kaiwo-hub serves it and is not allowed: not in KAIWO_PLUGINS_ALLOWED",
        ),
    ],
)
def test_the_plugin_of_a_field_is_named_with_what_to_do(path: str, message: str) -> None:
    """Whatever the cause, the user knows whom to ask for what."""
    assert serving("KaiwoJob", path, ABSENT) == message


@pytest.mark.parametrize("path", ["spec.storage.data.download", "storage.data"])
def test_the_plugins_of_the_fields_in_an_unknown_one_are_named(path: str) -> None:
    """Without any source there is no ``download``, and every plugin that brings one is named once."""
    assert serving("KaiwoJob", path, ABSENT) == (
        "plugin storage of kaiwo-storage serves fields in it and is disabled; "
        "remove storage from KAIWO_PLUGINS_DISABLED; "
        "plugin hub of kaiwo-hub serves fields in it and is not allowed: not in KAIWO_PLUGINS_ALLOWED"
    )


@pytest.mark.parametrize("path", ["spec.ray", "rayJobs", "spec.storage.data.download.s33", "spec.image", ""])
def test_other_fields_are_nobodys(path: str) -> None:
    """A slip of the pen is not sent to an administrator."""
    assert serving("KaiwoJob", path, ABSENT) == ""


def test_fields_of_another_kind_are_nobodys() -> None:
    """``rayJob`` is no field of a KaiwoService, with whatever plugin."""
    assert serving("KaiwoService", "spec.rayJob", ABSENT) == ""


def test_validation_webhook_and_status_say_the_same() -> None:
    """All of them ask one function, so that a user who meets two of them meets one sentence."""
    plugins = load(PluginSelection(names=("batch_job",)))
    storage = {"storageEnabled": True, "data": {"storageSize": "1Gi", "download": {"git": [GIT]}}}
    obj = testing.job(image="image:1", storage=storage)
    said = serving("KaiwoJob", "spec.storage.data.download", plugins.absent_fields)
    assert said.startswith(
        "plugin storage_s3_gcs_azure_git_hf of kaiwo-storage-s3-gcs-azure-git-hf serves fi"
    )
    (problem,) = plugins.validator().validate(obj).problems
    assert (problem.path, problem.hint) == ("spec.storage.data.download", said)
    blocked = unserved(Workload.from_object(obj), Registry.of(plugins))
    assert blocked is not None
    assert said.replace("serves fields in it", "serves it") in blocked.message
    ray = select_backend(Workload.from_object(testing.job(image="i", rayJob={})), Registry.of(plugins), {})
    assert ray.blocked is not None
    assert SELECT_RAY in ray.blocked.message
    (unknown,) = plugins.validator().validate(testing.job(image="i", rayJob={})).problems
    assert unknown.hint == SELECT_RAY
