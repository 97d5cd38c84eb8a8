"""Chart of a search: every setting tried, by accuracy and gap."""

from fairaudit.report.document import Chart, data_table
from fairaudit.report.model import Report
from fairaudit.report.panels import Scatter, Spot, labels

PERCENT = 100.0
_DEFAULT, _OTHER = "default setting", "another setting"
_LEAST = 2.0  # points, of each axis


def spread_chart(report: Report) -> Chart | None:
    """One drawing for each method; None where nothing was sought, or no gap could be told."""
    searches = () if report.tuning is None else report.tuning.searches
    names = labels([search.arm for search in searches])
    panels, rows = [], []
    for search in searches:
        spots = []
        for seed in search.seeds:
            for tried in seed.tried:
                if tried.gap is not None:
                    series = _DEFAULT if tried.is_default else _OTHER
                    accuracy, gap = PERCENT * tried.accuracy, PERCENT * tried.gap
                    spots.append(Spot(accuracy, gap, series, tried.selected))
                    chosen = "best score" if tried.selected else ""
                    row = (search.arm, seed.seed, series, tried.epochs, accuracy, gap, tried.weight, chosen)
                    rows.append(row)
        if spots:
            spots.sort(
                key=lambda spot: spot.series != _DEFAULT
            )  # one colour for one meaning in every drawing
            panels.append(
                Scatter(
                    names[search.arm],
                    "accuracy on test rows (%)",
                    "largest gap in cost (points)",
                    tuple(spots),
                    _LEAST,
                )
            )
    if not panels:
        return None
    head = ("method", "seed", "setting", "epochs", "accuracy (%)", "gap (points)", "chance", "note")
    return Chart(
        name="settings-tried",
        title="Accuracy and gap of every setting tried",
        reading="One dot for each candidate of each seed, on test rows; a ring marks a seed's best score, "
        "read on other rows. The gap is in the cost of privacy, beside the tuned model without privacy.",
        alt="Accuracy and largest gap of every setting that was tried, one drawing for each method.",
        panels=tuple(panels),
        table=data_table(head, rows),
    )
