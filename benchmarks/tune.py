"""A tuned audit beside the untuned one, one after the other: how much longer a search takes.

    python benchmarks/tune.py --data adult.parquet [--tune 20] [--seeds 5] [--model logistic] [--workers 2]

Three arms: sgd, dpsgd and global-adapt. The plain product is as many trainings of the default length.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path


def seconds_of(words: Sequence[str]) -> float:
    """Wall seconds of one `fairaudit run` from a fresh output folder."""
    out = tempfile.mkdtemp(prefix="fairaudit-benchmark-")
    began = time.perf_counter()
    try:
        subprocess.run(
            [sys.executable, "-m", "fairaudit", "run", *words, "--out", out, "--quiet"], check=True
        )
        return time.perf_counter() - began
    finally:
        shutil.rmtree(out)


def main() -> None:
    """Parse, run both, print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the Adult table (parquet)")
    parser.add_argument("--tune", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--model", default="logistic")
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    words = ["--data", str(asked.data), "--group", "sex", "--label", "income", "--model", asked.model]
    words += ["--method", "dpsgd", "--method", "global-adapt", "--seeds", str(asked.seeds)]
    words += ["--workers", str(asked.workers)]
    plain = seconds_of(words)
    tuned = seconds_of([*words, "--tune", str(asked.tune)])
    print(f"untuned {plain:.1f} s, {asked.tune} settings {tuned:.1f} s: {tuned / plain:.1f} times")


if __name__ == "__main__":
    main()
