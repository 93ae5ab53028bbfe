"""Whether what declarations name is what the host calls, and whether commands have help.

Listeners, lifecycles, controllers and downloaders are imported and not called: they act on the world.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from kaiwo.testing.command_contract import command_faults, loaded_command
from kaiwo.testing.conformance.chain_probes import chain_violations
from kaiwo.testing.conformance.results import CheckOutput, Violation
from kaiwo.testing.listener_contract import async_function

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaiwo.plugin.registry import LoadedPlugin
    from kaiwo.testing.conformance.results import CheckInput

_CALLED = (
    "the host calls it so, and otherwise logs an error each time",
    "make it as the documentation of the declaration says",
)
_IMPORT = ("it is imported when it is needed, and fails then", "repair the module")
_HELP = ("kaiwo --help and the command's own help are all that users see of it", "write it")


def check(given: CheckInput) -> CheckOutput:
    """Check the targets of a plugin's declarations."""
    plugin = given.plugin
    targets = list(_targets(plugin))
    violations = (
        *_of_listeners(plugin),
        *_of_targets(targets),
        *_of_backends(plugin),
        *_of_commands(plugin),
        *chain_violations(plugin),
    )
    names = (
        *(f"transition listener {listener.name}" for listener in plugin.listeners),
        *(f"lifecycle {lifecycle.name}" for lifecycle in plugin.lifecycles),
        *dict.fromkeys(where for where, _, _ in targets),
        *(f"backend {backend.name}" for backend in plugin.backends if backend.built),
        *(f"command {command.name}" for command in plugin.commands),
    )
    return CheckOutput(", ".join(names), violations)


def _of_listeners(plugin: LoadedPlugin) -> Iterator[Violation]:
    calls = [
        *(
            (f"transition listener {each.name}", "notify", each.notify, 2 if each.settings else 1)
            for each in plugin.listeners
        ),
        *(
            (f"lifecycle {each.name}", name, target, 1)
            for each in plugin.lifecycles
            for name in ("start", "stop", "settings_changed")
            if (target := getattr(each, name)) is not None
        ),
    ]
    for where, attribute, target, arguments in calls:
        try:
            async_function(where, attribute, target, arguments)
        except AssertionError as error:
            yield Violation(where, str(error).removeprefix(f"{where}: "), *_CALLED)


def _targets(plugin: LoadedPlugin) -> Iterator[tuple[str, str, str]]:
    """Functions that are only imported: where, which attribute, ``module:name``."""
    for controller in plugin.controllers:
        where = f"controller {controller.name}"
        yield where, "build", controller.build
        if controller.removals is not None:
            yield where, "removals", controller.removals
    for source in plugin.sources:
        if source.downloader is not None:
            yield f"download source {source.name}", "downloader", source.downloader


def _of_targets(targets: list[tuple[str, str, str]]) -> Iterator[Violation]:
    for where, attribute, target in targets:
        module, _, name = target.partition(":")
        try:
            found = getattr(importlib.import_module(module), name)
        except ModuleNotFoundError as error:
            # Other libraries may be in the download image or in the operator's only.
            if (error.name or "").partition(".")[0] == module.partition(".")[0]:
                yield Violation(where, f"{attribute} {target} cannot be imported: {error}", *_IMPORT)
            continue
        except Exception as error:  # noqa: BLE001  a plugin's module may raise anything
            yield Violation(where, f"{attribute} {target} cannot be imported: {error!r}", *_IMPORT)
            continue
        if not callable(found):
            yield Violation(where, f"{attribute} {target} is not a function", *_CALLED)


def _of_backends(plugin: LoadedPlugin) -> Iterator[Violation]:
    for backend in plugin.backends:
        for form in (backend, *backend.variants):
            if not form.built:
                continue
            try:
                form.load()
            except Exception as error:  # noqa: BLE001  a plugin's class may raise anything
                yield Violation(
                    f"backend {form.name}",
                    f"its class cannot be loaded: {error!r}",
                    "every workload of it gets the condition PluginError",
                    "implement all abstract methods of BackendBase",
                )


def _of_commands(plugin: LoadedPlugin) -> Iterator[Violation]:
    for command in plugin.commands:
        where = f"command {command.name}"
        try:
            found = loaded_command(command)
        except AssertionError as error:
            yield Violation(where, str(error).removeprefix(f"{where}: "), *_CALLED)
            continue
        for fault in command_faults(command.name, found):
            yield Violation(where, fault.removeprefix(where).lstrip(": "), *_HELP)
        if not command.help.strip():
            yield Violation(where, "has no line for kaiwo --help", *_HELP)
