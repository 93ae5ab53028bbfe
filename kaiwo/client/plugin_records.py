"""What is known of installed plugins, as ``kaiwo plugins -o json`` prints it."""

from __future__ import annotations

from typing import Literal

from kaiwo.client.record import Record


class PluginTarget(Record, frozen=True, kw_only=True):
    """Something that a plugin names as ``module:name`` and that does not exist.

    Attributes:
        declaration: the hook and the declaration, or the entry point, that names it.
        attribute: the attribute that names it; empty for an entry point.
        target: ``module:name``.
        problem: what of it does not exist.
    """

    declaration: str
    attribute: str
    target: str
    problem: str


class PluginOverview(Record, frozen=True, kw_only=True):
    """One plugin that is installed, or that configuration names.

    Attributes:
        name: the plugin's name: the name of its entry point in the group ``kaiwo.plugins``.
        state: what became of it.
        reason: why it is not loaded, as a word: ``NotSelected``, ``Disabled``, ``NotAllowed``,
            ``NotInstalled``, ``NameClaimed`` (another distribution has the name), ``VersionDiffers``
            (configuration names another version), ``LoadFailed`` (importing it or calling a hook raised an
            exception), ``LoadTimeout``, ``ApiVersion``, ``InvalidDeclaration``, ``MissingTarget`` or
            ``Conflict`` (another plugin declares the same); empty when it is loaded.
        message: the same in a sentence: the last line of the traceback, who else declares the same, what
            configuration says; empty when it is loaded.
        distribution: the distribution that it comes from; empty for a name that nothing installed has.
        version: version of the distribution.
        module: the module that its entry point names.
        path: the file that is imported for it; empty where there is no such file.
        declares: what it declares, by kind of declaration; only of a loaded plugin.
        not_yet_built: backends and sources that it only declares: workloads with their fields wait.
        missing_targets: what it names and does not exist.
    """

    name: str
    state: Literal["loaded", "disabled", "not-selected", "not-allowed", "broken"]
    reason: str
    message: str
    distribution: str
    version: str
    module: str
    path: str
    declares: dict[str, list[str]]
    not_yet_built: list[str]
    missing_targets: list[PluginTarget]
