"""``kaiwo manifests``: what an administrator installs, rendered from the installed plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kaiwo.cli import kit
from kaiwo.cli.documents import parse
from kaiwo.cli.failures import USAGE, Failure
from kaiwo.cli.scalars import DocumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaiwo.engine.resource import Object

_HOW = "`kubectl get crd -o yaml` writes such a file, and so does `kaiwo manifests crds`"


@click.group()
def manifests() -> None:
    """Print what an administrator installs."""


@manifests.command()
@click.option("--plugins", "names", metavar="NAMES", help="Render for these plugins only, comma-separated.")
@click.option(
    "--previous",
    type=click.Path(dir_okay=False, exists=True),
    metavar="FILE",
    help="Keep every field that these CRDs have.",
)
@click.option("--from-cluster", is_flag=True, help="Keep every field that the cluster's CRDs have.")
def crds(*, names: str | None, previous: str | None, from_cluster: bool) -> None:
    """Print the CustomResourceDefinitions.

    A field that was once installed must stay, or the API server drops its values from live objects: on an
    upgrade, or with other plugins than before, give --from-cluster or --previous.

    \b
      kaiwo manifests crds --from-cluster | kubectl apply --server-side -f -
    """  # noqa: D301  \b is click's mark for lines that stay as they are
    if previous and from_cluster:
        raise Failure("--previous and --from-cluster exclude each other", "leave one out", code=USAGE)
    from kaiwo.api.crds import dump, render_crds  # noqa: PLC0415  brings in the models

    before = _file(previous) if previous else _cluster() if from_cluster else None
    loaded = kit.plugins(names)
    kit.warn_broken(loaded)
    rendered = render_crds(loaded.fields(), loaded.settings_models(), before, loaded.kinds())
    match kit.settings().output:
        case None | "yaml":
            click.echo(dump(rendered), nl=False)
        case _:
            kit.emit(rendered, [kit.Column("NAME", lambda crd: str(crd["metadata"]["name"]))])


def _file(path: str) -> Sequence[Object]:
    """The CRDs of a file, of several documents or a List.

    Raises:
        Failure: it is no YAML; line and column are named.
    """
    found: list[Object] = []
    try:
        with click.open_file(path, encoding="utf-8-sig") as stream:
            documents = [document.value for document in parse(stream.read())]
    except (DocumentError, UnicodeDecodeError, OSError) as error:
        where = f"{path}:{error.line}:{error.column}" if isinstance(error, DocumentError) else path
        raise Failure(f"{where}: {error}", _HOW, code=USAGE) from error
    for value in documents:
        items = value.get("items") if isinstance(value, dict) and value.get("kind") == "List" else [value]
        found += [item for item in (items if isinstance(items, list) else ()) if isinstance(item, dict)]
    if not any(item.get("kind") == "CustomResourceDefinition" for item in found):
        raise Failure(f"{path}: holds no CustomResourceDefinition", _HOW, code=USAGE)
    return found


def _cluster() -> Sequence[Object]:
    from kaiwo.engine.resource import CUSTOM_RESOURCE_DEFINITION  # noqa: PLC0415

    with kit.cluster() as cluster:
        return cluster.list(CUSTOM_RESOURCE_DEFINITION)
