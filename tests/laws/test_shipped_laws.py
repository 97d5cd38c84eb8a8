"""The laws that are shipped for methods of others.

Ours keep them, and what breaks one breaks that one.
"""

from dataclasses import dataclass, replace

import pytest

from fairaudit.engine.release import GaussianRelease
from fairaudit.engine.rules import FlatClip
from fairaudit.methods.catalog import catalog, find
from fairaudit.methods.defaults import FLAT, Rule
from fairaudit.methods.dpsgd import DpSgd
from fairaudit.methods.fairlens import FairLens, FairLensDecoupled, FairLensHalves
from fairaudit.methods.global_adapt import GlobalAdapt, GlobalAdaptiveClip
from fairaudit.testing import LAWS, LawBroken, broken_laws, private_by_steps

PRIVATE = [spec for spec in catalog().values() if spec.is_private and spec.trains_by_steps]


# At the bound by default it has one of its halves, at a smaller one both.
BOTH_HALVES = replace(
    find("fairlens"),
    settings={
        **find("fairlens").settings,
        "max_grad_norm": replace(FLAT["max_grad_norm"], default=Rule("1", lambda sizes: 1.0)),
    },
)


@pytest.mark.parametrize(
    "spec",
    [
        *(
            # In the fast tests fairlens stands with both halves.
            pytest.param(
                spec, id=spec.name, marks=pytest.mark.slow if spec.name == "fairlens" else ()
            )
            for spec in PRIVATE
        ),
        pytest.param(BOTH_HALVES, id="fairlens, both halves"),
    ],
)
@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_our_own_methods_keep_every_law(spec, law):
    law(spec)


def test_what_cannot_be_followed_is_not_passed():
    for name in ("sgd", "pate-hard", "output-perturbation"):
        with pytest.raises(LawBroken):
            private_by_steps(find(name))
        assert set(broken_laws(find(name))) == set(LAWS)


@dataclass(frozen=True, slots=True)
class LongClip(FlatClip):
    def scale(self, released, norms, group):
        return FlatClip.scale(self, released * 1.01, norms, group)


class LongInLargeBatches(FlatClip):
    def scale(self, released, norms, group):
        return FlatClip.scale(self, released, norms, group) * (3.0 if norms.shape[1] > 64 else 1.0)


class MeanClip(FlatClip):
    def scale(self, released, norms, group):
        return FlatClip.scale(self, released, norms.mean(-1, keepdim=True) + 0 * norms, group)


class Peeking(FlatClip):
    """The bound follows the longest gradient that the last batch had."""

    def init(self, replicates, facts):
        object.__setattr__(self, "longest", 1.0)
        return FlatClip.init(self, replicates, facts)

    def scale(self, released, norms, group):
        object.__setattr__(self, "longest", float(norms.max()) if norms.numel() else 1.0)
        return FlatClip.scale(self, released, norms, group)

    def step(self, released):
        return released.new_full(released.shape, 0.1 + self.longest / 100)


class Doubled(GlobalAdaptiveClip):
    def query(self, state, norms, group):
        return GlobalAdaptiveClip.query(self, state, norms, group) * 2


class Halved(GaussianRelease):
    def __call__(self, sums, sensitivity, facts):
        return super().__call__(sums, sensitivity * 0.9, facts)


class Stale(GaussianRelease):
    """Draws its noise once."""

    def __call__(self, sums, sensitivity, facts):
        if self._buffer is None:
            self._buffer = self.noise.fill(sums[0].new_empty(sums[0].shape))
        noised = sums[0] + self._buffer * self.noise_multiplier * sensitivity[:, None]
        return noised / facts.divisor


class Boasting(GaussianRelease):
    """Says that it adds twice the noise that it adds."""

    def event(self):
        return replace(super().event(), noise_multiplier=2 * self.noise_multiplier)


def trains_with(rule=None, release=None):
    class Broken(DpSgd):
        def rule(self, task):
            return (rule or FlatClip)(task.settings["max_grad_norm"])

        def release(self, task):
            made = super().release(task)
            return release(made.noise_multiplier, made.noise) if release else made

    return Broken


class DoublyAsking(GlobalAdapt):
    def rule(self, task):
        return Doubled(
            **{name: getattr(super(DoublyAsking, self).rule(task), name) for name in FIELDS}
        )


FIELDS = [name for name in GlobalAdaptiveClip.__slots__ if not name.startswith("_")]


class CoupledLens(FairLens):
    """Its output gradient is taken relative to the batch's mean."""

    def output_gradient(self, released, logits, targets, group):
        found = FairLens.output_gradient(self, released, logits, targets, group)
        return found - found.mean(-2, keepdim=True)


class Coupled(FairLensDecoupled):
    def objective(self, task):
        made = super().objective(task)
        return CoupledLens(**{name: getattr(made, name) for name in FairLens.__slots__})


class CoupledHalves(FairLensHalves):
    """A record's gradient is taken relative to the batch's mean."""

    def gradient(self, released, records):
        found = FairLensHalves.gradient(self, released, records)
        return found - found.mean(-2, keepdim=True)


class LongHalves(FairLensHalves):
    """What clipping takes is divided by less than its largest length."""

    def rows(self, state, records):
        made = FairLensHalves.rows(self, state, records)
        made[..., -self.n_classes * self.width :] *= 1.5
        return made


class ComparedHalves(FairLensHalves):
    """A record adds its gradient less that of the record before it."""

    def rows(self, state, records):
        made = FairLensHalves.rows(self, state, records)
        return (made - made.roll(1, 1)) / 2


def halves(kind):
    class Trainer(FairLensDecoupled):
        def objective(self, task):
            made = super().objective(task)
            names = (*FairLens.__slots__, *FairLensHalves.__slots__)
            if isinstance(made, FairLensHalves):
                return kind(**{name: getattr(made, name) for name in names})
            return made

    return Trainer


@pytest.mark.parametrize(
    ("kind", "law"),
    [
        (CoupledHalves, "per-record"),
        (CoupledHalves, "contribution"),
        (LongHalves, "query"),
        (ComparedHalves, "per-record"),
    ],
)
def test_broken_halves_break_their_law_by_name(monkeypatch, kind, law):
    monkeypatch.setitem(globals(), "_Trainer", halves(kind))
    with pytest.raises(LawBroken):
        LAWS[law](replace(BOTH_HALVES, trainer=f"{__name__}:_Trainer"))


@pytest.mark.parametrize(
    ("base", "trainer", "law"),
    [
        ("dpsgd", trains_with(LongClip), "sensitivity"),
        ("dpsgd", trains_with(LongInLargeBatches), "sensitivity"),
        ("dpsgd", trains_with(LongInLargeBatches), "per-record"),
        ("dpsgd", trains_with(LongInLargeBatches), "contribution"),
        ("dpsgd", trains_with(MeanClip), "per-record"),
        ("dpsgd", trains_with(Peeking), "state"),
        ("dpsgd", trains_with(release=Halved), "noise"),
        ("dpsgd", trains_with(release=Stale), "noise"),
        ("dpsgd", trains_with(release=Boasting), "event"),
        ("global-adapt", DoublyAsking, "query"),
        ("fairlens", Coupled, "per-record"),
        ("fairlens", Coupled, "contribution"),
    ],
)
def test_a_broken_method_breaks_its_law_by_name(monkeypatch, base, trainer, law):
    monkeypatch.setitem(globals(), "_Trainer", trainer)
    spec = replace(find(base), trainer=f"{__name__}:_Trainer")
    with pytest.raises(LawBroken):
        LAWS[law](spec)


def test_an_event_that_forgets_a_query_or_counts_noise_too_large_is_caught():
    forgetful = replace(find("global-adapt"), side_queries={})
    with pytest.raises(LawBroken, match="count"):
        LAWS["event"](forgetful)
