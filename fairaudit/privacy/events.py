"""What was released about the training records, as frozen data that an accountant can read.

An event is a :class:`SampledGaussian` (a training by steps on Poisson samples) or a
:class:`Gaussian` (releases about all records). Accountants read the same properties of both.
"""

import math
from dataclasses import asdict, dataclass
from decimal import ROUND_CEILING, Decimal

MOST_DECIMALS = 6  # of an epsilon that people read


def shown_up(epsilon: float) -> str:
    """An epsilon as text, rounded up: 3.0049 is shown as 3.01, so that none is understated.

    It has two decimals; a number below 0.1 has two significant digits (0.01 for 0.005 would be
    twice the truth), up to 6 decimals. "infinite" where the number is not finite.
    """
    exact = Decimal(repr(float(epsilon)))
    if not exact.is_finite():
        return "infinite"
    # -adjusted() is the decimal place of the first digit that is not 0; 0 has no such digit.
    if exact:
        decimals = min(MOST_DECIMALS, max(2, 1 - exact.adjusted()))
    else:
        decimals = 2
    return f"{exact.quantize(Decimal(1).scaleb(-decimals), rounding=ROUND_CEILING):f}"


@dataclass(frozen=True, slots=True)
class NoisyRelease:
    """One Gaussian release of a step: a sum over the batch plus noise.

    Args:
        name: What is released: ``gradient``, or the side query's name.
        noise_multiplier: Noise standard deviation over the sum's sensitivity; dimensionless.
    """

    name: str
    noise_multiplier: float


@dataclass(frozen=True, slots=True)
class SampledGaussian:
    """``steps`` steps, each releasing all of ``releases`` about one Poisson sample.

    Everything a step says about one sample is ONE event with
    ``sigma_eff = (sum sigma_j^-2)^-1/2``: charging the releases as separate Poisson-sampled
    Gaussians would pretend that each had a sample of its own, and understate epsilon.

    Args:
        steps_per_epoch: The sampling rate is exactly ``1 / steps_per_epoch``; an integer, because
            float reciprocals of rates do not round-trip.
        steps: Steps taken, empty batches included.
        releases: What each step releases, the gradient first.

    Source: docs/methods.md 2.1.
    """

    steps_per_epoch: int
    steps: int
    releases: tuple[NoisyRelease, ...]

    @property
    def sample_rate(self) -> float:
        """Poisson inclusion probability q of each record at each step."""
        return 1.0 / self.steps_per_epoch

    @property
    def effective_noise_multiplier(self) -> float:
        """sigma_eff: the noise multiplier of the one Gaussian that reveals as much as a whole step.

        0 where any of the releases carries no noise.
        """
        if any(r.noise_multiplier == 0.0 for r in self.releases):
            return 0.0
        return 1.0 / math.sqrt(sum(r.noise_multiplier**-2 for r in self.releases))


@dataclass(frozen=True, slots=True)
class Gaussian:
    """``count`` Gaussian releases about the whole data: no sampling, nothing amplified.

    Args:
        name: What is released.
        noise_multiplier: Noise standard deviation over sensitivity, of each release.
        count: How many releases; together they reveal as much as one at
            ``noise_multiplier / sqrt(count)``, exactly.

    Source: docs/methods.md 2.4.
    """

    name: str
    noise_multiplier: float
    count: int = 1

    @property
    def steps(self) -> int:
        """``count``: each release counts as one step, as accountants read sampled events."""
        return self.count

    @property
    def sample_rate(self) -> float:
        """1: every record enters every release."""
        return 1.0

    @property
    def releases(self) -> tuple[NoisyRelease, ...]:
        """What one step releases: this release alone."""
        return (NoisyRelease(self.name, self.noise_multiplier),)

    @property
    def effective_noise_multiplier(self) -> float:
        """The noise multiplier of one step, that is of one release and not of all ``count``."""
        return self.noise_multiplier


PrivacyEvent = SampledGaussian | Gaussian


def event_to_json(event: PrivacyEvent) -> dict[str, object]:
    """The event's fields as JSON-ready data, with its kind, "gaussian" or "sampled-gaussian"."""
    fields = asdict(event)
    if isinstance(event, Gaussian):
        return {"kind": "gaussian", **fields}
    return {"kind": "sampled-gaussian", **fields, "releases": list(fields["releases"])}
