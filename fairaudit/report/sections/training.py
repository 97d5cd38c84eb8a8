"""The last reading of every curve: what training did to each group's gradients."""

from collections.abc import Mapping

from fairaudit.report.charts_training import training_charts
from fairaudit.report.decomposition import Curve
from fairaudit.report.document import Block, Cell, Rank, Section, Text, bare, figures, table
from fairaudit.report.model import Report
from fairaudit.report.safe_names import plain

_MOST_READINGS = 8
_ORDER = (
    *("loss", "gradient_norm", "clipped", "scale", "cos_group_batch", "cos_group_clipped", "norm_group"),
    *("cos_batch_clipped", "norm_batch", "norm_clipped", "threshold"),
)
_TOLD = (
    "The last readings of each (the last window of a long curve), mean over seeds. Where a group's cosine "
    "falls from the batch gradient to the clipped one, clipping turns training away from the group."
)
# reading -> head of its column
_HEADS = {
    "loss": "loss (nats)",
    "gradient_norm": "mean gradient norm of a record",
    "clipped": "clipped (share)",
    "scale": "mean scaling factor",
    "cos_group_batch": "cosine(group gradient, batch gradient)",
    "cos_group_clipped": "cosine(group gradient, clipped batch gradient)",
    "cos_batch_clipped": "cosine(batch gradient, clipped batch gradient)",
    "norm_group": "‖group gradient‖",
    "norm_batch": "‖batch gradient‖",
    "norm_clipped": "‖clipped batch gradient‖",
}


def section(report: Report) -> Section | None:
    """None where nothing was trained, or where another section says why a group pays."""
    if report.training is None or report.diagnostics.decomposition is not None:
        return None
    arms = {arm.key: report.diagnostics.arms.get(arm.key, ()) for arm in report.arms}  # in the plan's order
    arms = {key: curves for key, curves in arms.items() if curves}
    blocks: list[Block] = [Text("No diagnostics were recorded.")]
    if arms:
        blocks = [Text(_TOLD), *figures(*training_charts(report)), *_tables(arms)]
    return Section("training", "Appendix: training, group by group", Rank.APPENDIX, tuple(blocks))


def _tables(arms: Mapping[str, tuple[Curve, ...]]) -> list[Block]:
    grouped, whole = (_names(arms, by_group=by_group) for by_group in (True, False))
    by_group: list[tuple[Cell, ...]] = []
    by_arm: list[tuple[Cell, ...]] = []
    for arm, curves in arms.items():
        last = {c.name: dict(zip(c.columns, c.values[-1], strict=True)) for c in curves if c.values}
        several = {name: read for name, read in last.items() if len(read) > 1}
        for group in next(iter(several.values()), {}):
            read = (bare(several.get(name, {}).get(group)) for name in grouped)
            by_group.append((plain(arm), plain(group), *read))
        single = {name: next(iter(read.values())) for name, read in last.items() if len(read) == 1}
        by_arm.append((plain(arm), *(bare(single.get(name)) for name in whole)))
    tables: list[Block] = [table(("method", "group", *_heads(grouped)), by_group, most=12)]
    return [*tables, table(("method", *_heads(whole)), by_arm, most=8)] if whole else tables


def _names(arms: Mapping[str, tuple[Curve, ...]], *, by_group: bool) -> list[str]:
    found: dict[str, None] = {}
    for curves in arms.values():
        found.update({c.name: None for c in curves if (len(c.columns) > 1) == by_group})
    known = [name for name in _ORDER if name in found]
    return [*known, *(name for name in found if name not in _ORDER)][:_MOST_READINGS]


def _heads(names: list[str]) -> list[str]:
    return [f"#{_HEADS.get(name) or plain(name.replace('_', ' '))}" for name in names]
