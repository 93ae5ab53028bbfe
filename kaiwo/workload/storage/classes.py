"""StorageClasses: what of them decides how a volume is bound and whether it grows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kaiwo.workload.json_access import lenient_map

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object

_DEFAULT = "storageclass.kubernetes.io/is-default-class"


@dataclass(frozen=True, slots=True)
class StorageClass:
    """One StorageClass.

    Attributes:
        name: its name.
        waits: whether volumes are made only when the first pod that uses them is scheduled.
        expands: whether volumes may grow.
        default: whether it is the class of claims that name none.
    """

    name: str
    waits: bool = False
    expands: bool = False
    default: bool = False


def storage_class(obj: Object) -> StorageClass:
    """The facts of a StorageClass object; odd values count as absent."""
    metadata = lenient_map(obj.get("metadata"))
    return StorageClass(
        name=str(metadata.get("name", "")),
        waits=obj.get("volumeBindingMode") == "WaitForFirstConsumer",
        expands=obj.get("allowVolumeExpansion") is True,
        default=lenient_map(metadata.get("annotations")).get(_DEFAULT) == "true",
    )
