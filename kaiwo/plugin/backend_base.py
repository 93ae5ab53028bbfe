"""The base class of workload backends: what the host calls, with the contract of each method.

Methods are pure: no I/O, no clock (time is a fact), no globals, and they change nothing that they are given.
The operator, ``kaiwo plan``, validation and the tests call the same methods.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pydantic import BaseModel

    from kaiwo.api.workload import Workload
    from kaiwo.engine.resource import Object, Resource
    from kaiwo.plugin.facts import Allocation, Blocked
    from kaiwo.plugin.observation import Observation, Outcome
    from kaiwo.plugin.rendering import AllocationInput, Rendered, RenderInput


@dataclass(frozen=True, slots=True)
class VariantInput:
    """What the choice between the variants of a backend may depend on.

    Attributes:
        settings: those of the backend's plugin; None for a plugin that has none.
        queue_manages: whether the queue system in force queues objects of a kind by itself.
    """

    settings: BaseModel | None
    queue_manages: Callable[[Resource], bool]


class BackendBase(ABC):
    """How a backend turns a workload into a Kubernetes object, and what the state of that object means.

    A subclass implements :meth:`allocate`, :meth:`render` and :meth:`observe`; the other methods have
    defaults. An instance holds no state and may be created again at any time.

    Attributes:
        block: name of the backend's own block, the first field of its declaration (``job``). Its content is
            in ``workload.blocks``.
    """

    def __init__(self, block: str) -> None:
        self.block = block

    def serves(self, workload: Workload) -> bool:
        """Whether the backend runs this workload. The default: the backend's own block is given.

        The host calls the backends whose block is given first, then the others by name. The first that
        returns True runs the workload.
        """
        return self.block in workload.blocks

    def validate(self, workload: Workload) -> None:  # noqa: B027 - the default accepts every workload
        """Check the fields that the backend owns. The default accepts everything.

        Raises:
            kaiwo.plugin.kit.errors.SpecError: a field cannot be used. The workload is not run.
        """

    @abstractmethod
    def allocate(self, inp: AllocationInput) -> Allocation | Blocked:
        """How the GPUs of a workload are split over pods, or why it cannot run now.

        Raises:
            kaiwo.plugin.kit.errors.SpecError: a field cannot be used.
        """

    @abstractmethod
    def render(self, inp: RenderInput) -> Rendered:
        """The object to create, and secondary objects.

        The object is of the declared ``child`` kind and has the name and namespace of the workload.

        Raises:
            kaiwo.plugin.kit.errors.SpecError: a field cannot be used.
            kaiwo.plugin.kit.errors.PluginError: another plugin's contribution to the pods failed.
        """

    @abstractmethod
    def observe(self, observation: Observation) -> Outcome:
        """What the state of a live child means for its workload.

        The child may have any status: none yet, or one that makes no sense.
        """

    def immutable_part(self, child: Object) -> object:
        """The part of a rendered or live child that cannot change while it exists.

        If it changes, the child is deleted and created again. The default is None: no change replaces a
        child. A backend either always returns None or never.
        """
        del child
        return None

    def tune_secondary(
        self, workload: Workload, secondary: Mapping[Resource, Object]
    ) -> Mapping[Resource, Object]:
        """Merge patches for live secondary objects that the child's own controller made. The default: none.

        Args:
            workload: the workload.
            secondary: live objects of the declared ``secondary`` kinds that belong to the child.
        """
        del workload, secondary
        return {}

    def merge_live(self, desired: Object, live: Object) -> Object:
        """The rendered child with what others decide on the live one.

        With ``write="apply"``: their items in lists that an apply replaces as a whole. A result that is
        another object is written only onto the version of the live child that it was computed from.
        With ``write="create"``: their values at ``patch_paths``, which are left as they are unless the user
        changes the field. The default returns the rendered child itself.

        Args:
            desired: the rendered child.
            live: the live child.
        """
        del live
        return desired

    def select_variant(self, inp: VariantInput) -> str | None:
        """The name of the variant that a new child is made in; None, the default, for no variant."""
        del inp
        return None


BACKEND_METHODS: Final = tuple(name for name in vars(BackendBase) if not name.startswith("_"))
"""The names of the methods that the host calls."""
