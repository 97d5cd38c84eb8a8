"""A setting that one arm's search found, taken over by another arm as it stands."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fairaudit.methods.defaults import effective_step
from fairaudit.tuning.search import EPOCHS, Choice, Form


@dataclass(frozen=True, slots=True)
class Reuse:
    """How an arm trains at another arm's setting.

    Args:
        settings: Its own default setting, for all that it does not take over.
        taken: What it takes over, epochs aside.
        choices: Which coordinates of the other arm's search are choices among a few, in its order.
        forms: By the values of those: epochs, and noise that is calibrated for them.
        scales_by_threshold: Its step is longer by Z/C than that of the other arm, as its default is.
    """

    settings: Mapping[str, float]
    taken: tuple[str, ...]
    choices: tuple[str, ...]
    forms: Mapping[Choice, Form]
    scales_by_threshold: bool

    def at(self, settings: Mapping[str, float], epochs: int) -> tuple[dict[str, float], Form]:
        """The arm's numbers, noise included, and how long it trains.

        Args:
            settings, epochs: What the other arm's search found.
        """
        found = {**settings, EPOCHS: float(epochs)}
        form = self.forms[tuple(found[name] for name in self.choices)]
        own = {**self.settings, **{name: settings[name] for name in self.taken}}
        if self.scales_by_threshold and "learning_rate" in self.taken:
            own["learning_rate"] = effective_step(
                settings["learning_rate"], own["threshold"], own["max_grad_norm"]
            )
        if form.noise_multiplier is not None:
            own["noise_multiplier"] = form.noise_multiplier
        return own, form

    def to_json(self) -> dict[str, object]:
        """All that a training follows from beside what the search found, JSON-ready."""
        return {
            "settings": dict(self.settings),
            "taken": list(self.taken),
            "choices": list(self.choices),
            "forms": [[list(k), f.epochs, f.noise_multiplier] for k, f in self.forms.items()],
            "scales_by_threshold": self.scales_by_threshold,
        }


def best_of(weights: Sequence[float]) -> int:
    """The number of the candidate with the best released score: that which is kept most often."""
    return max(range(len(weights)), key=lambda number: weights[number])
