"""Values of Kubernetes objects: quantities, times, durations and switches; and the nearest of known words."""

from kaiwo.api.duration import InvalidDuration, parse_duration
from kaiwo.api.suggestion import did_you_mean
from kaiwo.api.switch import parse_switch
from kaiwo.engine.quantity import NANO, Form, InvalidQuantity, Quantity, parse_quantity, quantity
from kaiwo.engine.timestamps import format_time, parse_time

__all__ = [
    "NANO",
    "Form",
    "InvalidDuration",
    "InvalidQuantity",
    "Quantity",
    "did_you_mean",
    "format_time",
    "parse_duration",
    "parse_quantity",
    "parse_switch",
    "parse_time",
    "quantity",
]
