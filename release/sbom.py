"""The software bill of materials of an image: its Python distributions, in the format CycloneDX 1.6.

It is made of the locked requirements, so the same commit gives the same bytes. What the base image holds is
not in it.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from release.projects import Project

_NAMESPACE: Final = uuid.UUID("6f1a3c5e-6a6c-5d52-9d0b-0d8b9b5b7c11")
"""Makes serial numbers of contents; any constant would do."""


@dataclass(frozen=True)
class Bill:
    """What one image contains.

    Attributes:
        image: the image's name.
        projects: distributions of the repository.
        extras: extras of these distributions that are installed, by name.
        locked: versions of all other distributions, by normalized name.
        checksums: SHA-256 of the wheel of each of `projects`, by name.
    """

    image: str
    projects: Sequence[Project]
    extras: Mapping[str, Sequence[str]]
    locked: Mapping[str, str]
    checksums: Mapping[str, str]


def locked_versions(text: str) -> dict[str, str]:
    """The versions that a file of locked requirements has, by normalized name."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        if line[:1].isalnum():
            name, _, rest = line.partition("==")
            found[canonicalize_name(name)] = rest.split()[0]
    return found


def _reference(name: str, version: str) -> str:
    return f"pkg:pypi/{canonicalize_name(name)}@{version}"


def _own(project: Project, checksum: str) -> dict[str, Any]:
    return {
        "type": "library",
        "bom-ref": _reference(project.name, project.version),
        "name": project.name,
        "version": project.version,
        "description": project.metadata["description"],
        "hashes": [{"alg": "SHA-256", "content": checksum}],
        "licenses": [{"expression": project.metadata["license"]}],
        "purl": _reference(project.name, project.version),
    }


def _needs(bill: Bill, project: Project) -> list[str]:
    """References of what a distribution of the repository requires in this image."""
    versions = {each.name: each.version for each in bill.projects} | dict(bill.locked)
    wanted = list(project.metadata["dependencies"])
    for extra in bill.extras.get(project.name, ()):
        wanted += project.metadata["optional-dependencies"][extra]
    names = {canonicalize_name(Requirement(each).name) for each in wanted}
    return sorted(_reference(name, versions[name]) for name in names if name in versions)


def document(bill: Bill) -> dict[str, Any]:
    """The bill as a CycloneDX document."""
    version = bill.projects[0].version
    root = f"pkg:oci/{bill.image}@{version}"
    components = [_own(project, bill.checksums[project.name]) for project in bill.projects]
    for name, locked in sorted(bill.locked.items()):
        reference = _reference(name, locked)
        components.append(
            {
                "type": "library",
                "bom-ref": reference,
                "name": name,
                "version": locked,
                "purl": reference,
            }
        )
    graph = [{"ref": root, "dependsOn": [_reference(each.name, each.version) for each in bill.projects]}]
    graph += [
        {"ref": _reference(each.name, each.version), "dependsOn": _needs(bill, each)}
        for each in bill.projects
    ]
    content = {
        "metadata": {
            "component": {
                "type": "container",
                "bom-ref": root,
                "name": bill.image,
                "version": version,
            }
        },
        "components": components,
        "dependencies": graph,
        # What a distribution of somebody else requires is not in the lock.
        "compositions": [
            {"aggregate": "complete", "assemblies": [root]},
            {"aggregate": "incomplete", "dependencies": [each["bom-ref"] for each in components]},
        ],
    }
    serial = uuid.uuid5(_NAMESPACE, json.dumps(content, sort_keys=True))
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        **content,
    }
