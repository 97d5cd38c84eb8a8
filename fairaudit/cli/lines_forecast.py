"""What rules can be expected to say, as console lines of ``plan``."""

from collections.abc import Iterable, Iterator

from fairaudit.analysis.forecast import Forecast
from fairaudit.report.safe_names import plain


def forecast_lines(forecasts: Iterable[Forecast]) -> Iterator[str]:
    """Lines on whether these rows and seeds can decide each rule."""
    for one in forecasts:
        begin = f"          forecast for {plain(one.rule, 200)}: "
        if one.half_width is None:
            yield f"{begin}inconclusive, for there are {one.reason}"
            continue
        half, limit = 100 * one.half_width, 100 * one.limit
        yield (
            f"{begin}{half:.2g} points to either side of the number, if privacy changes "
            f"{100 * one.changed:g} % of the answers (--changed-answers)"
        )
        if one.can_pass:
            yield (
                f"          so it can be decided: it passes up to about {limit - half:.2g} points "
                f"and fails from about {limit + half:.2g} on"
            )
            continue
        ways = []
        if one.seeds_needed is not None:
            ways.append(f"--seeds {one.seeds_needed}")
        if one.rows_factor is not None:
            ways.append(f"{one.rows_factor:.1f} times the rows")
        ways.append(f"a limit above {half:.2g} points")
        yield (
            "          so it cannot pass, even if privacy cost nobody anything; what would let it: "
            f"{', or '.join(ways)}"
        )
