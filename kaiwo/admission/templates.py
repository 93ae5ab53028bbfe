"""Review of embedded pod templates, for clusters without ValidatingAdmissionPolicies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.admission.answer import FORBIDDEN, Answer
from kaiwo.admission.template_rules import FOREIGN_NAMESPACE, broken_rules, names_foreign_namespace
from kaiwo.api.workload import GROUP

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaiwo.admission.request import Request
    from kaiwo.plugin.backends import Backend


class TemplateReviewer:
    """Refuses what the admission policy for workloads refuses of embedded templates, in its words.

    The namespaceSelector of its webhook leaves out the namespaces in which the rules do not count.
    """

    def __init__(self, backends: Iterable[Backend]) -> None:
        """Prepare.

        Args:
            backends: of the loaded plugins; each declares where pod templates are in its block.
        """
        self._backends = tuple(backends)

    def __call__(self, request: Request) -> Answer:
        """Whether the templates ask for nothing that only a namespace with the label gets."""
        if request.object is None or request.group != GROUP or not request.changes_spec:
            return Answer(allowed=True)
        if request.unreadable:
            return Answer(allowed=False, message=f"{request.unreadable}; make it smaller")
        spec = request.object.get("spec")
        broken = broken_rules(request.kind, spec, self._backends)
        if names_foreign_namespace(request.kind, spec, self._backends, request.namespace):
            broken.append(FOREIGN_NAMESPACE)
        if broken:
            return Answer(allowed=False, message="; ".join(broken), code=FORBIDDEN)
        return Answer(allowed=True)
