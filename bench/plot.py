"""Draw recall against k for every system of a results file of recall.py or mixed.py.

python bench/plot.py results.json docs/images/recall.svg --title "LoCoMo"
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from pages import drawn


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path)
    parser.add_argument("picture", type=Path, help=".svg or .png")
    parser.add_argument("--title", default="")
    options = parser.parse_args()
    figures = json.loads(options.results.read_text(encoding="utf-8"))
    with drawn(options.picture, (7, 4.2)) as axes:
        for name, system in figures.items():
            depths = [int(depth) for depth in system["recall at"]]
            ours = name.startswith(("hybrid", "keyword"))
            axes.plot(
                depths,
                list(system["recall at"].values()),
                marker="o",
                ms=3,
                lw=2 if ours else 1,
                label=name,
            )
            axes.annotate(
                f"{system['recall at']['10']:.2f}",
                (10, system["recall at"]["10"]),
                fontsize=7,
                va="bottom",
            )
        axes.set(
            xlabel="k (memories returned)",
            ylabel="evidence recall",
            ylim=(0, 1),
            title=options.title,
        )
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8, loc="lower right")


if __name__ == "__main__":
    main()
