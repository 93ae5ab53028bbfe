"""Download sources: what a user may ask to be fetched before the workload starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import BaseModel


@dataclass(frozen=True, slots=True)
class DownloadSource:
    """A source of data or models.

    Attributes:
        name: short name, as in logs and ``kaiwo plugins`` (``s3``).
        path: the list field it owns, below ``spec.storage`` in JSON names: ``("data", "download", "s3")``.
        item: pydantic model of one item; it is composed into both workload kinds.
        description: for the reference and ``kubectl explain``.
        downloader: ``module:function`` that runs inside the download container; None while the
            source is only declared (its field is in the CRDs, nothing can fetch it yet). It is called
            as ``function(items, downloads)`` with the items as users wrote them and a
            :class:`kaiwo.api.download.Downloads`, and says there what to fetch; all sources are then
            fetched together. The operator never imports it.
        settings: model of ``spec.plugins.<plugin name>`` in KaiwoConfig.
    """

    name: str
    path: tuple[str, ...]
    item: type[BaseModel]
    description: str
    downloader: str | None = None
    settings: type[BaseModel] | None = None
