"""A training for release and its predictions as console lines."""

from collections.abc import Iterator, Sequence

from fairaudit.errors import numbered
from fairaudit.messages.names import listed
from fairaudit.privacy.events import shown_up
from fairaudit.release.checks import outcomes_of
from fairaudit.release.held_out import HeldOut
from fairaudit.release.model_recipe import TableInputs
from fairaudit.release.planned import ReleasePlan
from fairaudit.report.render.terminal import aligned
from fairaudit.report.safe_names import plain
from fairaudit.report.types.verdicts import worst


def plan_lines(plan: ReleasePlan) -> Iterator[str]:
    """Lines before the training: what is trained, its epsilon, and what the audit's rules said."""
    arm, training, report = plan.arm, plan.training, plan.report
    epsilon = arm.privacy.headline
    assert epsilon is not None
    steps = f"{numbered(training.epochs, 'epoch')} of {numbered(training.steps_per_epoch, 'step')}"
    if arm.search is not None:
        steps = f"the best of {arm.search.trials} trainings on average, how many is not told"
    title = f"Training {plain(arm.key)} on {plain(plan.dataset.name)}"
    yield f"{title}: {plain(training.model)}, {steps}"
    yield (
        f"  privacy ε = {shown_up(epsilon)}, δ = {training.delta:g}, a row of the file, "
        "noise, sampling and split from the operating system"
    )
    dataset, audited = plan.dataset, report.data
    if dataset.n_rows < dataset.rows_read:
        yield (
            f"  rows    {dataset.n_rows:,} of {dataset.rows_read:,} (audit: {audited.rows:,} of "
            f"{audited.rows_read:,}); the others lack a label, group, side or image that can be "
            "read, or are no record"
        )
    outcomes = outcomes_of(report, arm.key).values()
    gates = f"rules: {worst(outcomes)}" if outcomes else "no rules"
    yield f"  audit   {gates}, report sha256 {plan.report_sha256[:6]}…"
    if plan.overrides:
        yield f"  despite {', '.join(plan.overrides)}; the card and the evidence say so"


def held_out_lines(checks: Sequence[HeldOut], kept: str) -> Iterator[str]:
    """Lines after the training: each group's held-out accuracy, beside where it was expected.

    ``kept``: path of the file that holds the same.
    """
    yield (
        "Held-out rows: accuracy of this model, and where one new training lies with 95 % "
        "probability, in all groups together"
    )
    words = {True: "as expected", False: "outside", None: ""}
    rows = [("group", "n", "accuracy", "expected", "")]
    for group in checks:
        accuracy = "–" if group.accuracy is None else f"{group.accuracy:.3f}"
        ends = group.expected
        expected = "–" if ends is None else f"[{ends.low:.3f}, {ends.high:.3f}]"
        name = plain(f"{group.grouping} {group.group}")
        rows.append((name, f"{group.rows:,}", accuracy, expected, words[group.is_inside]))
    yield from aligned(rows, left={0, 4})  # the columns of words, not of numbers
    unexpected = sum(group.is_inside is False for group in checks)
    if unexpected:
        yield (
            f"Warning {numbered(unexpected, 'group is', 'groups are')} outside (of ordinary models "
            "one in twenty is, in some group)"
        )
    yield f"Kept in {kept}: not private, and no part of the model's folder"


def prediction_lines(rows: int, inputs: TableInputs) -> Iterator[str]:
    """Lines after a prediction: how many rows, and warnings of values that the model does not know.

    ``inputs`` has counted those that are missing, out of their range or not listed, by column.
    """
    yield f"Predicted {numbered(rows, 'row')}"
    unlike = {"not as the model knows them": inputs.unknown, "missing": inputs.missing}
    for problem, counts in unlike.items():
        if counts:
            yield f"Warning {numbered(counts.total(), 'value')} in {listed(counts)}: {problem}"
