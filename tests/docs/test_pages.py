"""The pages agree with the code and with each other."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from docs.generate import meanings
from docs.generate.__main__ import main
from docs.generate.blocks import blocks, first_party
from docs.generate.pages import DOCS, READMES, StaleReferenceError, named_blocks, pages, renewed
from docs.generate.plugins import third_party
from docs.generate.reasons import ROOT
from kaiwo.api.crds import KAIWO_CONFIG, WORKLOADS
from kaiwo.api.status import STATUS_FIELDS
from kaiwo.host import kaiwoconfig
from kaiwo.host.config_warnings import WARNINGS
from kaiwo.install.roles import operator_roles
from kaiwo.install.webhooks import WebhookOptions, webhook_rights
from kaiwo_kueue import status as kueue_status

if TYPE_CHECKING:
    from pathlib import Path

_LINK = re.compile(r"\]\(([^)#:\s]*)(?:#([\w-]*))?\)")


@pytest.fixture(scope="session")
def made() -> dict[str, str]:
    """The generated blocks."""
    return blocks()


def test_generated_parts_are_what_the_code_says_now(page: Path, made: dict[str, str]) -> None:
    """Tables of fields, reasons and settings are not stale; python -m docs.generate renews them."""
    assert page.read_text(encoding="utf-8") == renewed(page, made)


def test_every_generated_part_stands_in_exactly_one_page(made: dict[str, str]) -> None:
    """Nothing that the code says is left out of the reference."""
    assert sorted(name for page in pages() for name in named_blocks(page)) == sorted(made)


def test_every_record_of_the_client_has_fields(made: dict[str, str]) -> None:
    """No section has a table without rows, as that of the base class of all records had."""
    sections = made["client-records"].split("### ")[1:]
    assert sections
    for section in sections:
        assert section.count("\n| ") >= 3, section


def test_the_page_of_statuses_has_every_field_of_a_status() -> None:
    """A field that the operator writes is explained in the table at the beginning of the page."""
    head = (DOCS / "status.md").read_text(encoding="utf-8").partition("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", head, flags=re.MULTILINE)) == STATUS_FIELDS


def test_the_page_of_the_installation_names_what_the_operator_may_write_beside_itself() -> None:
    """The single objects of its own namespace to which its roles give rights, with webhooks too."""
    rendered = [
        *operator_roles(first_party(), "kaiwo-system"),
        *webhook_rights("kaiwo-system", WebhookOptions()),
    ]
    roles = [manifest.obj for manifest in rendered if manifest.obj["kind"] == "Role"]
    names = {name for role in roles for rule in role["rules"] for name in rule.get("resourceNames", ())}
    assert names
    text = (
        (DOCS / "install.md")
        .read_text(encoding="utf-8")
        .partition("\n### Rights\n")[2]
        .partition("\n### ")[0]
    )
    assert {name for name in names if f"`{name}`" not in text} == set()


@pytest.mark.parametrize("name", ["backup.md", "upgrade.md"])
def test_every_kind_that_somebody_writes_is_saved(name: str) -> None:
    """What is not in a backup does not come back; only the operator writes GpuWorkloads."""
    kinds = {*WORKLOADS.values(), KAIWO_CONFIG, *(kind.resource for kind in first_party().kinds())}
    written = {kind.plural for kind in kinds} - {"gpuworkloads"}
    text = (DOCS / name).read_text(encoding="utf-8")
    commands = re.findall(r"kubectl get (\S+) .*> \w+\.json", text)
    assert written <= {word for command in commands for word in command.split(",")}


def test_the_page_of_the_installation_says_what_every_plugin_needs() -> None:
    """Each plugin that an operator can load has a row in the table; the sandbox adds commands only."""
    table = (
        (DOCS / "install.md").read_text(encoding="utf-8").partition("| plugin | needs in the cluster |")[2]
    )
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", table.partition("\n\n")[0], flags=re.MULTILINE)
    listed = [word for row in rows for word in re.findall(r"\w+", row)]
    assert sorted(listed) == sorted(
        {readme.parent.name for readme in READMES.glob("*/README.md")} - {"sandbox"}
    )


@pytest.mark.parametrize(
    ("kind", "conditions"),
    [
        ("KaiwoConfig", {*kaiwoconfig._OF_CONFIG, *kaiwoconfig._OF_INSTALLATION}),
        ("KaiwoQueueConfig", {*kueue_status.OWN}),
    ],
)
def test_the_page_of_statuses_has_every_condition(kind: str, conditions: set[str]) -> None:
    """The conditions that a configuration can have stand in the table of its section, and no others."""
    section = (DOCS / "status.md").read_text(encoding="utf-8").partition(f"\n## Of a {kind}\n")[2]
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", section.partition("<!--")[0], flags=re.MULTILINE)
    assert {word for row in rows for word in re.findall(r"\w+", row)} == conditions


def test_the_page_of_the_configuration_has_every_condition_about_its_values() -> None:
    """Of values that are in force and cannot have the effect that is meant."""
    text = (DOCS / "configuration.md").read_text(encoding="utf-8").partition("| condition | field |")[2]
    found = re.findall(r"^\| `(\w+)` \|", text.partition("\n\n")[0], flags=re.MULTILINE)
    assert tuple(found) == WARNINGS


@pytest.mark.parametrize(
    ("condition", "reasons"),
    [
        ("Preemptable", "True: `DurationExceeded`"),
        ("WorkloadTerminatedEarly", "True: `DurationExceeded`, `GpuIdle`, `GpuUtilizationLow`. False: "),
        ("PreemptionDecided", "True: `VictimsChosen`. False: `ReportOnly`"),
        ("ResourceUnderutilization", "Unknown: `MetricsInvalid`, `MetricsMissing`, "),
    ],
)
def test_a_condition_whose_reason_is_computed_has_it(
    made: dict[str, str], condition: str, reasons: str
) -> None:
    """Conditions about the early end of workloads were said not to be written yet."""
    (row,) = [line for line in made["conditions"].splitlines() if line.startswith(f"| `{condition}` |")]
    assert reasons in row


def test_a_place_that_blocks_workloads_is_read(made: dict[str, str]) -> None:
    """A word that a plugin gives as the reason of ERROR stands with the condition that it makes False."""
    found = set()
    for source in sorted(ROOT.glob("plugins/*/kaiwo_*/**/*.py")):
        found |= set(re.findall(r"\bBlocked\(\s*\"(\w+)\"", source.read_text(encoding="utf-8")))
    assert found
    row = next(line for line in made["conditions"].splitlines() if line.startswith("| `Schedulable` |"))
    assert {word for word in found if f"`{word}`" not in row} == set()


def test_the_readme_of_each_plugin_has_what_it_declares() -> None:
    """A field, setting or right that a plugin gains cannot be missing from its README."""
    for readme in READMES.glob("*/README.md"):
        assert named_blocks(readme) == [f"plugin-{readme.parent.name}"], readme


ENTRY = """
[[plugin]]
name = "acme"
distribution = "kaiwo-acme"
summary = "GPUs of Acme."
source = "https://example.com/acme"
license = "MIT"
api = "1.0"
"""


def test_a_plugin_of_others_is_listed(tmp_path: Path) -> None:
    """The entry that the page shows is all that it needs."""
    file = tmp_path / "plugins.toml"
    file.write_text(ENTRY)
    assert third_party(file).splitlines()[-1] == (
        "| [acme](https://example.com/acme) | `kaiwo-acme` | GPUs of Acme. | MIT | 1.0 |"
    )


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (ENTRY.replace('"acme"', '"kueue"'), "kueue: the name is a plugin's of this project"),
        (ENTRY.replace("kaiwo-acme", "acme"), "acme: the distribution is not kaiwo-acme"),
        (ENTRY.replace("https", "ftp"), "acme: source is not an https:// address"),
        (ENTRY.replace('"1.0"', '"9.0"'), "acme: api is not a version such as 1.0"),
        (ENTRY.replace('license = "MIT"\n', ""), "acme: expected the texts name, distribution"),
        (ENTRY * 2, "entries are not in the order of their names, each once"),
    ],
)
def test_an_entry_that_cannot_be_listed_is_refused(tmp_path: Path, wrong: str, message: str) -> None:
    """Nobody is listed under another's name."""
    file = tmp_path / "plugins.toml"
    file.write_text(wrong)
    with pytest.raises(StaleReferenceError, match=re.escape(message)):
        third_party(file)


def test_a_reason_without_a_meaning_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new reason in the code needs a meaning in the documentation."""
    known = {word: text for word, text in meanings.CANNOT_RUN.items() if word != "NameConflict"}
    monkeypatch.setitem(meanings.GROUPS, "cannot-run", known)
    with pytest.raises(StaleReferenceError, match="NameConflict"):
        blocks()


def test_a_meaning_without_a_reason_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A word that the code no longer says does not stay in the reference."""
    known = {**meanings.CANNOT_RUN, "GoneFromTheCode": meanings.Meaning("ERROR", "Nothing.")}
    monkeypatch.setitem(meanings.GROUPS, "cannot-run", known)
    with pytest.raises(StaleReferenceError, match="GoneFromTheCode"):
        blocks()


def test_a_reason_with_another_status_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The status column follows the code."""
    known = {**meanings.RUNS, "Ready": meanings.Meaning("RUNNING", "Wrong.")}
    monkeypatch.setitem(meanings.GROUPS, "runs", known)
    with pytest.raises(StaleReferenceError, match="Ready stands with READY"):
        blocks()


def test_the_check_distinguishes_stale_pages_from_current_ones(capsys: pytest.CaptureFixture[str]) -> None:
    """The command can guard a build: exit code 0 on fresh pages, 2 on wrong usage."""
    assert main(["--check"]) == 0
    assert main(["--wrong"]) == 2
    assert "usage" in capsys.readouterr().err


def test_links_lead_somewhere(any_page: Path) -> None:
    """Files and headings that a page points at are there."""
    for target, heading in _LINK.findall(any_page.read_text(encoding="utf-8")):
        path = any_page.parent / target if target else any_page
        assert path.exists(), f"{target} does not exist"
        if heading:
            headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
            assert heading in {_anchor(text) for text in headings}, f"{target} has no heading {heading}"


def test_tables_are_whole(any_page: Path) -> None:
    """A blank line in a table, or a row with another number of cells, shows as text."""
    text = re.sub(
        r"^( *)```.*?^\1```$", "", any_page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    for rows in re.findall(r"(?:^ *\|.*\n?)+", text, flags=re.MULTILINE):
        lines = rows.strip().splitlines()
        assert re.fullmatch(r" *\|(?: ?:?-+:? ?\|)+", lines[1]) if lines[1:] else False, lines[0]
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) == 1, lines[0]


def test_files_that_commands_name_are_there(any_page: Path) -> None:
    """What a reader types after pytest or kubectl is a file of the repository."""
    if any_page.parent.parent.name == "examples" or any_page.name in ("CHANGELOG.md", "plugins.md"):
        return  # its files are those of the reader's own distribution, or of another version
    text = any_page.read_text(encoding="utf-8")
    named = re.findall(r"(?<![\w/.-])((?:tests|campaign|plugins|deploy)/[\w/]+\.[a-z]+)", text)
    assert [name for name in named if not (ROOT / name).exists()] == []


def _anchor(heading: str) -> str:
    """The anchor that a heading gets where Markdown is shown."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def test_the_index_of_decisions_has_title_date_and_status_of_each() -> None:
    """Each page begins with them in one form, and the row of the page repeats date and status."""
    index = (DOCS / "decisions" / "README.md").read_text(encoding="utf-8")
    for page in sorted((DOCS / "decisions").glob("*.md")):
        if page.name == "README.md":
            continue
        head = re.match(r"# .+\n\n\* Date: (.+)\n\* Status: (.+)\n\n", page.read_text(encoding="utf-8"))
        assert head, page.name
        assert re.search(rf"^\| \[{page.name}\].* \| {head[1]} \| {head[2]} \|$", index, re.MULTILINE), (
            page.name
        )


@pytest.mark.parametrize("index", ["README.md", "decisions/README.md"])
def test_an_index_lists_every_page_beside_it(index: str) -> None:
    """No page is there without anybody finding it."""
    page = DOCS / index
    linked = {
        (page.parent / target).resolve() for target, _ in _LINK.findall(page.read_text(encoding="utf-8"))
    }
    assert {path for path in page.parent.glob("*.md") if path != page} <= linked
