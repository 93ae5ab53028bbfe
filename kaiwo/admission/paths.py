"""HTTP paths of the webhooks."""

from __future__ import annotations

from typing import Final

VALIDATE_WORKLOADS: Final = "/validate/workloads"
"""KaiwoJob and KaiwoService: what the operator could not use, and changes that it would not apply."""

VALIDATE_TEMPLATES: Final = "/validate/templates"
"""KaiwoJob and KaiwoService: privileges in embedded pod templates. Its webhook is to leave out namespaces
with the label `kaiwo.admission.template_rules.ALLOW_PRIVILEGED`."""

VALIDATE_CONFIGURATIONS: Final = "/validate/configurations"
"""KaiwoConfig, and the kinds of plugins."""

MUTATE_WORKLOADS: Final = "/mutate/workloads"
"""KaiwoJob and KaiwoService: the user, in both modes of identity."""
