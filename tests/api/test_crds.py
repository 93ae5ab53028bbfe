"""The CRDs: what they hold, that nothing declared is ever taken out, and that the files are current."""

from __future__ import annotations

import copy
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pytest
import yaml
from pydantic import BaseModel
from pydantic import Field as PydanticField

from kaiwo.api.base_model import Model
from kaiwo.api.crd_compat import crd_differences
from kaiwo.api.crds import CrdKind, dump, render_crd, render_crds
from kaiwo.api.kind_models import FieldConflict, compose_spec
from kaiwo.api.plugin_fields import Field
from kaiwo.api.scalars import Count, Opaque
from kaiwo.api.schema import structural
from kaiwo.engine.resource import Resource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaiwo.plugin.registry import Plugins

GOLDEN = Path(__file__).parents[2] / "deploy" / "crds"


class Item(Model):
    """A download of an invented store."""

    url: Annotated[str, PydanticField(min_length=1, description="Where from.")]


JOB = Field("KaiwoJob", ("job",), Opaque, "A whole batch/v1 Job.")
RAY_JOB = Field("KaiwoJob", ("rayJob",), Opaque, "A whole ray.io/v1 RayJob.")
ACME = Field("KaiwoJob", ("storage", "data", "download", "acme"), list[Item], "From Acme.")


def crd(kind: str, crds: list[dict[str, Any]]) -> dict[str, Any]:
    """The definition of a kind."""
    return next(item for item in crds if item["spec"]["names"]["kind"] == kind)


def version(kind: str, crds: list[dict[str, Any]]) -> Any:
    """Its only version."""
    return crd(kind, crds)["spec"]["versions"][0]


def spec_of(kind: str, crds: list[dict[str, Any]]) -> Any:
    """The schema of its spec."""
    return version(kind, crds)["schema"]["openAPIV3Schema"]["properties"]["spec"]


def at(schema: Any, *path: str) -> Any:
    """The schema of a field below another."""
    for name in path:
        schema = schema["properties"][name]
    return schema


def nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Every schema inside a schema."""
    yield schema
    for part in (schema.get("properties") or {}).values():
        yield from nodes(part)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from nodes(schema[key])


def test_the_files_of_the_repository_are_what_the_models_say(first_party: Plugins) -> None:
    """An edit of a model without its CRD does not pass; KAIWO_GOLDEN=write renders the files anew."""
    rendered = {
        f"{item['metadata']['name']}.yaml": dump([item])
        for item in render_crds(
            first_party.fields(), first_party.settings_models(), kinds=first_party.kinds()
        )
    }
    if os.environ.get("KAIWO_GOLDEN") == "write":
        for name, text in rendered.items():
            (GOLDEN / name).write_text(text)
    assert {path.name: path.read_text() for path in GOLDEN.glob("*.yaml")} == rendered


def test_kubectl_sees_what_is_documented() -> None:
    """Short names, category, columns, scope and the status subresource."""
    crds = render_crds([])
    names = crd("KaiwoJob", crds)["spec"]["names"]
    assert (names["plural"], names["shortNames"], names["categories"]) == ("kaiwojobs", ["kj"], ["kaiwo"])
    assert crd("KaiwoService", crds)["spec"]["names"]["shortNames"] == ["ks"]
    assert crd("KaiwoConfig", crds)["spec"]["scope"] == "Cluster"
    columns = version("KaiwoJob", crds)["additionalPrinterColumns"]
    assert [column["name"] for column in columns] == [
        "Status",
        "Reason",
        "GPUs",
        "Queue",
        "User",
        "Start",
        "Completion",
        "Age",
    ]
    assert [column["name"] for column in columns if column.get("priority")] == ["User"]
    (queue,) = (column["jsonPath"] for column in columns if column["name"] == "Queue")
    assert queue == ".status.allocation.queue", "most workloads name no queue and are in the default one"
    services = version("KaiwoService", crds)["additionalPrinterColumns"]
    assert "Completion" not in [column["name"] for column in services]
    assert version("KaiwoJob", crds)["subresources"] == {"status": {}}


def test_defaults_are_the_documented_ones_and_no_others() -> None:
    """The API server fills in what the reference says; mount paths stay open for KaiwoConfig."""
    crds = render_crds([JOB, ACME])
    spec = spec_of("KaiwoJob", crds)
    defaults = {name: part["default"] for name, part in spec["properties"].items() if "default" in part}
    assert defaults == {"gpus": 0, "gpuVendor": "amd", "replicas": 1, "ray": False, "dangerous": False}
    assert "default" not in at(spec, "storage", "data", "mountPath")
    assert "default" not in at(spec, "storage", "huggingFace", "mountPath")
    assert at(spec, "storage", "accessMode")["default"] == "ReadWriteMany"
    config = spec_of("KaiwoConfig", crds)
    assert all(
        config["properties"][name]["default"] == {}
        for name in ("ray", "storage", "nodes", "scheduling", "resourceMonitoring")
    )
    assert "default" not in config["properties"]["data"]
    assert not [name for name, part in at(config, "storage")["properties"].items() if "default" in part]
    assert at(config, "scheduling", "pendingThresholdForPreemption")["default"] == "5m"
    status = version("KaiwoJob", crds)["schema"]["openAPIV3Schema"]["properties"]["status"]
    assert not [part for part in nodes(status) if "default" in part]


def test_every_schema_is_structural(first_party: Plugins) -> None:
    """No reference, no alternative but number-or-text, and a type or an opaque value everywhere."""
    for item in render_crds(first_party.fields(), first_party.settings_models()):
        for part in nodes(item["spec"]["versions"][0]["schema"]["openAPIV3Schema"]):
            assert not {"$ref", "oneOf", "allOf", "title", "const", "$defs"} & part.keys()
            assert "anyOf" not in part or part["x-kubernetes-int-or-string"]
            assert (
                part.get("type")
                or part.get("x-kubernetes-int-or-string")
                or part.get("x-kubernetes-preserve-unknown-fields")
            )
            assert not (part.get("properties") and part.get("additionalProperties"))


def test_every_list_that_people_write_has_a_maximum(first_party: Plugins) -> None:
    """An object with a list without one can be of any size, and the API server cannot bound its rules."""
    for item in render_crds(first_party.fields(), first_party.settings_models(), kinds=first_party.kinds()):
        spec = at(item["spec"]["versions"][0]["schema"]["openAPIV3Schema"], "spec")
        lists = [part for part in nodes(spec) if part.get("type") == "array"]
        assert [part.get("description") for part in lists if "maxItems" not in part] == []


def test_every_field_is_described(first_party: Plugins) -> None:
    """``kubectl explain`` has a sentence for every field that users write."""
    for item in render_crds(first_party.fields(), first_party.settings_models()):
        spec = at(item["spec"]["versions"][0]["schema"]["openAPIV3Schema"], "spec")
        silent = [
            name
            for part in nodes(spec)
            for name, field in (part.get("properties") or {}).items()
            if not field.get("description")
        ]
        assert silent == []


def test_a_field_stays_when_its_plugin_goes() -> None:
    """Data of live objects survives a smaller selection, and the field is whole again with its plugin."""
    full = render_crds([JOB, RAY_JOB, ACME])
    less = render_crds([JOB], previous=full)
    assert at(spec_of("KaiwoJob", less), "rayJob")["x-kubernetes-preserve-unknown-fields"] is True
    kept = at(spec_of("KaiwoJob", less), "storage", "data", "download")
    assert kept["x-kubernetes-preserve-unknown-fields"] is True
    assert kept["type"] == "object"
    assert render_crds([JOB, RAY_JOB, ACME], previous=less) == full
    assert render_crds([JOB], previous=less) == less


def test_one_source_stays_beside_another() -> None:
    """A list of a source that is gone is kept inside an object that others still fill."""
    other = Field("KaiwoJob", ("storage", "data", "download", "other"), list[Item], "From elsewhere.")
    less = render_crds([other], previous=render_crds([other, ACME]))
    download = at(spec_of("KaiwoJob", less), "storage", "data", "download")
    assert download["properties"]["acme"] == {
        "type": "array",
        "description": "From Acme.",
        "items": {"x-kubernetes-preserve-unknown-fields": True},
    }
    assert download["properties"]["other"]["items"]["properties"]["url"]["type"] == "string"


def test_settings_stay_when_the_last_plugin_with_settings_goes() -> None:
    """A map without declared keys accepts any; the API server rejects a schema that also declares some."""
    full = render_crds([JOB], {"acme": Item})
    less = render_crds([JOB], previous=full)
    assert less == render_crds([JOB])
    for part in nodes(spec_of("KaiwoConfig", less)):
        assert not (part.get("properties") and part.get("additionalProperties"))
    kept = at(spec_of("KaiwoConfig", less), "plugins")["additionalProperties"]
    assert kept["x-kubernetes-preserve-unknown-fields"] is True
    assert render_crds([JOB], {"acme": Item}, previous=less) == full


def test_a_kind_of_a_plugin_stays_when_the_plugin_goes() -> None:
    """Its definition is returned as it was, without the API server's additions; foreign ones are not ours."""
    own = render_crd(CrdKind(Resource("kaiwo.silogen.ai", "v1alpha1", "Thing", "things"), Item, Item))
    live = copy.deepcopy(own)
    live["metadata"]["resourceVersion"] = "5"
    live["status"] = {"conditions": []}
    foreign = copy.deepcopy(own)
    foreign["metadata"]["name"] = "things.example.com"
    foreign["spec"]["group"] = "example.com"
    names = [item["metadata"]["name"] for item in render_crds([], previous=[foreign, live])]
    assert "things.kaiwo.silogen.ai" in names
    assert "things.example.com" not in names
    assert own in render_crds([], previous=[live])


@pytest.mark.parametrize("previous", [[{}], [{"kind": "CustomResourceDefinition"}], [None], ["x"]])
def test_previous_files_that_are_no_definitions_are_passed_over(previous: Any) -> None:
    """A directory of manifests may hold other things."""
    assert render_crds([], previous=previous) == render_crds([])


def test_two_claims_on_one_field_are_refused() -> None:
    """Neither another contribution nor a field of the host can be replaced."""
    with pytest.raises(FieldConflict, match=r"KaiwoJob\.spec\.job is contributed twice"):
        render_crds([JOB, JOB])
    with pytest.raises(FieldConflict, match=r"KaiwoJob\.spec\.gpus is a field of the host"):
        render_crds([Field("KaiwoJob", ("gpus",), Opaque, "Mine.")])
    with pytest.raises(FieldConflict, match="holds fields of another contribution"):
        render_crds([ACME, Field("KaiwoJob", ("storage", "data", "download"), Opaque, "Mine.")])


def test_a_difference_says_what_to_apply_again() -> None:
    """Each difference is a sentence; words and wider live definitions are none."""
    wanted = render_crds([JOB, RAY_JOB])
    assert crd_differences(wanted, wanted) == []
    assert crd_differences(render_crds([JOB, RAY_JOB, ACME]), wanted) == []
    live = copy.deepcopy(render_crds([JOB]))
    spec = spec_of("KaiwoJob", live)
    spec["properties"]["gpus"]["minimum"] = 1
    spec["properties"]["user"]["description"] = "other words"
    live = [item for item in live if item["spec"]["names"]["kind"] != "KaiwoService"]
    differences = crd_differences(live, wanted)
    assert "KaiwoJob: spec.rayJob is not declared; apply the definition again" in differences
    assert "KaiwoJob: spec.gpus differs in minimum; apply the definition again" in differences
    missing = "KaiwoService: the definition kaiwoservices.kaiwo.silogen.ai is not in the cluster; apply it"
    assert missing in differences
    assert not [line for line in differences if "user" in line]


def test_yaml_is_stable_and_has_no_anchors() -> None:
    """Two runs give the same bytes, so a diff shows only what changed."""
    text = dump(render_crds([JOB, ACME]))
    assert text == dump(render_crds([ACME, JOB]))
    assert list(yaml.safe_load_all(text)) == render_crds([JOB, ACME])
    assert "&id" not in text


class Node(BaseModel):
    """A model that contains itself."""

    children: list[Node] = []
    either: int | str = 1
    size: Count = 0


def test_what_a_schema_cannot_say_stays_opaque() -> None:
    """A plugin's recursive or alternative types are kept as written instead of breaking the definition."""
    schema = structural(Node)
    assert schema["properties"]["either"] == {"x-kubernetes-preserve-unknown-fields": True}
    assert schema["properties"]["children"]["items"]["x-kubernetes-preserve-unknown-fields"] is True
    assert schema["properties"]["size"]["format"] == "int32"


def test_contributed_places_exist_only_as_far_as_plugins_fill_them() -> None:
    """Without a source there is no ``download`` to write into; with one there is exactly that one."""
    without = structural(compose_spec("KaiwoJob"))
    assert "download" not in at(without, "storage", "data")["properties"]
    filled = structural(compose_spec("KaiwoJob", [ACME]))
    assert list(at(filled, "storage", "data", "download")["properties"]) == ["acme"]
