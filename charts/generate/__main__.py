"""``python -m charts.generate`` writes the chart anew; ``--check`` only compares."""

from __future__ import annotations

import sys

from charts.generate.chart import files
from charts.generate.switches import ROOT

CHART = ROOT / "charts" / "kaiwo"


def main(arguments: list[str]) -> int:
    """Write or check every file of the chart; exit code 1 when ``--check`` finds a stale one."""
    check = arguments == ["--check"]
    if arguments and not check:
        sys.stderr.write("usage: python -m charts.generate [--check]\n")
        return 2
    made = {CHART / name: text for name, text in files().items()}
    existing = {path for path in CHART.rglob("*") if path.is_file()}
    stale = [
        path
        for path, text in made.items()
        if path not in existing or path.read_text(encoding="utf-8") != text
    ]
    gone = sorted(existing - made.keys())
    for path in [*stale, *gone]:
        name = path.relative_to(ROOT)
        if check:
            sys.stderr.write(f"{name}: is stale; run python -m charts.generate\n")
        elif path in made:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(made[path], encoding="utf-8")
            sys.stdout.write(f"{name}: written\n")
        else:
            path.unlink()
            sys.stdout.write(f"{name}: removed\n")
    return int(check and bool(stale or gone))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
