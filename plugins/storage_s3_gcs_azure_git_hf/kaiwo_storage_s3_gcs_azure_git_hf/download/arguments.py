"""The command line of ``kaiwo-download``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kaiwo.plugin.kit.downloads import DownloadPolicy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaiwo.plugin.kit.downloads import DownloadConfig

TERMINATION_LOG: Final = Path("/dev/termination-log")
"""Where Kubernetes reads the termination message of a container (default of terminationMessagePath)."""

DEFAULT_MAX_BYTES: Final = 4 * 1024**4
DEFAULT_MAX_FILES: Final = 1_000_000
DEFAULT_TIMEOUT: Final = 24 * 3600
"""Seconds of one run."""


def parse_arguments(argv: Sequence[str], description: str) -> argparse.Namespace:
    """Parse the command line; exits with code 2 when it is invalid."""
    parser = argparse.ArgumentParser(prog="kaiwo-download", description=description)
    parser.add_argument("config", metavar="CONFIG.yaml", help="the configuration")
    parser.add_argument("--dry-run", action="store_true", help="print the plan and download nothing")
    parser.add_argument(
        "--progress", choices=["bar", "lines", "json"], help="format of the progress on stderr"
    )
    parser.add_argument("--target-root", metavar="DIR", help="write below DIR instead of the mount paths")
    parser.add_argument("--termination-log", metavar="FILE", default=str(TERMINATION_LOG))
    policy = parser.add_argument_group("policy", "These override the policy of the configuration.")
    policy.add_argument(
        "--allow-private-endpoints",
        type=_boolean,
        metavar="BOOL",
        help="allow private addresses: true or false",
    )
    policy.add_argument(
        "--ambient-credentials",
        type=_boolean,
        metavar="BOOL",
        help="use the cloud identity of the pod or node: true or false",
    )
    limits = parser.add_argument_group("limits")
    for name, default, text in (
        ("--max-bytes", DEFAULT_MAX_BYTES, "bytes of all files together"),
        ("--max-files", DEFAULT_MAX_FILES, "number of files"),
        ("--timeout", DEFAULT_TIMEOUT, "seconds of the whole run"),
    ):
        limits.add_argument(
            name, type=_positive, metavar="N", default=default, help=f"{text} (default: {default})"
        )
    return parser.parse_args(argv)


def with_policy(config: DownloadConfig, arguments: argparse.Namespace) -> DownloadConfig:
    """The configuration with the policy of the command line, where it names one."""
    policy = config.policy
    private, ambient = arguments.allow_private_endpoints, arguments.ambient_credentials
    return config.model_copy(
        update={
            "policy": DownloadPolicy(
                allow_private_endpoints=policy.allow_private_endpoints if private is None else private,
                ambient_credentials=policy.ambient_credentials if ambient is None else ambient,
            )
        }
    )


def _boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"expected true or false, got {text!r}")
    return text == "true"


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"expected a positive number, got {text!r}")
    return int(text)
