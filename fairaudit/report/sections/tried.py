"""Every setting that a search tried, and how stable its choice is."""

from collections.abc import Iterator

from fairaudit.errors import numbered
from fairaudit.report.charts_tuned import spread_chart
from fairaudit.report.document import Block, Cell, Rank, Section, Text, figures, table
from fairaudit.report.model import Report
from fairaudit.report.safe_names import plain
from fairaudit.report.tuned import ArmSearch, Tried
from fairaudit.report.written import UNKNOWN, short

_MOST_ROWS = 24


def section(report: Report) -> Section | None:
    """None where settings were fixed."""
    searches = () if report.tuning is None else tuple(s for s in report.tuning.searches if s.seeds)
    if not searches:
        return None
    spreads = [Text(words) for search in searches if (words := spread_words(search))]
    blocks: list[Block] = [
        *spreads,
        *figures(spread_chart(report)),
        Text(
            "Figures of a candidate are of one model on one split, read on test rows after the choice: they "
            "describe, and have no interval. Costs elsewhere are expectations over which candidate is kept."
        ),
        Text(
            "The best score at each seed, and the chance that the search keeps that candidate. "
            + " ".join(map(_stability, searches))
        ),
        _table(searches),
    ]
    return Section("tried", "Settings that were tried", Rank.SECOND, tuple(blocks), brief=tuple(spreads))


def spread_words(search: ArmSearch) -> str:
    """From where to where gap and accuracy ran, and how much of that one setting does; "" of a reference."""
    tried = [tried for seed in search.seeds for tried in seed.tried]
    gaps = _ran([t.gap for t in tried])
    if not gaps:
        return ""
    same = [t for t in tried if t.is_default]
    alone = _ran([t.gap for t in same])
    luck = (
        f" The default setting alone, trained {len(same):,} times among them, ran {alone}: so much is the "
        "luck of training and of rows."
        if len(same) > 1 and alone
        else ""
    )
    name, accuracy = plain(search.arm), _ran([t.accuracy for t in tried], " %")
    return f"{name}: over the settings tried, the gap ran {gaps} points, and accuracy {accuracy}.{luck}"


def _ran(values: list[float | None] | list[float], unit: str = "") -> str:
    known = [100 * value for value in values if value is not None]
    return f"from {min(known):.1f} to {max(known):.1f}{unit}" if known else ""


def _stability(search: ArmSearch) -> str:
    """How often the best setting is the default one."""
    default = sum(seed.best is not None and seed.best.is_default for seed in search.seeds)
    return f"{plain(search.arm)}: the default setting at {default} of {numbered(len(search.seeds), 'seed')}."


def _table(searches: tuple[ArmSearch, ...]) -> Block:
    names = list(dict.fromkeys(name for search in searches for name in search.searched))
    rows = [
        (
            *(plain(search.arm), seed.seed),
            *(_value(best, name, search) for name in names),
            f"{100 * best.weight:.0f} %",
            "; ".join(_notes(best)),
        )
        for search in searches
        for seed in search.seeds
        if (best := seed.best) is not None
    ]
    head = ("method", "#seed", *(f"#{plain(name.replace('_', ' '))}" for name in names), "#chance", "note")
    return table(head, rows, most=_MOST_ROWS)


def _value(tried: Tried, name: str, search: ArmSearch) -> Cell:
    if name not in search.searched:
        return UNKNOWN
    return tried.epochs if name == "epochs" else short(tried.settings.get(name))


def _notes(tried: Tried) -> Iterator[str]:
    if tried.is_default:
        yield "default"
    if tried.diverged:
        yield "diverged: the same answer for everybody"
    if tried.at_edge:
        yield f"at the edge: {', '.join(plain(name.replace('_', ' ')) for name in tried.at_edge)}"
