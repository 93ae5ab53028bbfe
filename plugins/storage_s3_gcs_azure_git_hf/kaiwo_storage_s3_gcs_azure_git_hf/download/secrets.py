"""Secret values: read from the files they are mounted as, never from the configuration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kaiwo.api.download import SECRETS_PATH
from kaiwo_storage_s3_gcs_azure_git_hf.download.errors import ConfigError

if TYPE_CHECKING:
    from kaiwo_storage_s3_gcs_azure_git_hf.items import ValueReference

LARGEST = 1024**2
"""A Secret holds at most 1 MiB (core/v1)."""


def file_of(reference: ValueReference) -> Path:
    """Where the value is mounted."""
    default = f"{SECRETS_PATH}/{reference.secret_name}/{reference.secret_key}"
    return Path(reference.file or default)


def read(where: str, reference: ValueReference) -> str:
    """The value, without surrounding white space (Secrets made from files end in a newline).

    Raises:
        ConfigError: the file is missing, empty, too large or no text.
    """
    path = file_of(reference)
    name = f"key {reference.secret_key} of Secret {reference.secret_name}"
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
        text = data.decode().strip()
    except UnicodeDecodeError:
        raise ConfigError(where, f"{name} is no text", "write the plain value into the Secret") from None
    except OSError as error:
        raise ConfigError(
            where,
            f"{name} cannot be read at {path} ({error.strerror})",
            "check that the Secret and the key exist",
        ) from None
    if not text or len(data) > LARGEST:
        raise ConfigError(where, f"{name} is {'too large' if text else 'empty'}", "correct the Secret")
    return text
