from __future__ import annotations

import pytest

from kaiwo_ray_job.entrypoint import ray_entrypoint


@pytest.mark.parametrize(
    ("text", "line", "warns"),
    [
        ("python \\\n  train.py", "python    train.py", False),
        ("python train.py \\  \n --x", "python train.py   --x", False),
        ("python train.py \\\n  --x \\  \n\n", "python train.py    --x", False),
        ("/usr/bin/python3 -m train", "/usr/bin/python3 -m train", False),
        ("bash -c 'cd /w && python3 \"train.py\"'", "bash -c 'cd /w && python3 \"train.py\"'", False),
        ("train.py\nb", "train.py\nb", False),
        ("./run.sh", "./run.sh", True),
        ("", "", False),
    ],
)
def test_a_ray_entrypoint_joins_continued_lines(text: str, line: str, warns: bool) -> None:
    """Ray gets one command; a missing Python script is only a warning."""
    joined, warnings = ray_entrypoint(text)
    assert joined == line
    assert bool(warnings) is warns
