"""Decided by chance: how many people another training on the same rows would decide differently.

Two trainings that differ in nothing but their draws (start, batches, noise, teachers) answer some
people differently. Of person i that has the chance d_i = 1 - sum_c p_ic^2, where p_ic is the share
of trainings that answer c; the *disagreement* of a group is the mean of its d_i (Kulynych et al.,
FAccT 2023). It is estimated over pairs of trainings: with h_sti = 1 where s and t answer i
differently, over all pairs that tested i,

    U = sum h_sti / sum 1,   k_s = mean over t != s and i of h_sti,   mean_s k_s = U.

Pairs share trainings, so they are not independent. Leaving out a training s gives U_-s, and the
jackknife's pseudo-values S U - (S - 1) U_-s = U + c (k_s - U) with c = 2 (S - 1) / (S - 2) behave
as values of S independent trainings (Arvesen 1969; Efron and Stein 1981 show that their variance is
not too small in expectation). They are sums over people, too: so each training has its pseudo-value
and each person an influence on it, and what trainings share through people is counted once, as of
every other number (:mod:`fairaudit.metrics.intervals`). Source: docs/methods.md 6.10.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairaudit.metrics.intervals import EvaluatedRecords, Influences, MetricTable
from fairaudit.metrics.quantiles import quantiles
from fairaudit.metrics.registry import DISAGREEMENT, DISAGREEMENT_COST
from fairaudit.metrics.tables import metric_table
from fairaudit.metrics.within_model import Float64, Int64, SeedScores

LEAST_TRAININGS = 3  # of two the pair's spread is not known
NOT_TESTED = -1  # in the place of an answer


class Pairs(NamedTuple):
    """Pairs of trainings that tested a person, counted once from either side.

    Args:
        differing: Of training s and person i: how many of the other trainings that tested i answer
            differently, ``[S, n]``; 0 where s did not test i.
        tested: How many other trainings tested i, ``[S, n]``; 0 likewise.
    """

    differing: Int64
    tested: Int64


def pairs(answers: Int64) -> Pairs:
    """Count, for every training and person, the other trainings that answer differently.

    The disagreement of a group is the sum of ``differing`` over that of ``tested``, both over the
    group's people.

    Args:
        answers: Class that each training predicts for each person, ``[trainings, people]``;
            ``NOT_TESTED``, or any number below 0, where it did not test the person.

    Example:
        >>> import numpy as np
        >>> answers = np.array([[1, 0, 0], [1, 0, 0], [1, 0, 1]])  # 3 trainings of 3 people
        >>> counted = pairs(answers)
        >>> counted.differing.tolist()  # the third person is decided both ways
        [[0, 0, 1], [0, 0, 1], [0, 0, 2]]
        >>> float(counted.differing.sum() / counted.tested.sum())  # 2 of 9 pairs
        0.2222222222222222
    """
    is_tested = answers >= 0
    others = np.where(is_tested, is_tested.sum(axis=0) - 1, 0)  # less training s itself
    alike = np.zeros_like(others)  # of these, those that give the same answer
    for answer in np.unique(answers[is_tested]):
        given = answers == answer
        alike += np.where(given, given.sum(axis=0) - 1, 0)
    return Pairs(differing=others - alike, tested=others)


def disagreement_tables(
    private: Int64, records: EvaluatedRecords, reference: Int64 | None = None
) -> dict[str, MetricTable]:
    """Tables of the disagreement by name, from which intervals, gaps and costs are made.

    Args:
        private: Answers of the arm, ``[S, n]``, S >= 3, as of :func:`pairs`; the people are those
            of ``records``, in its order.
        records: Who was tested, sorted by group.
        reference: Answers of the model without privacy by the same trainings to the same people;
            None: there is none.

    Returns:
        ``disagreement``; with a reference also ``reference.disagreement`` and
        ``disagreement_cost``, by how much the arm's is larger. Index s of ``by_seed`` holds
        pseudo-values: their mean is the estimate. A person counts whom two trainings tested.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> records = EvaluatedRecords.of([np.arange(400)], np.repeat([0, 1], 200), n_groups=2)
        >>> chance = np.repeat([0.5, 0.0], 200)  # of an answer 1: by a coin; never
        >>> answers = (rng.random((5, 400)) < chance).astype(np.int64)
        >>> table = disagreement_tables(answers, records)["disagreement"]
        >>> table.by_seed.mean(axis=0).round(2).tolist()  # of both groups, of all
        [0.52, 0.0, 0.26]
    """
    assert len(private) >= LEAST_TRAININGS, "too few trainings for a variance"
    own = _scores(private, records)
    tables = {DISAGREEMENT: _table(DISAGREEMENT, [own], records)}
    if reference is not None:
        other = _scores(reference, records)
        name = f"reference.{DISAGREEMENT}"
        tables[name] = replace(_table(DISAGREEMENT, [other], records), name=name)
        # Made as a change, for which `metric_table` has the floor and the bounds of a difference.
        changed = _table(f"change.{DISAGREEMENT}", [own, other], records)
        tables[DISAGREEMENT_COST] = replace(changed, name=DISAGREEMENT_COST)
    return tables


def _scores(answers: Int64, records: EvaluatedRecords) -> list[SeedScores]:
    """Of each training its pseudo-values ``[K + 1]`` and each person's influences on them ``[n]``.

    A training's pseudo-value of a group is U plus the sum of its people's influences.
    """
    counted = pairs(answers)
    trainings, n_groups = len(answers), records.n_groups
    one_group = np.zeros(len(records.groups), dtype=np.int64)  # all people
    within, of_groups = _pseudo_influences(counted, records.groups, n_groups)
    whole, of_all = _pseudo_influences(counted, one_group, 1)
    support = counted.tested.sum(axis=0) > 0  # people whom two or more trainings tested, [n]
    scores = []
    for s in range(trainings):
        group_values = of_groups + np.bincount(records.groups, within[s], n_groups)
        values = np.append(group_values, of_all + whole[s].sum())
        scores.append(SeedScores(values, within[s], whole[s], support))
    return scores


def _pseudo_influences(counted: Pairs, groups: Int64, n_groups: int) -> tuple[Float64, Float64]:
    """Influences of people on each training's pseudo-value, and the disagreement U of groups.

    d_si counts the pairs of training s that differ on person i, n_si those that tested i; D and N
    are their sums over the group's people and all trainings. Then U = D / N. The excess of training
    and person is e_si = S (d_si - U n_si) / N, whose sum over i is k_s - U (linearised where n_si
    differ). The influence on the pseudo-value U + c (k_s - U), with c = 2 (S - 1) / (S - 2), is
    mean_s e_si + c (e_si - mean_s e_si). Source: docs/methods.md 6.10.

    Args:
        counted: Pairs, ``[S, n]``.
        groups: Of the people, ``[n]`` in ``0..n_groups - 1``.
        n_groups: K.

    Returns:
        Influences ``[S, n]``, 0 in a group that no pair tested; and U of each group, ``[K]``, NaN
        in such a group.
    """
    trainings = len(counted.tested)
    differing = np.bincount(groups, counted.differing.sum(axis=0), n_groups)  # D, [K]
    tested = np.bincount(groups, counted.tested.sum(axis=0), n_groups)  # N, [K]
    with np.errstate(invalid="ignore", divide="ignore"):  # 0 / 0 in a group that no pair tested
        values = differing / tested
        scale = np.where(tested > 0, trainings / tested, 0.0)
    # 0 for NaN: the excess is 0 in a group that no pair tested, and NaN * 0 would not be.
    group_value = np.nan_to_num(values)[groups]
    excess = scale[groups] * (counted.differing - group_value * counted.tested)  # e, [S, n]
    mean_excess = excess.mean(axis=0)
    factor = 2.0 * (trainings - 1) / (trainings - 2)  # c of the jackknife
    return mean_excess + factor * (excess - mean_excess), values


def _table(name: str, sides: Sequence[list[SeedScores]], records: EvaluatedRecords) -> MetricTable:
    """The table of one side's disagreement, or of the first side's less the second's.

    Where on no side two trainings answer anybody of a group differently, the variance of that
    group's value is set so that the upper end of its interval is :func:`exact_upper`. Source:
    docs/methods.md 6.10.

    Args:
        name: Of the metric, as :func:`metric_table` reads it.
        sides: The arm, or the arm and its reference: the scores of each training, ``[S]``.
        records: Who was tested.
    """
    influences = Influences(records)
    everyone = np.arange(len(records.groups))
    for of_seed in zip(*sides, strict=True):
        score = of_seed[0]
        for other in of_seed[1:]:
            score = score.minus(other)
        influences.add(everyone, score)
    counts = records.count(influences.support)
    table = metric_table(name, influences, counts)
    # The mean of the pseudo-values is the disagreement: exactly 0 where no pair differs.
    agrees = np.ones(len(counts), dtype=bool)  # groups in which no pair of trainings differs
    for side in sides:
        agrees &= np.array([score.values for score in side]).mean(axis=0) == 0.0
    unanimous = np.flatnonzero(agrees & (counts > 0))
    # No covariance with other groups, so that a difference adds up both variances.
    table.covariance[:, unanimous, :] = table.covariance[:, :, unanimous] = 0.0
    # Half of the interval is then z times the root of this variance, for V_seed is 0: with equal
    # answers at every seed the values at the seeds are all 0.
    table.covariance[:, unanimous, unanimous] = (exact_upper(counts[unanimous]) / _Z) ** 2
    return table


_Z = quantiles(0.975, 1)[1]  # of the normal law, which has no degrees of freedom


def exact_upper(people: Int64) -> Float64:
    """The share of people of whom a sample of n holds nobody with a chance of just 5 %.

    ``1 - .05^(1 / n)``, elementwise over ``people``, the n. Source: docs/methods.md 6.10.

    Example:
        >>> import numpy as np
        >>> exact_upper(np.array([30, 3000])).round(4).tolist()
        [0.095, 0.001]
    """
    upper: NDArray[np.float64] = 1.0 - 0.05 ** (1.0 / people)
    return upper
