"""The examples in the documentation work as they are written."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from docs.generate.fields import of_config, of_kind
from kaiwo import testing
from kaiwo.api.validate import Validator
from kaiwo.cli.main import kaiwo
from kaiwo.client.user_config import KEYS
from kaiwo.engine.yaml_reader import parse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaiwo.engine.resource import Object
    from kaiwo.plugin.registry import Plugins

_HOSTS = ("KaiwoJob", "KaiwoService", "KaiwoConfig")


def _documents(block: Any) -> list[Any]:
    return [document.value for document in parse(block.text)]


def _objects(blocks: list[Any], kind: str) -> list[Object]:
    values = [value for block in blocks for value in _documents(block) if isinstance(value, dict)]
    return [value for value in values if value.get("kind") == kind]


def _nodes() -> list[Object]:
    labels = {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"}
    return [testing.node(name=f"amd-{at}", gpus={"amd.com/gpu": 8}, labels=labels) for at in range(2)]


def test_every_yaml_example_is_valid(yaml_block: Any, plugins: Plugins) -> None:
    """What a reader copies is taken: workloads and KaiwoConfigs by the command's own rules."""
    values = _documents(yaml_block)
    assert values
    for value in values:
        if isinstance(value, list):
            continue  # an excerpt of what a command prints
        _check_object(value, plugins)
        if value.get("kind") is None:
            assert value.keys() <= set(KEYS), "neither an object nor a kaiwoconfig.yaml"


def test_every_object_in_a_readme_is_valid(readme_block: Any, plugins: Plugins) -> None:
    """The same of the project's README and those of plugins, which have excerpts of other files too."""
    for value in _documents(readme_block):
        _check_object(value, plugins)


def _check_object(value: Any, plugins: Plugins) -> None:
    kinds = {item.resource.kind: item for item in plugins.kinds()}
    kind = value.get("kind")
    if kind in _HOSTS:
        found = Validator(plugins.fields(), plugins.settings_models()).validate(value)
        assert not found.problems
        assert not found.warnings
    elif kind in kinds:
        assert value["apiVersion"] == kinds[kind].resource.api_version
        kinds[kind].spec.model_validate(value["spec"], by_alias=True, by_name=False)
        assert kinds[kind].resource.namespaced or value["metadata"]["name"] == "kaiwo"


def test_every_example_of_a_workload_would_be_created(yaml_block: Any, plugins: Plugins) -> None:
    """Examples do not only validate: each becomes objects on two nodes of eight GPUs."""
    for value in _documents(yaml_block):
        if not isinstance(value, dict) or value.get("kind") not in ("KaiwoJob", "KaiwoService"):
            continue
        assert "kind:" in testing.render(value, plugins, nodes=_nodes())


def _paths(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            inner = f"{path}.{key}" if path else str(key)
            yield inner
            yield from _paths(item, inner)
    elif isinstance(value, list):
        for item in value:
            yield from _paths(item, f"{path}[]")


def _used(blocks: list[Any], kind: str) -> set[str]:
    return {path for obj in _objects(blocks, kind) for path in _paths(obj["spec"])}


def test_every_field_of_a_workload_has_an_example(yaml_blocks: list[Any], plugins: Plugins) -> None:
    """Whatever may stand below spec of a KaiwoJob or KaiwoService stands in an example."""
    jobs, services = _used(yaml_blocks, "KaiwoJob"), _used(yaml_blocks, "KaiwoService")
    assert {row.path for row in of_kind("KaiwoJob", plugins)} - jobs - services == set()
    own = {row.path for row in of_kind("KaiwoService", plugins)} - {
        row.path for row in of_kind("KaiwoJob", plugins)
    }
    assert own - services == set()


def test_every_field_of_kaiwoconfig_that_works_has_an_example(
    yaml_blocks: list[Any], plugins: Plugins
) -> None:
    """The example of a KaiwoConfig shows all that has an effect."""
    rows = of_config(plugins)
    idle = tuple(row.path for row in rows if "No effect yet" in row.meaning or "Deprecated" in row.meaning)
    leaves = [
        row.path
        for row in rows
        if not any(other.path.startswith((f"{row.path}.", f"{row.path}[].")) for other in rows)
    ]
    assert idle
    # Kubernetes' own type has them; no download needs a device.
    idle += ("storage.downloadResources.claims",)
    assert {path for path in leaves if not path.startswith(idle)} - _used(yaml_blocks, "KaiwoConfig") == set()


def test_every_command_that_is_shown_exists(console_block: Any) -> None:
    """Commands and long options in console examples are those of the program."""
    for line in console_block.text.replace("\\\n", " ").splitlines():
        for call in re.findall(r"(?:^\$ |\| |&& )(?:kubectl )?kaiwo ([^|&#>]*)", line):
            # What follows "--" is another program's.
            _check_call(call.partition(" -- ")[0].split())


def _check_call(words: list[str]) -> None:
    command: click.Command = kaiwo
    context = click.Context(command)
    options = {name for param in command.params for name in param.opts}
    for position, word in enumerate(words):
        if word == "--":
            return  # the rest belongs to a command in the cluster
        if word.startswith("--"):
            assert word.partition("=")[0] in options, f"{word} is no option of {command.name}"
        elif isinstance(command, click.Group) and not word.startswith("-"):
            value_of_option = position and words[position - 1] in ("-n", "--namespace", "-o", "--context")
            if value_of_option:
                continue
            found = command.get_command(context, word)
            assert found is not None, f"kaiwo has no command {word}"
            command = found
            options |= {name for param in command.params for name in (*param.opts, *param.secondary_opts)}
