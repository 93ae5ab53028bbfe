"""The page about the Python client names its methods and its errors."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re

import kaiwo.client
from docs.generate.pages import DOCS
from kaiwo.client import AsyncClient, Client
from kaiwo.client.errors import ClientError

PAGE = (DOCS / "client.md").read_text(encoding="utf-8")
METHODS = PAGE.partition("\n## Methods\n")[2].partition("\n## ")[0]


def _rows(section: str) -> list[list[str]]:
    lines = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0].splitlines()
    return [
        [cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if line.startswith("| `")
    ]


def test_every_error_is_in_the_table_with_its_module_and_exit_code() -> None:
    """A script can catch what the page names, where it names it."""
    for info in pkgutil.walk_packages(kaiwo.client.__path__, "kaiwo.client."):
        importlib.import_module(info.name)
    expected, waiting = {}, list(ClientError.__subclasses__())
    while waiting:
        error = waiting.pop()
        waiting += error.__subclasses__()
        if error.__module__.startswith("kaiwo.client."):
            expected[error.__name__] = (error.__module__, str(error.exit_code))
    listed = {}
    for error, _, code in _rows("Errors"):
        name, *module = re.findall(r"`([\w.]+)`", error.replace("(also a `TimeoutError`)", ""))
        listed[name] = (module[0] if module else "kaiwo.client.errors", code.removesuffix(" |"))
    assert listed == expected


def test_every_method_is_in_the_table_with_parameters_that_it_has() -> None:
    """What a reader calls by the page works, with both clients."""
    public = {name for name in dir(Client) if not name.startswith("_")}
    called = dict(re.findall(r"`(\w+)\(([^)]*)\)`", METHODS))
    assert public - called.keys() == {"close", "namespace"}
    for name, parameters in called.items():
        for client in (Client, AsyncClient):
            known = inspect.signature(getattr(client, name)).parameters
            assert set(re.findall(r"(\w+)=", parameters)) <= known.keys()


def test_every_method_but_one_takes_a_namespace() -> None:
    """As the page says; a manifest has a namespace of its own."""
    without = [
        name
        for name, _ in re.findall(r"`(\w+)\(([^)]*)\)`", METHODS)
        if "namespace" not in inspect.signature(getattr(Client, name)).parameters
    ]
    assert without == ["submit"]
    assert "Every method but `submit` takes `namespace=`" in METHODS
