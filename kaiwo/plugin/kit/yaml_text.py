"""YAML that users wrote into a string field, such as ``serveConfigV2``."""

from kaiwo.engine.yaml_reader import Limits, parse_value
from kaiwo.engine.yaml_scalars import DocumentError

__all__ = ["DocumentError", "Limits", "parse_value"]
