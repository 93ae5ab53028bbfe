"""``python -m release.version`` prints the version; with a version it sets this one everywhere.

The host and its plugins have one version and name each other by it. The version of the plugin API is a number
of its own, in ``kaiwo/plugin/hookspecs.py``.
"""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from kaiwo.plugin.hookspecs import API_MAJOR, API_MINOR
from release.projects import ROOT, host, projects

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_VERSION: Final = r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?"
_OWN_LINE: Final = re.compile(rf'^(version = "){_VERSION}(")$', re.MULTILINE)
_PIN: Final = re.compile(rf'("kaiwo(?:-[a-z0-9-]+)?(?:\[[a-z,-]+\])?==){_VERSION}(")')
_IMAGE: Final = re.compile(rf"(/kaiwo-(?:operator|downloader):){_VERSION}")
_WHEEL: Final = re.compile(rf"(\bkaiwo(?:_[a-z0-9_]+)?-){_VERSION}(?=-py3-none-any\.whl|\.tar\.gz)")
_INSTALLED: Final = re.compile(rf"(\bkaiwo\[[a-z,-]+\]==){_VERSION}")
_LABEL: Final = re.compile(rf'(image\.version="){_VERSION}(?=")')
_UNRELEASED: Final = "## [Unreleased]\n"


def pages() -> list[Path]:
    """Guides and recipes of images, which name images and distributions by version."""
    patterns = (
        "README.md",
        "docs/*.md",
        "examples/*/README.md",
        "deploy/*/Containerfile",
        "charts/generate/pages.py",
    )
    return sorted(path for pattern in patterns for path in ROOT.glob(pattern))


def pinned(text: str, version: str) -> str:
    """A ``pyproject.toml`` with this version of the distribution and of all others of the repository."""
    return _PIN.sub(rf"\g<1>{version}\g<2>", _OWN_LINE.sub(rf"\g<1>{version}\g<2>", text))


def named(text: str, version: str) -> str:
    """A guide or recipe that names images and distributions of this version."""
    for pattern in (_WHEEL, _IMAGE, _INSTALLED, _LABEL):
        text = pattern.sub(rf"\g<1>{version}", text)
    return text


def released(text: str, version: str, date: str) -> str:
    """A changelog with everything unreleased under this version; unchanged where it has the version."""
    if f"## [{version}]" in text:
        return text
    return text.replace(_UNRELEASED, f"{_UNRELEASED}\n## [{version}] - {date}\n", 1)


def set_version(version: str) -> list[Path]:
    """Write the version into every file that has it; the files that changed."""
    today = datetime.now(tz=UTC).date().isoformat()
    changed = {project.file: pinned(project.file.read_text("utf-8"), version) for project in projects()}
    changed |= {page: named(page.read_text("utf-8"), version) for page in pages()}
    changelog = ROOT / "CHANGELOG.md"
    changed[changelog] = released(changelog.read_text("utf-8"), version, today)
    written = [file for file, text in changed.items() if file.read_text("utf-8") != text]
    for file in written:
        file.write_text(changed[file], encoding="utf-8")
    return written


def main(arguments: Sequence[str]) -> int:
    """Print the versions, or set the one that the argument names."""
    if not arguments:
        print(f"kaiwo {host().version}, plugin API {API_MAJOR}.{API_MINOR}")
        return 0
    if len(arguments) > 1 or not re.fullmatch(_VERSION, arguments[0]):
        sys.stderr.write("usage: python -m release.version [MAJOR.MINOR.PATCH[(a|b|rc)N]]\n")
        return 2
    for file in set_version(arguments[0]):
        print(f"{file.relative_to(ROOT)}: written")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
