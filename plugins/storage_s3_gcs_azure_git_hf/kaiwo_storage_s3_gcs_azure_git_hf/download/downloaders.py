"""Calls the downloader functions of the sources, each with its items, and with settings where it has any."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from pydantic import ValidationError

from kaiwo.plugin.kit.downloads import ItemError, first_error
from kaiwo_storage_s3_gcs_azure_git_hf.download import errors
from kaiwo_storage_s3_gcs_azure_git_hf.download.errors import ConfigError, DownloadError, NetworkError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo.plugin.kit.downloads import DownloadConfig
    from kaiwo_storage_s3_gcs_azure_git_hf.download.session import DownloadSession

_PACKAGE = "kaiwo_storage_s3_gcs_azure_git_hf.download"
FIRST_PARTY = {
    "s3": f"{_PACKAGE}.objects:s3",
    "gcs": f"{_PACKAGE}.objects:gcs",
    "azureBlob": f"{_PACKAGE}.objects:azure_blob",
    "git": f"{_PACKAGE}.git:fetch",
    "huggingFace": f"{_PACKAGE}.hub:fetch",
}
"""Downloaders of this distribution, for configurations that name none."""


def call_downloaders(config: DownloadConfig, session: DownloadSession) -> None:
    """Have every downloader add its items to a session.

    Raises:
        DownloadError: an item is invalid, or a downloader is missing or has a defect.
    """
    for key, items in config.items.items():
        if not items:
            continue
        name = config.downloaders.get(key) or FIRST_PARTY.get(key)
        if name is None:
            raise ConfigError(key, "no downloader is configured", f"add downloaders.{key}")
        fetch = _load(key, name)
        try:
            fetch(list(items), session, *((config.settings[key],) if key in config.settings else ()))
        except DownloadError:
            raise
        except ItemError as error:
            raise ConfigError(error.where, error.problem, "correct the item") from None
        except ValidationError as error:
            raise ConfigError(key, first_error(error), "correct the item") from None
        except ValueError as error:
            raise ConfigError(key, str(error), "correct the item") from None
        except (ConnectionError, TimeoutError) as error:
            cause = f"downloader {name} failed: {type(error).__name__}: {error}"
            raise NetworkError(key, cause, "check the network") from None
        except (Exception, SystemExit) as error:  # noqa: BLE001 - code of another package
            # Another try would end the same way, so the Job must not repeat it.
            cause = f"downloader {name} failed: {errors.describe(error)}"
            raise ConfigError(key, cause, "report it to the author of the downloader") from None


def _load(key: str, name: str) -> Callable[..., None]:
    module, _, function = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError):
        raise ConfigError(
            key, f"downloader {name} is not installed", "use an image that contains it"
        ) from None
    except (Exception, SystemExit) as error:  # noqa: BLE001 - code of another package
        cause = f"downloader {name} cannot be imported: {errors.describe(error)}"
        raise ConfigError(key, cause, "report it to the author of the downloader") from None
    if not callable(found):
        raise ConfigError(key, f"downloader {name} is not a function", "correct the downloader of the source")
    loaded: Callable[..., None] = found
    return loaded
