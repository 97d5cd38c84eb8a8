"""Every metric that a report may hold: its names, what it needs, how it is computed and read.

Tables, gaps, rules, the comparison of reports, pages and the built reference read this list, so
adding a metric is one entry here, and adding a cost is one, too.

A report writes more names than the registry has: ``change.M`` and ``reference.M`` of a metric M,
``M[2]`` of class 2, ``COST.PART`` of a part of a cost, ``COST.constant`` of a cost against a
constant model.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal  # noqa: TID251 - gates read this list without NumPy

if TYPE_CHECKING:
    from fairaudit.metrics.within_model import EvaluatedRows, Ratio, SeedScores

Unit = Literal["fraction", "ratio", "nats", "degrees", "nats a step"]
# What a metric may read of one model's test rows: the fields and properties of EvaluatedRows.
Compute = Callable[["EvaluatedRows"], "Ratio | SeedScores"]
# Records of a group that the attack on membership needs for an interval: half of them are no
# members, and 5 % of those 50, as many as it may accuse falsely, are two or three.
LEAST_FOR_LEAKAGE = 100
UNDERTRAINED_BY = 0.01  # accuracy below the scikit-learn baseline from which costs cannot be read
# metric of an attack within a group -> false positive rate at which it is read
WITHIN = {"leakage_tpr": 0.05, "leakage_tpr_at_1": 0.01}
LEAST_AT_ONE = 1_000  # the same at 1 %: half, 500, are no members, and 1 % of those are five

# The parts of a cost, in order from the reference to the method. A method that trains by steps has
# three: the length of its steps, what else it does to gradients, the noise. Any other has two: what
# it does without noise, and the noise.
STEP, STEP_AND_CLIPPING, NOISE = "step", "step_and_clipping", "noise"
STEP_AND_NOISE = "step_and_noise"  # two of three parts as one number, with its own interval
PARTS = {
    STEP: "of the length of the steps, without clipping or noise",
    "clipping": "of clipping, without any noise",
    STEP_AND_CLIPPING: "of clipping and the length of the steps, without any noise",
    "regularisation": "of regularisation, without any noise",
    "partition": "of the partition into teachers, without any noise",
    "without_noise": "of the training without any noise",
    NOISE: "of the noise alone",
    STEP_AND_NOISE: "of the length of the steps and the noise, without that of clipping",
}
# Names a cost against the model that predicts the training rows' class shares for everybody.
CONSTANT = "constant"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSpec:
    """One metric.

    Args:
        name: In reports, rules and data frames.
        words: What it is, as in "gap between groups in WORDS".
        meaning: What it says, in sentences for readers without statistics; "" where nothing beyond
            ``words`` is said.
        worst: Which group fares worst: that of the highest or of the lowest value. It is not
            read where ``has_gap`` is False.
        compute: One model's rows -> a numerator and a denominator of each row, ``[n]``: it is the
            ratio of their sums; or ``SeedScores``, for what is no such ratio. None for what is made
            of the tables of other metrics.
        unit: What it is counted in.
        bounds: Between which two numbers it lies.
        needs: ``steps``: it is read of the steps of a private training that clips, not of its
            predictions. ``probabilities``: undefined where predictions are labels. ``positive``: it
            is about one class against the rest; where no positive class is known there is one for
            each, as ``tpr[2]``. ``favourable``: it turns on which outcome people want. ``score``:
            it ranks rows by the probability of one class. ``groups``: it compares groups, so all
            rows together have none. ``reference``: it compares two models. ``retrained``: it
            compares several trainings on the same rows.
        study: The capability that measures it in trainings of its own, as ``leakage``; a report
            holds it apart. "" for a metric of the audit's own trainings.
        has_gap: Whether a difference between groups in it says anything; else it has no gaps.
        is_judged: Whether a difference is worse for one group; else it is only higher or lower, and
            whom it harms depends on what the outcome means to them.
        least_records: Distinct test records of a group below which it has no interval, beyond what
            is asked of every metric.
        least_gated: Such records below which gates do not read it.
        no_interval: Why it has no interval, or "".
        rests_on: Metrics before this one in the list. A value then counts the records of that one
            of them which rests on the fewest, in place of its own.
        header: The head of a table's column; "" for the name with blanks.
        is_in_summary: Whether the summary of predictions that are scored shows it without any rule.
        cost_of: For a cost, the metric that it is the worsening of, against the reference; else "".
    """

    name: str
    words: str
    worst: Literal["highest", "lowest"]
    compute: Compute | None = None
    unit: Unit = "fraction"
    bounds: tuple[float, float] = (0.0, 1.0)
    needs: frozenset[str] = frozenset()
    study: str = ""
    has_gap: bool = True
    is_judged: bool = True
    least_records: int = 0
    least_gated: int = 0
    no_interval: str = ""
    rests_on: tuple[str, ...] = ()
    header: str = ""
    is_in_summary: bool = False
    cost_of: str = ""
    meaning: str = ""

    @property
    def title(self) -> str:
        """The head of a column."""
        return self.header or self.name.replace("_", " ")

    @property
    def width(self) -> float:
        """How far two of its values can lie apart."""
        return self.bounds[1] - self.bounds[0]

    @property
    def needs_a_class(self) -> bool:
        """Whether it is about one class, so that without a positive class it may have no value."""
        return bool(self.needs & {"positive", "favourable", "score"})

    @property
    def is_of_predictions(self) -> bool:
        """Whether it is about the predictions of one model by itself, so that a reference has it.

        Not a cost, which is about two, and not what is read of the steps of a training.
        """
        return not self.needs & {"reference", "steps"}

    @property
    def noun(self) -> str:
        """One value of it in a sentence, with its article."""
        return "a loss" if self.unit == "nats" else f"the {self.words}"

    @property
    def counted(self) -> str:
        """The unit that a page counts it in: ``points`` (hundredths of a fraction), ``nats``."""
        return "points" if self.unit == "fraction" else self.unit

    @property
    def rise(self) -> float:
        """The sign of a change for the worse, 1 or -1; a cost is the change times this."""
        return 1.0 if self.worst == "highest" else -1.0


def cost_of(
    metric: MetricSpec, name: str, words: str, header: str = "", meaning: str = ""
) -> MetricSpec:
    """Make the entry of a cost: how much worse a metric is than under the reference.

    A cost rests on the same records as the metric does, and is positive for the worse.

    Args:
        metric: A metric that has ``compute``.
        name, words, header, meaning: Of the cost.

    Example:
        >>> from fairaudit.metrics.registry import METRICS, cost_of
        >>> cost = cost_of(METRICS["precision"], "precision_cost", "precision lost")
        >>> cost.worst, cost.bounds, cost.cost_of
        ('highest', (-1.0, 1.0), 'precision')
    """
    return replace(
        metric,
        name=name,
        words=words,
        worst="highest",
        compute=None,
        bounds=(-metric.width, metric.width),
        needs=metric.needs | {"reference"},
        rests_on=(),  # `costs_between` reads what the metric itself rests on
        header=header,
        is_in_summary=False,
        cost_of=metric.name,
        meaning=meaning,
    )


_ACCURACY = MetricSpec(
    name="accuracy",
    words="accuracy",
    meaning="The share of rows whose outcome is predicted rightly.",
    worst="lowest",
    compute=lambda rows: (rows.correct, rows.everyone),
    is_in_summary=True,
)
_LOSS = MetricSpec(
    name="loss",
    words="loss (nats)",
    meaning="How far the predicted chances lie from what came true, in the mean over rows: 0 where "
    "the model was sure and right, 0.69 where it tossed a coin between two classes, more where it "
    "was sure and wrong.",
    worst="highest",
    compute=lambda rows: (rows.loss, rows.everyone),
    unit="nats",
    bounds=(0.0, math.inf),
    needs=frozenset({"probabilities"}),
    least_records=30,  # a loss has no floor of uncertainty
    least_gated=200,
)

_SELECTION = MetricSpec(
    name="selection_rate",
    words="selection rate",
    meaning="The share of a group's rows that is predicted as the favourable class.",
    worst="lowest",
    compute=lambda rows: (rows.selected, rows.everyone),
    needs=frozenset({"positive", "favourable"}),
    is_judged=False,
    is_in_summary=True,
)
_TPR = MetricSpec(
    name="tpr",
    words="true positive rate",
    meaning="Of the rows whose true outcome is the favourable class, the share that is predicted "
    "as such (TPR, recall).",
    worst="lowest",
    compute=lambda rows: (rows.chosen * rows.truth, rows.truth),
    needs=frozenset({"positive"}),
    is_in_summary=True,
)


def _of_steps(
    name: str,
    words: str,
    unit: Unit,
    bounds: tuple[float, float],
    header: str,
    meaning: str,
    *,
    has_gap: bool = True,
    is_judged: bool = True,
) -> MetricSpec:
    """The entry of a number that is read of a private training's steps, at its checkpoints.

    Arguments are those of ``MetricSpec``. ``worst`` is "highest" for all of them: of those of which
    that is not true, as cosines, ``has_gap`` is False.
    """
    return MetricSpec(
        name=name,
        words=words,
        worst="highest",
        unit=unit,
        bounds=bounds,
        needs=frozenset({"steps"}),
        has_gap=has_gap,
        is_judged=is_judged,
        header=header,
        meaning=meaning,
    )


MISALIGNMENT = "misalignment"
_ANYWHERE = (-math.inf, math.inf)
# What clipping and noise do to each group's share of a step, mean over checkpoints and seeds
# (docs/methods.md 8).
_OF_STEPS = (
    _of_steps(
        MISALIGNMENT,
        "degrees by which clipping turns the step away from the group's gradient",
        "degrees",
        (-180.0, 180.0),
        "misalignment",
        "By how many degrees clipping turns the steps of training away from a group's own "
        "gradient. A group that it is large for is trained less than its share.",
    ),
    _of_steps(
        "cosine_before",
        "cosine of the group's gradient and the batch's before clipping",
        "ratio",
        (-1.0, 1.0),
        "cosine before clipping",
        "Whether a step of training, before clipping, goes where the group's own rows would take "
        "it: 1 is the same direction, 0 neither towards it nor away, -1 the opposite.",
        has_gap=False,
    ),
    _of_steps(
        "cosine_after",
        "cosine of the group's gradient and the batch's after clipping",
        "ratio",
        (-1.0, 1.0),
        "cosine after clipping",
        "Whether a step of training, after clipping, goes where the group's own rows would take "
        "it: 1 is the same direction, 0 neither towards it nor away, -1 the opposite.",
        has_gap=False,
    ),
    _of_steps(
        "clipped_share",
        "share of the group's records that are clipped",
        "fraction",
        (0.0, 1.0),
        "clipped",
        "Of the group's training rows, the share of which clipping scales down what they add to "
        "a step of training, because it is longer than the bound.",
        is_judged=False,
    ),
    _of_steps(
        "gradient_norm",
        "mean length of the group's gradients",
        "ratio",
        (0.0, math.inf),
        "gradient norm",
        "How strongly one row of the group would change the model in a step of training, before "
        "clipping: the length of its gradient, in the mean over the group's rows.",
        has_gap=False,
    ),
    _of_steps(
        "norm_to_bound",
        "mean length of the group's gradients in clipping bounds",
        "ratio",
        (0.0, math.inf),
        "gradient norm / bound",
        "How long the gradients of the group's rows are beside the bound that clipping allows, in "
        "the mean: at 2 they are twice as long as the bound.",
        has_gap=False,
    ),
    _of_steps(
        "direction",
        "loss that clipping adds at a step by turning it (nats a step)",
        "nats a step",
        _ANYWHERE,
        "direction",
        "How much larger a group's loss is after one step of training because clipping turned the "
        "step, in the mean over the steps that were read. Below zero the group gains.",
    ),
    _of_steps(
        "magnitude",
        "loss that clipping adds at a step by shortening it (nats a step)",
        "nats a step",
        _ANYWHERE,
        "magnitude",
        "How much larger a group's loss is after one step of training because clipping changed "
        "the step's length, in the mean over the steps that were read. Below zero the group gains.",
    ),
    _of_steps(
        "step_noise",
        "loss that noise adds at a step (nats a step)",
        "nats a step",
        _ANYWHERE,
        "noise",
        "How much larger a group's loss is after one step of training because of the noise that "
        "privacy adds to the step, in the mean over the steps that were read.",
        has_gap=False,
    ),
)

DISAGREEMENT, DISAGREEMENT_COST = "disagreement", "disagreement_cost"
# What several trainings on the same rows say of the same people (docs/methods.md 6.10). The cost is
# no `cost_of`: it is not made of one model's rows.
_OF_RETRAINING = (
    MetricSpec(
        name=DISAGREEMENT,
        words="share that another training would decide differently",
        worst="highest",
        needs=frozenset({"retrained"}),
        least_records=30,
        header="decided by chance",
        meaning="How many people of a group would be decided differently by another training on "
        "the same rows, which differs in nothing but its draws. It is no error rate.",
    ),
    MetricSpec(
        name=DISAGREEMENT_COST,
        words="share decided by chance that private training adds",
        worst="highest",
        bounds=(-1.0, 1.0),
        needs=frozenset({"retrained", "reference"}),
        least_records=30,
        header="chance added",
        meaning="How many more people of a group, of a hundred, are decided by chance because "
        "training was private: another training on the same rows would decide them differently.",
    ),
)

METRICS: dict[str, MetricSpec] = {
    spec.name: spec
    for spec in (
        cost_of(
            _ACCURACY,
            "privacy_cost",
            "accuracy lost in private training",
            "privacy cost",
            "How many more rows of a group, of a hundred, are predicted wrongly because training "
            "was private: accuracy without privacy less accuracy with it. Below zero the group "
            "gains.",
        ),
        cost_of(
            _LOSS,
            "excess_risk",
            "loss added by private training (nats)",
            "excess risk",
            "How much larger a group's mean loss is because training was private. It often moves "
            "before accuracy does.",
        ),
        cost_of(
            _TPR,
            "tpr_cost",
            "true positive rate lost in private training",
            meaning="Of a hundred rows of a group whose true outcome is the favourable class, how "
            "many fewer are predicted as such because training was private. Below zero the group "
            "gains.",
        ),
        cost_of(
            _SELECTION,
            "selection_cost",
            "selection rate lost in private training",
            meaning="How many fewer rows of a group, of a hundred, are predicted as the favourable "
            "class because training was private. Below zero there are more of them.",
        ),
        MetricSpec(
            name="one_answer",
            words="loss of all classes but one",
            meaning="1 where the private model hardly gives a group any answer but one, while the "
            "model without privacy gives others, too; else 0.",
            worst="highest",
            unit="ratio",
            needs=frozenset({"reference"}),
            has_gap=False,
        ),
        _ACCURACY,
        _LOSS,
        _SELECTION,
        _TPR,
        MetricSpec(
            name="fpr",
            words="false positive rate",
            meaning="False positive rate: of the rows whose true outcome is another class, the "
            "share that is predicted as the favourable class.",
            worst="highest",
            compute=lambda rows: (rows.chosen * ~rows.truth, ~rows.truth),
            needs=frozenset({"positive"}),
            is_judged=False,
            is_in_summary=True,
        ),
        MetricSpec(
            name="precision",
            words="precision",
            meaning="Of the rows that are predicted as the favourable class, the share that is of "
            "it.",
            worst="lowest",
            compute=lambda rows: (rows.chosen * rows.truth, rows.chosen),
            needs=frozenset({"positive"}),
        ),
        MetricSpec(
            name="impact_ratio",
            words="impact ratio against the most selected group",
            meaning="A group's selection rate divided by that of the most selected group. Below "
            "0.8 it crosses the four-fifths rule of thumb.",
            worst="lowest",
            unit="ratio",
            needs=frozenset({"favourable", "groups"}),
            is_judged=False,
        ),
        MetricSpec(
            name="auc",
            words="area under the ROC curve",
            meaning="The chance that a row of the favourable class gets a higher score than "
            "another row: 1 is perfect, 0.5 a guess.",
            worst="lowest",
            compute=lambda rows: rows.auc(),
            needs=frozenset({"probabilities", "score"}),
            rests_on=("tpr", "fpr"),  # on both classes, so on the rarer
        ),
        MetricSpec(
            name="calibration_error",
            words="calibration error",
            meaning="How far the predicted chances lie from the shares that come true, in the mean "
            "over ten ranges of chances.",
            worst="highest",
            compute=lambda rows: rows.calibration(),
            needs=frozenset({"probabilities"}),
            no_interval="binned calibration error is biased upward in small groups: no interval",
        ),
        *_OF_RETRAINING,
        *_OF_STEPS,
        MetricSpec(
            name="leakage_auc",
            words="area under the ROC curve of the membership attack",
            worst="highest",
            study="leakage",
            header="AUC of the attack",
            meaning="How well an attack on the model tells the group's rows that it was trained on "
            "from rows that it was not: the chance that it ranks a trained row above another. 1 "
            "tells all of them apart; at 0.5, a guess, nothing leaks.",
        ),
        MetricSpec(
            name="leakage_tpr",
            words="members found by the membership attack at 5 % false accusations",
            worst="highest",
            study="leakage",
            least_records=LEAST_FOR_LEAKAGE,
            header="TPR at 5 % FPR",
            meaning="Of the group's rows that the model was trained on, the share that an attack "
            "finds if it may accuse 5 of 100 other rows of the group falsely. Where nothing leaks "
            "it finds 5 of 100.",
        ),
        MetricSpec(
            name="leakage_tpr_at_1",
            words="members found by the membership attack at 1 % false accusations",
            worst="highest",
            study="leakage",
            least_records=LEAST_AT_ONE,
            header="TPR at 1 % FPR",
            meaning="Of the group's rows that the model was trained on, the share that an attack "
            "finds if it may accuse 1 of 100 other rows of the group falsely. Where nothing leaks "
            "it finds 1 of 100.",
        ),
        MetricSpec(
            name="leakage_tpr_global",
            words="members accused by one threshold for all groups",
            worst="highest",
            study="leakage",
            has_gap=False,
            least_records=LEAST_FOR_LEAKAGE,
            header="members accused",
            meaning="Of the group's rows that the model was trained on, the share that an attack "
            "finds if one threshold for all groups accuses 5 of 100 other rows falsely.",
        ),
        MetricSpec(
            name="leakage_fpr_global",
            words="outsiders accused by one threshold for all groups",
            worst="highest",
            study="leakage",
            has_gap=False,
            least_records=LEAST_FOR_LEAKAGE,
            header="outsiders accused",
            meaning="Of the group's rows that the model was not trained on, the share that an "
            "attack accuses falsely if one threshold for all groups accuses 5 of 100 such rows.",
        ),
        MetricSpec(
            name="leakage_advantage",
            words="members minus outsiders accused by one threshold for all groups",
            worst="highest",
            bounds=(-1.0, 1.0),
            study="leakage",
            least_records=LEAST_FOR_LEAKAGE,
            header="difference",
            meaning="The share that an attack accuses of the group's rows that the model was "
            "trained on, less that of its other rows, by one threshold for all groups. At 0 "
            "nothing leaks.",
        ),
    )
}


def base_metric(name: str) -> str:
    """The registry's name of a metric that a report writes with prefix, class or part.

    ``change.tpr[2]`` -> ``tpr``; ``privacy_cost.noise`` -> ``privacy_cost``.

    Example:
        >>> base_metric("change.tpr[2]"), base_metric("privacy_cost.noise")
        ('tpr', 'privacy_cost')
    """
    stem, _, last = name.rpartition(".")
    if last in PARTS or last == CONSTANT:  # the part of a cost stands behind its name
        return base_metric(stem)
    return last.partition("[")[0]  # ``reference.`` and ``change.`` stand before it, and fall away


def part_of(name: str) -> str:
    """The part of a cost that a name ends in: ``noise`` of ``privacy_cost.noise``.

    "" for a whole cost and any other metric.

    Example:
        >>> part_of("privacy_cost.noise"), part_of("privacy_cost")
        ('noise', '')
    """
    last = name.rpartition(".")[2]
    return last if last in PARTS else ""


def spec_of(name: str) -> MetricSpec:
    """The metric behind a name of a report, as ``change.tpr[2]`` or ``privacy_cost.noise``.

    Raises:
        KeyError: There is none.

    Example:
        >>> spec_of("reference.tpr[2]").words
        'true positive rate'
    """
    return METRICS[base_metric(name)]


def costs() -> tuple[str, ...]:
    """Names of the metrics that say how much worse a private model is than its reference.

    Example:
        >>> "privacy_cost" in costs(), "accuracy" in costs()
        (True, False)
    """
    return tuple(name for name, spec in METRICS.items() if spec.cost_of)


def costs_of_constant() -> tuple[str, ...]:
    """Names of the costs that are also measured against a constant model.

    Not those about one class: a constant model predicts that class of everybody or of nobody.

    Example:
        >>> costs_of_constant()
        ('privacy_cost', 'excess_risk')
    """
    of_a_class = frozenset({"positive", "favourable"})
    return tuple(name for name in costs() if not METRICS[name].needs & of_a_class)


def within_model() -> Iterator[MetricSpec]:
    """The metrics of one model by itself, without costs and without those of a capability.

    Example:
        >>> names = [spec.name for spec in within_model()]
        >>> "accuracy" in names, "privacy_cost" in names, "leakage_tpr" in names
        (True, False, False)
    """
    return (spec for spec in METRICS.values() if spec.is_of_predictions and not spec.study)


def of_steps() -> Iterator[MetricSpec]:
    """The metrics that are read of the steps of a private training, not of its predictions.

    Example:
        >>> "misalignment" in [spec.name for spec in of_steps()]
        True
    """
    return (spec for spec in METRICS.values() if "steps" in spec.needs)


def of_retraining() -> Iterator[MetricSpec]:
    """The metrics that compare several trainings on the same rows.

    Example:
        >>> [spec.name for spec in of_retraining()]
        ['disagreement', 'disagreement_cost']
    """
    return (spec for spec in METRICS.values() if "retrained" in spec.needs)


def of_study(name: str) -> Iterator[MetricSpec]:
    """The metrics that only the capability of that name measures, as ``leakage``.

    Example:
        >>> {spec.study for spec in of_study("leakage")}
        {'leakage'}
    """
    return (spec for spec in METRICS.values() if spec.study == name)
