"""The charged search that a report holds -> the same search, ready to be run for a release.

Nothing is calibrated here: noise and charge are the stored ones, and what they cost is computed by
whoever releases.
"""

from collections.abc import Mapping

from fairaudit.errors import ConfigError
from fairaudit.planning.draft import ArmDraft
from fairaudit.privacy.selection import Selection
from fairaudit.report.model import Report
from fairaudit.results.estimates import finite
from fairaudit.tuning.charge import SHAPES, charged, search_coordinates, uncharged
from fairaudit.tuning.search import Choice, Coordinate, Tuning, combinations, names_of_choices
from fairaudit.tuning.searched import ArmSearch, Searched
from fairaudit.tuning.study import Tuned

# Noise on scores over their sensitivity: wider than what a calibration finds, and of each epsilon
# is a number.
LEAST_SCORE_NOISE, MOST_SCORE_NOISE = 1e-6, 1e12


def searched_in(coordinates: Mapping[str, Coordinate]) -> dict[str, Searched]:
    """What a search varies, as a report holds it: name of a setting -> its range or choices."""
    searched = {}
    for name, coordinate in coordinates.items():
        searched[name] = Searched(
            default=finite(coordinate.default),  # NaN where the user's own code alone knows it
            low=coordinate.low,
            high=coordinate.high,
            choices=coordinate.choices,
        )
    return searched


def reported_search(draft: ArmDraft, report: Report, arm: str) -> Tuning | None:
    """The charged search of an audited arm with the noise that stands in the report.

    Ranges and choices follow from the default setting by the method's rules, and must be those of
    the report.

    Args:
        draft: The arm; its settings are the default setting of the report.
        report: Of the audit.
        arm: The arm's key there.

    Returns:
        None where the report holds no search for this arm's settings.

    Raises:
        ConfigError: Another version wrote the report: it does not hold the noise of candidates, or
            other settings were searched, or in other ranges; or a noise is out of its range.
    """
    tuned = Tuned.of(report)
    stored = tuned.search(arm) if tuned is not None else None
    if tuned is None or stored is None:
        return None
    if not stored.forms or stored.score_noise_multiplier is None:
        raise ConfigError(
            f"the report does not hold the noise of all that was tried for {arm}: an earlier "
            "version of fairaudit wrote it",
            hint="audit again with this version",
        )
    settings = draft.settings(None)  # None: noise is not calibrated, it is the report's
    coordinates = search_coordinates(draft, settings)
    noises = _noises(stored, coordinates, draft.schedule.epochs)
    shape = stored.shape_tries
    is_possible = (
        tuned.trials > 1
        and stored.mean_tries == tuned.trials  # as :func:`charged_search` draws them
        and shape in SHAPES
        # Epsilon reads the square, so it would not show a negative multiplier, and of one out of
        # this range it is not a number.
        and LEAST_SCORE_NOISE <= stored.score_noise_multiplier <= MOST_SCORE_NOISE
    )
    # ``shape`` is tested once more for mypy alone.
    if noises is None or shape is None or not is_possible:
        raise ConfigError(
            f"this version searches for settings of {arm} in another way than the report says",
            hint="audit again with this version",
        )

    def noise_at(choice: Choice, form_settings: Mapping[str, float], epochs: int) -> float:
        """The stored noise multiplier of a combination of choices."""
        return draft.resolver.checked(draft.spec, "noise_multiplier", noises[choice])

    tuning = uncharged(draft, tuned.trials, tuned.goal, settings, noise_at)
    selection = Selection(float(tuned.trials), shape)
    return charged(tuning, selection, stored.score_noise_multiplier)


def _noises(
    stored: ArmSearch, coordinates: Mapping[str, Coordinate], epochs: int
) -> dict[Choice, float] | None:
    """Every combination of choices -> its stored noise multiplier.

    Args:
        stored: The search as the report holds it.
        coordinates: What this version searches.
        epochs: Of the default setting.

    Returns:
        None where the report holds other ranges or choices, other combinations of them, or one
        without noise.
    """
    # As JSON, for a report holds ranges at six significant digits.
    now = {name: held.model_dump_json() for name, held in searched_in(coordinates).items()}
    if now != {name: held.model_dump_json() for name, held in stored.searched.items()}:
        return None
    names = names_of_choices(coordinates)
    noises: dict[Choice, float] = {}
    for form in stored.forms:
        noise = form.noise_multiplier
        if form.choices.keys() != set(names) or noise is None or noise <= 0.0:
            return None
        noises[tuple(form.choices[name] for name in names)] = noise
    if len(noises) != len(stored.forms):  # one combination stands there twice
        return None
    if noises.keys() != {choice for choice, _, _ in combinations(coordinates, epochs)}:
        return None
    return noises
