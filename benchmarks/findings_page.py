"""docs/findings.md, made of the cells of the grid and nothing else."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from findings_cells import CANNOT_TELL, DIFFERENT, MEASURES, WORDS, Cell, worded
from scipy.stats import beta

from fairaudit.metrics.quantiles import half_width

LONGEST = 24  # cells of one list
UNIT = {"accuracy": "points", "tpr": "points", "selection": "points", "loss": "nats"}
KINDS = {  # last word of an audit's setting, by how it begins -> row of the table
    "published": "published setting",
    "default": "this program's rules",
    "repaired": "this program's rules",
    "mlp": "this program's rules",
    "search": "search",
}


class Coins(NamedTuple):
    """Families of equal groups, and how many have a cell called different."""

    families: int
    wrong: int
    cells: int

    @property
    def share(self) -> float:
        """Of families with such a cell."""
        return self.wrong / max(1, self.families)

    @property
    def upper(self) -> float:
        """One-sided 95 % upper end of the share (Clopper and Pearson)."""
        if self.wrong == self.families:
            return 1.0
        return float(beta.ppf(0.95, self.wrong + 1, self.families - self.wrong))


@dataclass(frozen=True)
class Evidence:
    """Everything that the page is made of.

    Args:
        cells: Table -> finished cells with their words.
        planned: Table -> cells planned.
        beside: Of Opacus' audits, with the cell of ours.
        coins: Of equal groups.
        digests: Audit -> digest of its comparisons.
        unfinished: Audit -> minutes expected.
        seconds: Taken by what has finished.
    """

    cells: Mapping[str, Sequence[Cell]]
    planned: Mapping[str, int]
    beside: Sequence[tuple[Cell, Cell]]
    coins: Coins
    digests: Mapping[str, str]
    unfinished: Mapping[str, float]
    seconds: float


def kind(cell: Cell) -> str:
    """The row of the table that a cell counts in."""
    _, setting, *more = cell.audit.split()
    row = KINDS[setting.split("-")[0]]
    if more and more[0].isdigit():
        return f"{row}, smaller group cut to {int(more[0]):,} training rows"
    return row


def refutes(cell: Cell) -> bool:
    """A gap that is there though the setting is not the published one."""
    return cell.word == DIFFERENT and kind(cell) != KINDS["published"]


def gap(cell: Cell) -> str:
    """'-3.3 [-4.1, -2.6]': the gap with its own 95 % interval, in points or nats."""
    if cell.value is None:
        return "-"
    half = half_width(cell.training_sd**2, cell.records_sd**2, cell.seeds)
    scale, digits = (1, 3) if cell.measure == "loss" else (100, 1)
    numbers = (cell.value, cell.value - half, cell.value + half)
    value, low, high = (f"{round(scale * n, digits) + 0.0:.{digits}f}" for n in numbers)
    return f"{value} [{low}, {high}]"


def row(*entries: object) -> str:
    """Of a Markdown table."""
    return "| " + " | ".join(map(str, entries)) + " |"


def header(*names: str) -> list[str]:
    """Of a Markdown table."""
    return [row(*names), "|" + "---|" * len(names)]


def counts(cells: Sequence[Cell]) -> str:
    """'12 / 3 / 20', in the order of WORDS."""
    of_word = Counter(cell.word for cell in cells)
    return " / ".join(str(of_word[word]) for word in WORDS)


def by_measure(cells: Sequence[Cell]) -> list[str]:
    """The table of cells by setting and measure."""
    rows: dict[str, list[Cell]] = {}
    for cell in cells:
        rows.setdefault(kind(cell), []).append(cell)
    lines = header("setting", *MEASURES, "cells")
    for name in sorted(rows, key=_order):
        lines.append(row(name, *_counts_by_measure(rows[name]), len(rows[name])))
    return [*lines, row("all", *_counts_by_measure(cells), len(cells))]


def _order(name: str) -> tuple[int, int]:
    """Published first, then rules, search, cut groups."""
    first, *cut = name.split(", ")
    return len(cut), list(KINDS.values()).index(first)


def _counts_by_measure(cells: Sequence[Cell]) -> list[str]:
    of_measure = []
    for measure in MEASURES:
        of_measure.append(counts([cell for cell in cells if cell.measure == measure]))
    return of_measure


def refuting(cells: Sequence[Cell], if_all: Sequence[Cell]) -> list[str]:
    """Cells against the claim, those of the planned family first, the largest gap in margins first.

    Args:
        cells: With their words.
        if_all: The same, with the words they would have were all cells of the grid finished ones.
    """
    against = []
    for cell, alone in zip(cells, if_all, strict=True):
        if refutes(cell):
            against.append((cell, "planned"))
        elif refutes(alone):
            against.append((cell, "finished"))
    against.sort(key=lambda entry: (entry[1] != "planned", -abs(entry[0].value) / entry[0].margin))
    lines = header("audit", "measure", "epsilon", "gap of", "gap", "Holm over")
    for cell, family in against[:LONGEST]:
        groups = f"{cell.a} - {cell.b}"
        epsilon = f"{cell.epsilon:g}"
        lines.append(row(cell.audit, cell.measure, epsilon, groups, gap(cell), family))
    left = len(against) - LONGEST
    if left > 0:
        lines += ["", f"{left} smaller ones are in `OUT/cells.csv`."]
    return lines if against else ["None of the finished cells."]


def with_finished_families(by_table: Mapping[str, Sequence[Cell]], level: float) -> Sequence[Cell]:
    """All cells, with the words they had if nothing else were planned."""
    cells: list[Cell] = []
    for of_table in by_table.values():
        cells += worded(of_table, len(of_table), level)
    return cells


class Sequel(NamedTuple):
    """A gap that is there at a published setting, and the same gap at other settings."""

    published: Cell
    by_rules: Cell | None
    searched: Cell | None


AT_OTHER_SETTINGS = {  # published audit -> by rules, searched
    "dutch published": ("repaired", "search-published"),
    "dutch published-xu": ("default", "search-published"),
    "adult published": ("default", "search-published"),
    "adult published-mlp": ("repaired-mlp", "search-mlp"),
}


def sequels(cells: Sequence[Cell]) -> list[Sequel]:
    """Of every cell that is different at a published setting."""
    told = []
    for cell in cells:
        if kind(cell) != KINDS["published"] or cell.word != DIFFERENT:
            continue
        audit = cell.audit.removesuffix(" (others)")
        table = audit.split()[0]
        by_rules, searched = AT_OTHER_SETTINGS.get(audit, ("mlp", "search-mlp"))
        after = (_like(cell, cells, f"{table} {name}") for name in (by_rules, searched))
        told.append(Sequel(cell, *after))
    return told


def _like(cell: Cell, cells: Sequence[Cell], audit: str) -> Cell | None:
    """The same gap in an audit or in its other epsilons."""
    same = (cell.measure, cell.epsilon, cell.a, cell.b)
    for other in cells:
        if other.audit not in (audit, f"{audit} (others)"):
            continue
        if (other.measure, other.epsilon, other.a, other.b) == same:
            return other
    return None


def before_and_after(told: Sequence[Sequel], cells: Sequence[Cell]) -> list[str]:
    """Published gaps at epsilon 3, beside other epsilons and the same gap at other settings."""
    lines = header(
        *("published setting", "measure", "at 0.5", "at 3", "at 8"),
        *("by rules, at 3", "searched, at 3"),
    )
    for sequel in told:
        cell = sequel.published
        if cell.epsilon != 3:
            continue
        audit = cell.audit.removesuffix(" (others)")
        ends = []
        for epsilon in (0.5, 8.0):
            ends.append(_said(_like(replace(cell, epsilon=epsilon), cells, audit)))
        name = f"{audit.replace(' published', '')} ({cell.a} - {cell.b})"
        after = (_said(sequel.by_rules), _said(sequel.searched))
        lines.append(row(name, cell.measure, ends[0], gap(cell), ends[1], *after))
    return lines


def _said(cell: Cell | None) -> str:
    if cell is None:
        return "not run"
    if cell.word == DIFFERENT:
        return gap(cell)
    return f"{gap(cell)} {cell.word}"


def opacus(pairs: Sequence[tuple[Cell, Cell]]) -> list[str]:
    """Cells of both implementations."""
    lines = header("audit, epsilon", "measure", "this program", "Opacus' engine")
    for ours, theirs in pairs:
        name = f"{ours.audit}, {ours.epsilon:g}"
        if theirs.seeds != ours.seeds:
            name += f" (Opacus: {theirs.seeds} seeds)"
        lines.append(row(name, ours.measure, gap(ours), gap(theirs)))
    return lines


def written(evidence: Evidence, grid: Mapping[str, object]) -> str:
    """The page."""
    cells = [cell for of_table in evidence.cells.values() for cell in of_table]
    if_all = with_finished_families(evidence.cells, grid["level"])
    lines = [
        "# Findings: what is left of published disparities at another setting",
        "",
        "Made by `python benchmarks/findings.py --page OUT` from the reports of "
        "`python benchmarks/findings.py --all OUT --data FOLDER` and nothing else; margins, priors "
        "and the grid are in [findings.toml](../benchmarks/findings.toml), written before the run.",
        "",
        "## What is claimed",
        "",
        *claims(cells, evidence),
        "",
        "A gap is the cost (private model less reference) of the first group less that of the "
        "second, with its own 95 % interval, in points (loss in nats); accuracy and loss are "
        "costs, TPR and selection are changes of the rate. **Equal**: inside "
        f"{_margins(grid['margins'])}, by two one-sided tests. **Different**: detected, and not "
        "equal. Both by Holm at 5 % over all cells that are planned for a table; a cell that is "
        "not finished counts with p = 1. P-values invert the report's own interval (`value`, "
        "`training_sd`, `records_sd`, `n_seeds` of the gap).",
        "",
        "## Cells that refute it",
        "",
        "Different at a setting that is not the published one: by Holm over all planned cells of "
        "the table, or only if the finished ones were all.",
        "",
        *refuting(cells, if_all),
        "",
        "## All cells",
        "",
        "Equal / different / cannot tell.",
        "",
        *by_measure(cells),
        "",
        *_of_power(cells, if_all, grid["level"]),
        "",
        "## Published gaps at another setting",
        "",
        "Every cell that is different at a published setting and epsilon 3. A number without a "
        "word beside it is different, too.",
        "",
        *before_and_after(sequels(cells), cells),
        "",
        "## A second implementation",
        "",
        "Opacus' engine through `--trainer`, at the numbers of our audit, with its own start, "
        "batches and noise, against its own reference.",
        "",
        *opacus(evidence.beside),
        "",
        *DOES_NOT_SHOW,
        "",
        "## How it was run",
        "",
        *_how(evidence, grid),
        "",
    ]
    return "\n".join(lines)


def claims(cells: Sequence[Cell], evidence: Evidence) -> list[str]:
    """Five sentences, each with its count."""
    published = [cell for cell in cells if kind(cell) == KINDS["published"]]
    rules = [cell for cell in cells if kind(cell) == KINDS["default"]]
    cut = [cell for cell in cells if "cut to" in kind(cell)]
    searched = [cell for cell in cells if kind(cell) == KINDS["search"]]
    sizes = sorted({cell.audit.split()[2] for cell in cut}, key=int)
    told = sequels(cells)
    coins = evidence.coins
    return [
        f"1. At published settings DP-SGD has gaps: {_share(published, DIFFERENT)} are different.",
        "2. Of these cells, at the same epsilon but with this program's clipping bound and step, "
        f"{_after([sequel.by_rules for sequel in told])} are equal / different / open.",
        f"3. After a search for settings of both models (scored by accuracy, and charged) they are "
        f"{_after([sequel.searched for sequel in told])}.",
        f"4. Other settings do not remove every gap: by this program's rules "
        f"{_share(rules, DIFFERENT)} are different, after a search {_share(searched, DIFFERENT)}, "
        f"and with a group cut to {', '.join(sizes)} training rows {_share(cut, DIFFERENT)}.",
        f"5. Where no gap is true, {coins.wrong} of {coins.families} families have a cell that is "
        f"called different: {coins.share:.1%}, at most {coins.upper:.1%} with 95 % confidence "
        f"(A/A: coin flips, {coins.cells:,} cells).",
    ]


def _after(cells: Sequence[Cell | None]) -> str:
    """'12 / 3 / 4 (8 were not run)', in the order of WORDS."""
    run = [cell for cell in cells if cell is not None]
    of_word = Counter(cell.word for cell in run)
    equal, different, open_ = (of_word[word] for word in WORDS)
    left = ""
    if len(run) < len(cells):
        left = f" ({len(cells) - len(run)} were not run)"
    return f"{equal} / {different} / {open_}{left}"


def _share(cells: Sequence[Cell], word: str) -> str:
    number = sum(cell.word == word for cell in cells)
    return f"{number} of {len(cells)} cells"


def _margins(margins: Mapping[str, float]) -> str:
    return (
        f"{100 * margins['accuracy']:g} point of accuracy, {100 * margins['tpr']:g} points of TPR "
        f"and {100 * margins['selection']:g} of selection, {margins['loss']:g} nats"
    )


def _of_power(cells: Sequence[Cell], if_all: Sequence[Cell], level: float) -> list[str]:
    weak = [cell for cell in cells if cell.is_weak]
    strong = [cell for cell in cells if not cell.is_weak]
    elsewhere = [cell for cell in cells if kind(cell) != KINDS["published"]]
    open_ = [cell for cell in elsewhere if cell.word == CANNOT_TELL]
    alone = sum(cell.p_diff <= level for cell in open_)
    return [
        f"Before the run {len(weak)} of {len(cells)} cells were marked as weak: their chance of "
        f"being shown equal was reckoned below one half. They came out as {counts(weak)}, the "
        f"others as {counts(strong)}. At other settings than the published ones {len(open_)} cells "
        f"cannot be told; tested one by one at 5 %, {alone} of these gaps would be detected. If "
        f"the finished cells were the whole family, all cells would be {counts(if_all)}."
    ]


DOES_NOT_SHOW = [
    "## What it does not show",
    "",
    "- *Cannot tell* is not *equal*: most such cells are rates of a small class.",
    "- The models are trained on rows of one file and judged on new people of its population. A "
    "new file adds uncertainty to every gap. Groups are those of the file, one column at a time.",
    "- One method, `dpsgd`, was run, on tables, with the models whose audits are listed as "
    "finished. Nothing is said about images, text, other methods or other models.",
    "- An equal gap does not say what both groups lose together, nor which gaps the reference has "
    "already.",
    "- This program's rules were made on adult, dutch, bank, german and the sample, though not on "
    "their groups. Only oulad is a table that they had not seen. The loss of esipova-dutch is one "
    "of sigmoids, on another scale than the others.",
]


def _how(evidence: Evidence, grid: Mapping[str, object]) -> list[str]:
    finished = sum(len(of_table) for of_table in evidence.cells.values())
    planned = sum(evidence.planned.values())
    expected = sum(evidence.unfinished.values())
    lines = [
        f"{grid['seeds']} seeds, each with its own split; epsilon "
        f"{', '.join(f'{epsilon:g}' for epsilon in grid['epsilons'])}; whole tables. "
        f"{len(evidence.digests)} audits and {finished} of {planned} cells have finished, in "
        f"{evidence.seconds / 60:.0f} minutes of a shared core.",
        "",
    ]
    if evidence.unfinished:
        lines += [
            f"Not finished (about {expected / 60:.1f} hours of one idle core): "
            f"{', '.join(evidence.unfinished)}.",
            "",
        ]
    digests = "The digests of all audits are in"
    return [*lines, f"{digests} [findings-digests.md](../benchmarks/findings-digests.md)."]


def digests(evidence: Evidence) -> str:
    """The page of digests."""
    rows = [row(name, f"`{digest}`") for name, digest in evidence.digests.items()]
    return "\n".join([*DIGESTS, *header("audit", "digest"), *rows, ""])


DIGESTS = [
    "# Digests of the audits behind docs/findings.md",
    "",
    "Of the numbers of each audit's cells (`digest` in `findings.py`; of the coins, of those of "
    "their tables). Another run of the\ngrid on the same version gives the same digests.",
    "",
]
