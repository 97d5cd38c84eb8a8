"""Membership inference by group: what a trained model tells of who was in its training rows.

Every seed is a target, the others are its shadow models. With phi_is the log odds of record i's
true class under the model of seed s, and b_is whether that model trained on it, the score of i at
target s is the log likelihood ratio of two normals,

    log N(phi_is; out_i + D_i, d_in) - log N(phi_is; out_i, d_out),

all of it from the other seeds: d_in and d_out are the deviations of phi from a record's own means
with and without it, pooled over all records; D_i is the difference of these means, drawn towards
its mean over all records by as much as chance explains of its spread; out_i is the mean without the
record that fits all of its shadows given D_i. Source: Carlini et al. 2022, section V, the online
attack with one variance for all. They train hundreds of shadows; at sixteen a record's own
difference is mostly chance, and the attack that takes it as it is finds less (docs/leakage.md). The
target's own model is in none of these, and no membership of it is.

Of n non-members' scores the j-th largest is exceeded by a new non-member's with chance j / (n + 1)
exactly. So an attacker accuses outsiders at the rate a, and not these rows alone, where his
threshold is the j-th and (j + 1)-th largest in the shares that make j / (n + 1) average a, ties
broken by coins. Without a leak the true positive rate then is a at every size of a group.

One threshold for all groups accuses members and outsiders of a group alike more often where its
scores spread more. So groups are compared by how much more often members are accused there:
``leakage_advantage``.

Intervals take of test records what two targets share; the rest is in the differences between
targets. Targets also share their shadows, which moves the area under the curve of a group alone by
half of what is left: simulated in ``benchmarks/leakage.py``.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairaudit.metrics.intervals import EvaluatedRecords, Influences, MetricTable
from fairaudit.metrics.registry import WITHIN
from fairaudit.metrics.tables import metric_table
from fairaudit.metrics.within_model import PROBABILITY_FLOOR, Bools, Float64, Int64, SeedScores

LEAST_TARGETS = 8  # of seven shadows, one record in 64 has none of a side
_LEAST_VARIANCE = 1e-24  # models that are all alike leave none
_AROUND = 0.5  # of a rate, to either side: where its slope is read
# The rates of false accusations within a group, and of one threshold for all.
GLOBAL_RATE = 0.05
_OF_ONE_THRESHOLD = ("leakage_tpr_global", "leakage_fpr_global")
METRICS_OF_LEAKAGE = ("leakage_auc", *WITHIN, *_OF_ONE_THRESHOLD, "leakage_advantage")


def log_odds(probabilities: Float64 | NDArray[np.float32], labels: Int64) -> Float64:
    """Log odds of the true class, ``log p_y - log sum of the others``, exact for p_y near 1, too.

    Args:
        probabilities: ``[n, Y]``.
        labels: ``[n]``.

    Returns:
        ``[n]``, between -87.4 and 87.4: single precision holds no smaller probability.
    """
    others = np.array(probabilities, dtype=np.float64)
    place = np.arange(len(labels)), labels
    likelihood = others[place]
    others[place] = 0.0
    odds: Float64 = np.log(np.maximum(likelihood, PROBABILITY_FLOOR)) - np.log(
        np.maximum(others.sum(axis=1), PROBABILITY_FLOOR)
    )
    return odds


def likelihood_ratios(confidence: Float64, member: Bools) -> Float64:
    """Scores of every record at every target; larger where it rather was a member.

    Args:
        confidence: phi, ``[S, n]``.
        member: b, ``[S, n]``.

    Returns:
        ``[S, n]``; NaN where all shadows of a record are on one side.
    """
    phi = confidence - confidence.mean(axis=0)  # no score depends on it, and squares stay small
    ins, outs = _Side.of(phi, member), _Side.of(phi, ~member)
    with np.errstate(invalid="ignore", divide="ignore"):
        chance = ins.variance / ins.shadows + outs.variance / outs.shadows
        # Drawn towards their mean over records, by the share of their spread that is chance.
        difference, has_both = ins.mean - outs.mean, np.isfinite(chance)
        count = np.maximum(has_both.sum(axis=1, keepdims=True), 1)
        mean = (
            np.where(
                has_both,
                difference,
                0.0,
            ).sum(axis=1, keepdims=True)
            / count
        )
        beyond = np.where(has_both, (difference - mean) ** 2 - chance, 0.0)
        real = np.maximum(beyond.sum(axis=1, keepdims=True) / count, 0.0)
        difference = mean + real / (real + chance) * (difference - mean)
        # The mean without the record that fits all of its shadows, given the difference.
        both = ins.shadows * (ins.mean - difference) + outs.shadows * outs.mean
        out = both / (ins.shadows + outs.shadows)
    fits = ((phi - out - difference) ** 2 / ins.variance, (phi - out) ** 2 / outs.variance)
    ratios: Float64 = 0.5 * (fits[1] - fits[0] + np.log(outs.variance) - np.log(ins.variance))
    return ratios


class _Side(NamedTuple):
    """The shadows of each target that trained on a record, or those that did not.

    Args:
        mean, shadows: Of each record's phi, and how many they are, ``[S, n]``.
        variance: About these means, pooled over records, ``[S, 1]``.
    """

    mean: Float64
    shadows: Int64
    variance: Float64

    @classmethod
    def of(cls, phi: Float64, side: Bools) -> "_Side":
        """From phi and membership ``[S, n]``: at every target all seeds of the side but its own."""
        # Sums over all seeds, less the target's own.
        seen = np.where(side, phi, 0.0)
        count = side.sum(axis=0) - side
        total = seen.sum(axis=0) - seen
        square = (seen**2).sum(axis=0) - seen**2
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = total / count
            within = np.where(
                count > 1,
                square - total * mean,
                0.0,
            ).sum(axis=1)
        degrees = np.maximum(count - 1, 0).sum(axis=1)
        variance = np.maximum(within / np.maximum(degrees, 1), _LEAST_VARIANCE)
        return cls(mean, count, variance[:, None])


def area(members: Float64, outsiders: Float64) -> tuple[float, Float64, Float64]:
    """The chance that a member's score exceeds an outsider's, and each record's placement.

    Ties count half.

    Args:
        members: ``[n1]``.
        outsiders: ``[n0]``.

    Returns:
        The area under the ROC curve; the share of outsiders below each member, ``[n1]``; the share
        of members above each outsider, ``[n0]``. Source: DeLong, DeLong and Clarke-Pearson 1988.
    """
    below = _below(members, outsiders)
    above = 1.0 - _below(outsiders, members)
    return float(below.mean()), below, above


def _below(scores: Float64, among: Float64) -> Float64:
    """The share of ``among`` ``[m]`` below each score ``[n]``, ties counting half."""
    ordered = np.sort(among)
    twice_rank = np.searchsorted(
        ordered,
        scores,
        "left",
    ) + np.searchsorted(
        ordered,
        scores,
        "right",
    )
    return twice_rank / (2.0 * len(among))


def accused(members: Float64, outsiders: Float64, rate: float) -> Float64:
    """Chance with which each member is accused where outsiders are at that rate, ``[n1]``.

    Args:
        members: Scores, ``[n1]``.
        outsiders: Non-members' scores, which set the threshold, ``[n0]``.
        rate: Of false accusations.
    """
    # Between the lower-th and the next largest score, in the share that makes the rate exact.
    place = rate * (len(outsiders) + 1)
    lower = min(int(place), len(outsiders))
    share = min(place - lower, 1.0)
    falling = np.sort(outsiders)[::-1]
    first = _exceeds(members, falling, lower)
    if share == 0.0:
        return first
    return (1.0 - share) * first + share * _exceeds(
        members,
        falling,
        lower + 1,
    )


def _exceeds(scores: Float64, falling: Float64, j: int) -> Float64:
    """Chance ``[n]`` that each score exceeds the j-th largest of others; coins break ties.

    Args:
        scores: ``[n]``.
        falling: The others, largest first.
        j: From 1; none exceeds the 0th, all exceed one beyond the last.
    """
    if j < 1 or j > len(falling):
        return np.full(len(scores), float(j > 0))
    threshold = falling[j - 1]
    tied = np.count_nonzero(falling == threshold)
    rank = j - np.count_nonzero(falling > threshold)
    chance: Float64 = np.where(
        scores == threshold,
        rank / (tied + 1.0),
        (scores > threshold).astype(float),
    )
    return chance


def wrongly_accused(outsiders: Float64, rate: float) -> Float64:
    """Chance with which each non-member is accused by the threshold of all the others.

    Args:
        outsiders: Scores, ``[n0]``.
        rate: Of false accusations; the chances' mean.
    """
    ordered, accusations = np.sort(outsiders), rate * len(outsiders)
    above = len(outsiders) - np.searchsorted(ordered, outsiders, "right")
    tied = len(outsiders) - np.searchsorted(ordered, outsiders, "left") - above
    chance: Float64 = (
        np.minimum(above + tied, accusations) - np.minimum(above, accusations)
    ) / tied
    return chance


class Attack(NamedTuple):
    """One arm as an attacker sees it: its models on all rows of the audit.

    Args:
        confidence: Log odds of the true class, ``[S, n]``.
        member: Who was trained on, ``[S, n]``.
    """

    confidence: Float64
    member: Bools


class _Target(NamedTuple):
    """The scores of the rows at one target.

    Args:
        score: ``[n]``.
        member: Who was trained on, ``[n]``.
        groups: ``[n]``, of K.
        n_groups: K.
    """

    score: Float64
    member: Bools
    groups: Int64
    n_groups: int

    def inside(self, k: int) -> Bools:
        """The rows of group k, ``[n]``; all of them where k is K."""
        if k == self.n_groups:
            return np.ones(len(self.groups), dtype=np.bool_)
        inside: Bools = self.groups == k
        return inside

    def values(self, factor: float) -> Float64:
        """Every metric with its false accusation rates times ``factor``, ``[M, K + 1]``.

        For slopes alone: the area has no rate, so its row is 0.
        """
        score, member = self.score, self.member
        values = np.full((len(METRICS_OF_LEAKAGE), self.n_groups + 1), np.nan)
        for k in range(self.n_groups + 1):
            inside = self.inside(k)
            members, outsiders = score[inside & member], score[inside & ~member]
            if len(members) and len(outsiders):
                rates = []
                for rate in WITHIN.values():
                    rates.append(accused(members, outsiders, factor * rate).mean())
                tpr = accused(members, score[~member], factor * GLOBAL_RATE).mean()
                fpr = wrongly_accused(score[~member], factor * GLOBAL_RATE)[inside[~member]].mean()
                values[:, k] = 0.0, *rates, tpr, fpr, tpr - fpr
        return values

    def scores(self, slopes: Float64) -> list[SeedScores]:
        """The metrics with every record's influence.

        A record's is its part of a mean; a non-member's also moves the threshold, and with it a
        rate by the slope of that rate, ``[M, K + 1]``. Of a threshold for all groups that part is
        counted for the record's own group.

        Args:
            slopes: Of each metric in the rate of false accusations, over all targets.

        Returns:
            For each of M metrics its values by group, the last of all rows, with the influences.
        """
        score, member = self.score, self.member
        n, m = len(score), len(METRICS_OF_LEAKAGE)
        values = np.full((m, self.n_groups + 1), np.nan)
        within, whole = np.zeros((m, n)), np.zeros((m, n))
        everyone = score[~member]
        wrongly_of_all = wrongly_accused(everyone, GLOBAL_RATE)
        for k in range(self.n_groups + 1):
            inside = self.inside(k)
            ins, outs = inside & member, inside & ~member
            if not ins.any() or not outs.any():
                continue
            # Influences on the number of all rows, or on that of the record's own group.
            influence = whole if k == self.n_groups else within
            values[0, k], below, above = area(score[ins], score[outs])
            influence[0, ins], influence[0, outs] = _parts(below), _parts(above)
            for at, rate in enumerate(WITHIN.values(), start=1):  # the area is metric 0
                chance = accused(score[ins], score[outs], rate)
                wrongly = wrongly_accused(score[outs], rate)
                values[at, k] = chance.mean()
                influence[at, ins] = _parts(chance)
                influence[at, outs] = -slopes[at, k] * _parts(wrongly)
            chance = accused(score[ins], everyone, GLOBAL_RATE)
            wrongly = wrongly_of_all[inside[~member]]
            moved = _parts(wrongly) * len(wrongly) / len(everyone)
            tpr, fpr, advantage = range(1 + len(WITHIN), m)
            values[tpr, k], values[fpr, k] = chance.mean(), wrongly.mean()
            values[advantage, k] = values[tpr, k] - values[fpr, k]
            influence[tpr, ins], influence[tpr, outs] = _parts(chance), -slopes[tpr, k] * moved
            influence[fpr, outs] = _parts(wrongly) - slopes[fpr, k] * moved
            influence[advantage] = influence[tpr] - influence[fpr]
        within, whole = np.nan_to_num(within), np.nan_to_num(whole)
        all_rows = np.ones(n, dtype=np.bool_)
        return [SeedScores(values[i], within[i], whole[i], all_rows) for i in range(m)]


def attack_tables(
    private: Attack, baseline: Attack | None, groups: Int64, n_groups: int
) -> tuple[dict[str, MetricTable], EvaluatedRecords]:
    """A table for every metric of leakage: of an arm, and of its reference and the change if any.

    Arms are paired: a seed's membership is the same in both.

    Args:
        private: The arm.
        baseline: Its reference on the same rows and seeds, or None.
        groups: Of the rows, ``[n]``.
        n_groups: K.
    """
    arms = [private] if baseline is None else [private, baseline]
    scores = [likelihood_ratios(*arm) for arm in arms]
    usable = np.isfinite(scores[0])  # which shadows there are is the same for both
    rows = [np.flatnonzero(use) for use in usable]
    records = EvaluatedRecords.of(rows, groups, n_groups)
    of_arms: list[list[list[SeedScores]]] = []  # by arm, seed and metric
    rates = np.array([1.0, *WITHIN.values(), *(len(_OF_ONE_THRESHOLD) + 1) * [GLOBAL_RATE]])
    for score in scores:
        targets = []
        for s, at in enumerate(rows):
            targets.append(_Target(score[s, at], private.member[s, at], groups[at], n_groups))
        lower = np.mean([target.values(1 - _AROUND) for target in targets], axis=0)
        upper = np.mean([target.values(1 + _AROUND) for target in targets], axis=0)
        slopes = (upper - lower) / (2 * _AROUND * rates[:, None])
        of_arms.append([target.scores(slopes) for target in targets])
    tables: dict[str, MetricTable] = {}
    of_prefix = {"": of_arms[0]}
    if baseline is not None:
        changes = []
        for own, reference in zip(*of_arms, strict=True):
            changes.append([a.minus(b) for a, b in zip(own, reference, strict=True)])
        of_prefix |= {"reference.": of_arms[1], "change.": changes}
    for prefix, seeds in of_prefix.items():
        for m, metric in enumerate(METRICS_OF_LEAKAGE):
            influences = Influences(records)
            for place, seed in zip(records.places, seeds, strict=True):
                influences.add(place, seed[m])
            name = prefix + metric
            table = metric_table(name, influences, records.count(influences.support))
            # Targets share their shadows, which moves a group's area by half of what is left.
            of_mean, of_two_targets = table.covariance
            alone = of_two_targets
            if metric == "leakage_auc":
                alone = (of_mean + of_two_targets) / 2
            tables[name] = replace(table, covariance=np.stack([alone, of_two_targets]))
    return tables, records


def _parts(chance: Float64) -> Float64:
    """What each of some records contributes to their mean."""
    parts: Float64 = (chance - chance.mean()) / len(chance)
    return parts
