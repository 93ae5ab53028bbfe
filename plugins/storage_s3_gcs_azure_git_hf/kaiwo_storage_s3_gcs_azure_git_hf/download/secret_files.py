"""Reads secret values from the files they are mounted as; they are never in the configuration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kaiwo.plugin.kit.downloads import SECRETS_PATH
from kaiwo_storage_s3_gcs_azure_git_hf.download.errors import ConfigError

if TYPE_CHECKING:
    from kaiwo.plugin.kit.fields import ValueReference

MAX_BYTES = 1024**2
"""A Secret holds at most 1 MiB (core/v1)."""


def mount_path(reference: ValueReference) -> Path:
    """The file that the value is mounted as."""
    default = f"{SECRETS_PATH}/{reference.secret_name}/{reference.secret_key}"
    return Path(reference.file or default)


def read_secret(where: str, reference: ValueReference) -> str:
    """Read a value, without surrounding white space (Secrets made from files end in a newline).

    Raises:
        ConfigError: the file is missing, empty, too large or not text.
    """
    path = mount_path(reference)
    name = f"key {reference.secret_key} of Secret {reference.secret_name}"
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        text = data.decode().strip()
    except UnicodeDecodeError:
        raise ConfigError(where, f"{name} is not text", "store the plain value in the Secret") from None
    except OSError as error:
        raise ConfigError(
            where,
            f"{name}: cannot read {path}: {error.strerror}",
            "check that the Secret and the key exist",
        ) from None
    if not text or len(data) > MAX_BYTES:
        raise ConfigError(where, f"{name} is {'too large' if text else 'empty'}", "correct the Secret")
    return text
