"""Items of download sources: parsed, with errors that name the item."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from kaiwo.plugin.kit.downloads import ItemError, parse_items
from kaiwo.plugin.kit.fields import Model, TargetFile, TargetPath, Url, ValueReference
from kaiwo.plugin.sources import SecretReference, secret_references

TOKEN = {"secretName": "hub", "secretKey": "token"}


class Item(Model):
    """One file of a hub."""

    url: Url
    token: ValueReference | None = None
    target_path: TargetFile


def test_each_item_comes_with_what_names_it() -> None:
    """Messages say which item of the list they are about."""
    raw = {"url": "https://hub.example/a", "targetPath": "a.bin"}
    parsed = dict(parse_items("hub", Item, [raw, {**raw, "token": TOKEN}]))
    assert list(parsed) == ["hub[0]", "hub[1]"]
    assert parsed["hub[0]"].url == "https://hub.example/a"


def test_an_error_names_the_item_and_the_field_and_not_the_value() -> None:
    """The value may be a secret that was put into the wrong field."""
    good = {"url": "https://hub.example/a", "targetPath": "a.bin"}
    with pytest.raises(ItemError, match=r"^hub\[1\]: url: must not contain credentials") as caught:
        list(parse_items("hub", Item, [good, {**good, "url": "https://me:hunter2@hub.example/a"}]))
    assert caught.value.where == "hub[1]"
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/etc/passwd", ".."])
def test_a_target_cannot_leave_its_volume(path: str) -> None:
    """The type of the field refuses it, so nobody has to remember."""

    class Folder(Model):
        """A folder."""

        target_path: TargetPath

    with pytest.raises(ValidationError, match=r"leaves the volume|match pattern"):
        Folder.parse({"targetPath": path})


def test_a_target_file_is_no_folder() -> None:
    """A file needs a name."""
    with pytest.raises(ItemError, match="names a folder"):
        list(parse_items("hub", Item, [{"url": "https://hub.example/a", "targetPath": "models/"}]))


def test_a_reference_to_a_secret_is_found_by_the_host() -> None:
    """The host mounts the key without any code of the source."""
    assert secret_references({"token": TOKEN}) == (SecretReference("hub", "token"),)
