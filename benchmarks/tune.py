"""A tuned audit beside the untuned one, one after the other: how much longer a search takes.

    python benchmarks/tune.py --data adult.parquet [--tune 20] [--seeds 5] [--model logistic --model
    mlp]

Three arms: sgd, dpsgd and global-adapt. Targets: 12 times the untuned audit for 20 settings of the
logistic regression, whose candidates are trained side by side; for the network no more than the
plain product, that is ``--tune`` times.
"""

import argparse
from pathlib import Path

from audit import whole_audit


def main() -> None:
    """Parse, run both, print the ratios."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="the Adult table (parquet)")
    parser.add_argument("--tune", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, help="default: by rule")
    parser.add_argument("--model", action="append", help="default: logistic and mlp")
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    words = ["run", "--data", str(asked.data), "--group", "sex", "--label", "income"]
    words += ["--method", "dpsgd", "--method", "global-adapt", "--seeds", str(asked.seeds)]
    words += ["--workers", str(asked.workers)]
    words += ["--epochs", str(asked.epochs)] if asked.epochs else []
    for model in asked.model or ("logistic", "mlp"):
        plain = whole_audit([*words, "--model", model])
        tuned = whole_audit([*words, "--model", model, "--tune", str(asked.tune)])
        print(
            f"{model}: untuned {plain:.1f} s, {asked.tune} settings {tuned:.1f} s: "
            f"{tuned / plain:.1f} times",
            flush=True,
        )


if __name__ == "__main__":
    main()
