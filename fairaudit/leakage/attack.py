"""Membership inference by group: what a trained model tells of who was in its training rows.

An arm is trained once at each of S seeds, every time on another random half of the n rows. The rows
that a model trained on are its members, the others its outsiders. Each model in turn is the target;
those of the other seeds are its shadow models. An attacker accuses a row of being a member where
its score exceeds a threshold.

With phi_is the log odds of record i's true class under the model of seed s, and b_is whether that
model trained on it, the score of i at target s is the log likelihood ratio of two normals,

    log N(phi_is; out_i + D_i, d_in) - log N(phi_is; out_i, d_out),

all of it from the other seeds: d_in and d_out are the standard deviations of phi from a record's
own means with and without it, pooled over all records; D_i is the difference of these means, drawn
towards its mean over all records by as much as chance explains of its spread; out_i is the mean
without the record that fits all of its shadows given D_i. Source: Carlini et al. 2022, section V,
the online attack with one variance for all. They train hundreds of shadows; at sixteen a record's
own difference is mostly chance, and the attack that takes it as it is finds less (docs/leakage.md).
Neither the target's own model nor its membership enters any of these.

Of n outsiders' scores the j-th largest is exceeded by a new outsider's with chance j / (n + 1)
exactly. So the threshold is the j-th or, at random, the (j + 1)-th largest, in the shares that make
the chance a on average; ties are broken by coins. Then new outsiders, and not these rows alone, are
accused at the rate a, and without a leak the true positive rate is a whatever a group's size.

One threshold for all groups accuses members and outsiders of a group alike more often where its
scores spread more. So by that threshold groups are compared in how much more often members are
accused than outsiders: ``leakage_advantage``.

An influence is what one row contributes to a number; variances are sums of squared influences.
Intervals count what rows do to two targets alike; what they do to one target is in the differences
between targets. Targets also share their shadows, which moves the area under the curve of a group
alone by half of what is left: simulated in ``benchmarks/leakage.py``.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairaudit.metrics.intervals import EvaluatedRecords, Influences, MetricTable
from fairaudit.metrics.registry import WITHIN
from fairaudit.metrics.tables import metric_table
from fairaudit.metrics.within_model import PROBABILITY_FLOOR, Bools, Float64, Int64, SeedScores

LEAST_TARGETS = 8  # models of an arm: of seven shadows, one record in 64 has all on one side
_LEAST_VARIANCE = 1e-24  # models that are all alike leave none
_AROUND = 0.5  # slopes are read from 1 - so much to 1 + so much times a rate of false accusations
# Rate of false accusations by one threshold for all groups; WITHIN has those within a group.
GLOBAL_RATE = 0.05
_OF_ONE_THRESHOLD = ("leakage_tpr_global", "leakage_fpr_global")
# The M metrics, in the order of every array [M, ...] below.
METRICS_OF_LEAKAGE = ("leakage_auc", *WITHIN, *_OF_ONE_THRESHOLD, "leakage_advantage")


def log_odds(probabilities: Float64 | NDArray[np.float32], labels: Int64) -> Float64:
    """Log odds of each record's true class: log p_y less the log of the other classes' total.

    That total is summed, not taken as 1 - p_y, which loses digits where p_y is near 1.

    Args:
        probabilities: ``[n, Y]``.
        labels: ``[n]``.

    Returns:
        ``[n]``, between -87.4 and 87.4: probabilities below PROBABILITY_FLOOR, the smallest normal
        number of single precision, are taken for that.
    """
    others = np.array(probabilities, dtype=np.float64)  # a copy, which is changed below
    true_class = np.arange(len(labels)), labels
    likelihood = others[true_class]
    others[true_class] = 0.0
    odds: Float64 = np.log(np.maximum(likelihood, PROBABILITY_FLOOR)) - np.log(
        np.maximum(others.sum(axis=1), PROBABILITY_FLOOR)
    )
    return odds


def likelihood_ratios(confidence: Float64, member: Bools) -> Float64:
    """The attack's score of every record at every target: larger where it rather was a member.

    It is the log likelihood ratio that the module's docstring defines.

    Args:
        confidence: phi, log odds of the true class, ``[S, n]``.
        member: b, whether each model trained on each record, ``[S, n]``.

    Returns:
        ``[S, n]``; NaN where a record was a member, or an outsider, of all shadows of the target.
    """
    # Less the record's mean over all seeds: no score depends on that, and squares stay small.
    phi = confidence - confidence.mean(axis=0)
    ins, outs = _Side.of(phi, member), _Side.of(phi, ~member)
    with np.errstate(invalid="ignore", divide="ignore"):  # a record may lack one side
        difference = ins.mean - outs.mean
        # Variance that chance alone gives to a record's difference, [S, n]; not finite where the
        # record has no shadow on one side.
        chance = ins.variance / ins.shadows + outs.variance / outs.shadows
        has_both = np.isfinite(chance)
        count = np.maximum(has_both.sum(axis=1, keepdims=True), 1)
        # Mean of the records' differences and their variance without that of chance, [S, 1].
        mean = np.where(has_both, difference, 0.0).sum(axis=1, keepdims=True) / count
        excess = np.where(has_both, (difference - mean) ** 2 - chance, 0.0)
        spread = np.maximum(excess.sum(axis=1, keepdims=True) / count, 0.0)
        # D_i, drawn towards that mean by the share of its spread that is chance.
        difference = mean + spread / (spread + chance) * (difference - mean)
        # out_i, the mean without the record that fits all of its shadows, given D_i.
        total = ins.shadows * (ins.mean - difference) + outs.shadows * outs.mean
        out = total / (ins.shadows + outs.shadows)
    distance_in = (phi - out - difference) ** 2 / ins.variance
    distance_out = (phi - out) ** 2 / outs.variance
    ratios: Float64 = 0.5 * (
        distance_out - distance_in + np.log(outs.variance) - np.log(ins.variance)
    )
    return ratios


class _Side(NamedTuple):
    """For every target and record the shadows that trained on it, or those that did not.

    Args:
        mean: Of the record's phi over these shadows, ``[S, n]``; not finite where there are none.
        shadows: How many they are, ``[S, n]``.
        variance: Of phi about these means, pooled over records, ``[S, 1]``.
    """

    mean: Float64
    shadows: Int64
    variance: Float64

    @classmethod
    def of(cls, phi: Float64, side: Bools) -> "_Side":
        """One side of every target, over all seeds but the target's own.

        Args:
            phi: Log odds of the true class, ``[S, n]``.
            side: Whether each seed's model is on this side for each record, ``[S, n]``.
        """
        # [S, n]: sums over all seeds, less the target's own term; the first axis is the target's.
        seen = np.where(side, phi, 0.0)
        count = side.sum(axis=0) - side
        total = seen.sum(axis=0) - seen
        square = (seen**2).sum(axis=0) - seen**2
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = total / count
            # Sum of squares about a record's mean, which one shadow alone does not have.
            within = np.where(count > 1, square - total * mean, 0.0).sum(axis=1)
        degrees = np.maximum(count - 1, 0).sum(axis=1)
        variance = np.maximum(within / np.maximum(degrees, 1), _LEAST_VARIANCE)
        return cls(mean, count, variance[:, None])


def area(members: Float64, outsiders: Float64) -> tuple[float, Float64, Float64]:
    """The chance that a member's score exceeds an outsider's, and each record's part in it.

    Ties count half.

    Args:
        members: ``[n1]``.
        outsiders: ``[n0]``.

    Returns:
        The area under the ROC curve; the share of outsiders below each member, ``[n1]``; the share
        of members above each outsider, ``[n0]``. Source: DeLong, DeLong and Clarke-Pearson 1988.
    """
    below = _share_below(members, outsiders)
    above = 1.0 - _share_below(outsiders, members)
    return float(below.mean()), below, above


def _share_below(scores: Float64, among: Float64) -> Float64:
    """For each of n scores the share of the m others, ``among``, below it; ties count half."""
    ordered = np.sort(among)
    # How many lie below, and how many below or at the score: a tie counts half.
    twice_rank = np.searchsorted(ordered, scores, "left") + np.searchsorted(
        ordered, scores, "right"
    )
    return twice_rank / (2.0 * len(among))


def accused(members: Float64, outsiders: Float64, rate: float) -> Float64:
    """Chance that each member is accused by the threshold that accuses outsiders at that rate.

    It is between 0 and 1 where the threshold, or a tie with it, is decided by a coin.

    Args:
        members: Their scores, ``[n1]``.
        outsiders: Their scores, which set the threshold, ``[n0]``.
        rate: Chance that a new outsider is accused.

    Returns:
        ``[n1]``; the mean is the true positive rate.
    """
    # The j-th largest of n scores is exceeded by a new outsider's with chance j / (n + 1). So the
    # rate is met by the j-th largest with j = rate (n + 1), or between two of them: by the (j +
    # 1)-th in a share of cases, else by the j-th.
    rank = rate * (len(outsiders) + 1)
    lower = min(int(rank), len(outsiders))
    share = min(rank - lower, 1.0)
    falling = np.sort(outsiders)[::-1]
    first = _exceeds(members, falling, lower)
    if share == 0.0:
        return first
    return (1.0 - share) * first + share * _exceeds(members, falling, lower + 1)


def _exceeds(scores: Float64, falling: Float64, j: int) -> Float64:
    """Chance ``[n]`` that each score exceeds the j-th largest of others.

    A score that equals it takes its place at random among all that are equal.

    Args:
        scores: ``[n]``.
        falling: The others, largest first.
        j: Counted from 1; no score exceeds the 0th, and every score one beyond the last.
    """
    if j < 1 or j > len(falling):
        return np.full(len(scores), float(j > 0))
    threshold = falling[j - 1]
    tied = np.count_nonzero(falling == threshold)
    rank = j - np.count_nonzero(falling > threshold)
    # The threshold is the rank-th of t equal scores. One more of them takes each of the t + 1
    # places with equal chance, and exceeds the threshold in the first ``rank``.
    chance: Float64 = np.where(
        scores == threshold, rank / (tied + 1.0), (scores > threshold).astype(float)
    )
    return chance


def wrongly_accused(outsiders: Float64, rate: float) -> Float64:
    """Chance that each outsider is accused by the threshold that the other outsiders set, ``[n0]``.

    Leaving out the one that is judged makes the rate exact: of n outsiders the a = rate n largest
    are accused in all. Those that tie share the places which larger scores leave, so each of t
    equal scores below b larger ones has the chance (min(b + t, a) - min(b, a)) / t.

    Args:
        outsiders: Their scores, ``[n0]``.
        rate: Of false accusations, which is the mean of these chances.
    """
    ordered, accusations = np.sort(outsiders), rate * len(outsiders)
    # How many score more than each outsider (b), and how many the same, itself included (t).
    above = len(outsiders) - np.searchsorted(ordered, outsiders, "right")
    tied = len(outsiders) - np.searchsorted(ordered, outsiders, "left") - above
    chance: Float64 = (
        np.minimum(above + tied, accusations) - np.minimum(above, accusations)
    ) / tied
    return chance


class Attack(NamedTuple):
    """What an attack on one arm starts from: its S models, on all n rows of the audit.

    Args:
        confidence: Log odds of each row's true class under each model, ``[S, n]``.
        member: Whether each model trained on each row, ``[S, n]``.
    """

    confidence: Float64
    member: Bools


class _Target(NamedTuple):
    """One attacked model: the scores of the rows at it, and the metrics that they give.

    Args:
        score: Larger where a row rather was a member, ``[n]``.
        member: Whether the model trained on each row, ``[n]``.
        groups: Of each row, 0 to K - 1, ``[n]``.
        n_groups: K.
    """

    score: Float64
    member: Bools
    groups: Int64
    n_groups: int

    def inside(self, k: int) -> Bools:
        """Whether each row is of group k, ``[n]``; K stands for all rows."""
        if k == self.n_groups:
            return np.ones(len(self.groups), dtype=np.bool_)
        inside: Bools = self.groups == k
        return inside

    def values(self, factor: float) -> Float64:
        """Every metric where the rates of false accusations are ``factor`` times the usual ones.

        Two such arrays, of a smaller and a larger factor, give the slopes that :meth:`scores`
        takes. The area under the curve has no such rate, so its values here are 0.

        Returns:
            ``[M, K + 1]``, the last column over all rows; NaN for a group without members or
            without outsiders.
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
        """Every metric at this target, with each row's influence on it.

        A row influences the means that it is part of. An outsider also moves the threshold, and
        with it a rate by that rate's slope. The threshold for all groups moves every group's rates;
        of that an outsider's influence counts what it does to its own group.

        Args:
            slopes: Of each metric in its rate of false accusations, mean over targets,
                ``[M, K + 1]``.

        Returns:
            For each of the M metrics its values by group and, last, over all rows, with the
            influences of the rows.
        """
        score, member = self.score, self.member
        n, m = len(score), len(METRICS_OF_LEAKAGE)
        values = np.full((m, self.n_groups + 1), np.nan)
        within, whole = np.zeros((m, n)), np.zeros((m, n))
        everyone = score[~member]  # all outsiders, who set the threshold for all groups
        wrongly_of_all = wrongly_accused(everyone, GLOBAL_RATE)
        for k in range(self.n_groups + 1):
            inside = self.inside(k)
            ins, outs = inside & member, inside & ~member
            if not ins.any() or not outs.any():
                continue
            # Influences on the number of all rows, or on that of the record's own group.
            influence = whole if k == self.n_groups else within
            # Within the group: the area, then rates by thresholds of its own outsiders.
            values[0, k], below, above = area(score[ins], score[outs])
            influence[0, ins], influence[0, outs] = _influences(below), _influences(above)
            for place, rate in enumerate(WITHIN.values(), start=1):  # the area is metric 0
                chance = accused(score[ins], score[outs], rate)
                wrongly = wrongly_accused(score[outs], rate)
                values[place, k] = chance.mean()
                influence[place, ins] = _influences(chance)
                influence[place, outs] = -slopes[place, k] * _influences(wrongly)
            # By the threshold that all outsiders set.
            chance = accused(score[ins], everyone, GLOBAL_RATE)
            wrongly = wrongly_of_all[inside[~member]]
            # Influence of the group's outsiders on the rate at which that threshold accuses all
            # outsiders, of whom they are a part.
            moved = _influences(wrongly) * len(wrongly) / len(everyone)
            tpr, fpr, advantage = range(1 + len(WITHIN), m)  # places of the last three metrics
            values[tpr, k], values[fpr, k] = chance.mean(), wrongly.mean()
            values[advantage, k] = values[tpr, k] - values[fpr, k]
            influence[tpr, ins], influence[tpr, outs] = _influences(chance), -slopes[tpr, k] * moved
            influence[fpr, outs] = _influences(wrongly) - slopes[fpr, k] * moved
            influence[advantage] = influence[tpr] - influence[fpr]
        within, whole = np.nan_to_num(within), np.nan_to_num(whole)
        all_rows = np.ones(n, dtype=np.bool_)
        return [SeedScores(values[i], within[i], whole[i], all_rows) for i in range(m)]


def attack_tables(
    private: Attack, baseline: Attack | None, groups: Int64, n_groups: int
) -> tuple[dict[str, MetricTable], EvaluatedRecords]:
    """Attack every model of an arm and of its reference, and reduce each metric to a table.

    Arms are paired: a seed's membership is the same in both.

    Args:
        private: The arm.
        baseline: Its reference on the same rows and seeds; None for an arm that has none.
        groups: Of the rows, ``[n]``.
        n_groups: K.

    Returns:
        Metric -> table, and the index of the rows that were scored at any target. With a reference
        there is ``reference.METRIC`` for it and ``change.METRIC`` for arm less reference.
    """
    arms = [private] if baseline is None else [private, baseline]
    scores = [likelihood_ratios(*arm) for arm in arms]
    # [S, n]; which scores are NaN follows from memberships, which are the same in both arms.
    usable = np.isfinite(scores[0])
    rows = [np.flatnonzero(use) for use in usable]
    records = EvaluatedRecords.of(rows, groups, n_groups)
    of_arms = [
        _scores_at_targets(score, private.member, rows, groups, n_groups) for score in scores
    ]
    of_prefix = {"": of_arms[0]}
    if baseline is not None:
        changes = []
        for own, reference in zip(*of_arms, strict=True):
            changes.append([a.minus(b) for a, b in zip(own, reference, strict=True)])
        of_prefix |= {"reference.": of_arms[1], "change.": changes}
    tables: dict[str, MetricTable] = {}
    for prefix, of_seeds in of_prefix.items():
        for m, metric in enumerate(METRICS_OF_LEAKAGE):
            of_metric = [of_seed[m] for of_seed in of_seeds]
            tables[prefix + metric] = _table(prefix + metric, metric, of_metric, records)
    return tables, records


def _scores_at_targets(
    score: Float64, member: Bools, rows: Sequence[Int64], groups: Int64, n_groups: int
) -> list[list[SeedScores]]:
    """Every metric at every target of one arm, by seed and metric.

    Args:
        score: Of every row at each target, ``[S, n]``.
        member: Whether each target trained on each row, ``[S, n]``.
        rows: Of each seed, the numbers of the rows that have a score.
        groups: Of the rows, ``[n]``.
        n_groups: K.
    """
    targets = [
        _Target(score[s, usable], member[s, usable], groups[usable], n_groups)
        for s, usable in enumerate(rows)
    ]
    # Rate of false accusations of each metric, in the order of METRICS_OF_LEAKAGE. The area has
    # none: any number (1.0) will do, for the area's slope is 0.
    # + 1: of the two rates by one threshold, and of the advantage, which is their difference.
    of_one_threshold = [GLOBAL_RATE] * (len(_OF_ONE_THRESHOLD) + 1)
    rates = np.array([1.0, *WITHIN.values(), *of_one_threshold])
    lower = np.mean([target.values(1 - _AROUND) for target in targets], axis=0)
    upper = np.mean([target.values(1 + _AROUND) for target in targets], axis=0)
    slopes = (upper - lower) / (2 * _AROUND * rates[:, None])
    return [target.scores(slopes) for target in targets]


def _table(
    name: str, metric: str, of_seeds: Sequence[SeedScores], records: EvaluatedRecords
) -> MetricTable:
    """One metric at all targets as a table, with the covariances that suit an attack.

    Args:
        name: Of the table: the metric's, or with ``reference.`` or ``change.`` before it.
        metric: The metric.
        of_seeds: Its values and influences at each target.
        records: The rows that were scored at any target.
    """
    influences = Influences(records)
    for place, of_seed in zip(records.places, of_seeds, strict=True):
        influences.add(place, of_seed)
    table = metric_table(name, influences, records.count(influences.support))
    # The number of a group alone reads the first matrix, the shared variance of a gap the second.
    # Both get what rows do to two targets alike. A group's area also gets half of what ``of_mean``
    # has beyond that, for targets have their shadows in common (see the module's docstring).
    of_mean, of_two_targets = table.covariance
    alone = of_two_targets
    if metric == "leakage_auc":
        alone = (of_mean + of_two_targets) / 2
    return replace(table, covariance=np.stack([alone, of_two_targets]))


def _influences(chance: Float64) -> Float64:
    """Influence of each of n records on the mean of these chances, ``[n]``; they sum to 0."""
    influences: Float64 = (chance - chance.mean()) / len(chance)
    return influences
