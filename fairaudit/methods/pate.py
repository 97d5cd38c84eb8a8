"""PATE in its two forms and their references; teachers, votes and students are in ``teachers``."""

import math

from fairaudit.methods.defaults import (
    LEARNING_RATE,
    NEWTON_STEPS,
    NOISE_DRAWS,
    NOISE_MULTIPLIER,
    Rule,
    Search,
    Setting,
)
from fairaudit.methods.spec import (
    Conversion,
    FitSizes,
    FitWork,
    GaussianMechanism,
    Guarantee,
    MethodSpec,
    Need,
)

BATCH = 32  # batch size of networks; a teacher holds a few hundred records
_TRAINERS = "fairaudit.methods.teachers"
_RECORDS = Rule("the number of training records", lambda s: float(s.n_public))
_POOL = Rule("the records of the student pool", lambda s: float(max(1, s.pool)))
_TEACHERS = {
    "teachers": Setting(
        "teachers, each on records of its own",
        1.0,
        _RECORDS,
        "teachers",
        whole=True,
        default=Rule("N / 100, at most 150", lambda s: float(max(2, min(150, s.n_public // 100)))),
        search=Search(0.25, 4.0),
    ),
    "queries": Setting(
        "records of the student pool that the teachers label",
        1.0,
        _POOL,
        "records",
        whole=True,
        default=Rule(
            "every record of the student pool, at most 20,000",
            lambda s: float(max(1, min(20_000, s.pool))),
        ),
    ),
    "teacher_penalty": Setting(
        "weight of the squared norm of a teacher's parameters",
        1e-9,
        1e6,
        "nats",
        default=Rule("0.01", lambda s: 0.01),
    ),
    "student_penalty": Setting(
        "weight of the squared norm of the student's parameters",
        1e-9,
        1e6,
        "nats",
        default=Rule("0.01", lambda s: 0.01),
    ),
    "learning_rate": LEARNING_RATE,
}
_MEANINGS = {
    "flip_probability": "probability that noise changes the winner of a query",
    "closeness": "boundary proximity, 1 - sum p^2 of the clean student",
    "excess_risk": "excess risk on the student pool against the clean votes, nats",
    "input_norm": "mean norm of the inputs, constant included",
    "deviation": "distance from the clean student",
    "deviation_bound": "bound on that distance, Theorem 2",
    "deviation_square": "squared distance from the clean student",
    "deviation_square_bound": "bound on that square, Corollary 2 with p in place of its square",
    "gradient_norm": "norm of the group's mean gradient at the clean student, |G_a|",
    "smoothness": "smoothness of the group's loss, beta_a by Proposition 2",
    "xi": "largest difference of excess risk between groups, nats",
    "xi_bound": "bound on that difference, Theorem 1",
    "xi_of_bound": "that difference as a share of its bound",
}
_CORRELATIONS = {
    "closeness_flips": "rank correlation over queries of boundary proximity and flips",
    "input_norm_excess_risk": "rank correlation over queries of input norm and excess risk",
    "flips_excess_risk": "rank correlation over queries of flips and excess risk",
}
_COLUMNS = {
    **dict.fromkeys(("deviation", "deviation_square"), ("mean", "standard error")),
    **dict.fromkeys(_CORRELATIONS, ("value", "low", "high")),
}
_PUBLIC = ("features and groups of the student pool, which are taken as public",)


# Tran and Fioretto 2023, eqs (1), (2), define a sum where their theorems need a mean: from a sum of
# losses plus lambda |theta|^2 to their mean plus (lambda'/2) |theta|^2. A teacher's mean is over
# the expected N / k records: its own number is not public.
_SUM = "weight of the squared norm of {} parameters beside a sum of losses"
_OF_SUMS = {
    "student_penalty_of_sum": Conversion(
        "student_penalty",
        "2 times this over the number of queries",
        lambda given, settings, sizes: 2.0 * given / settings["queries"],
        Setting(_SUM.format("the student's"), 1e-9, 1e9, "nats"),
    ),
    "teacher_penalty_of_sum": Conversion(
        "teacher_penalty",
        "2 times this over N / teachers",
        lambda given, settings, sizes: 2.0 * given * settings["teachers"] / sizes.n_public,
        Setting(_SUM.format("a teacher's"), 1e-9, 1e9, "nats"),
    ),
}


def _fit_work(sizes: FitSizes) -> FitWork:
    """What teachers and students take, those of the readings included, in counts of FitWork."""
    teachers, queries = sizes.settings["teachers"], sizes.settings["queries"]
    # How many descents of students there are, in each of which students train side by side: one for
    # the repeats; for readings one more for the clean student and one for all draws of the noise.
    runs, students = 1, sizes.repeats
    if sizes.is_read:
        runs, students = 3, students + 1 + int(sizes.settings["noise_draws"])
    # Each teacher votes on every query; where readings are taken, each student answers every query.
    answers = queries * (teachers + students)
    if sizes.is_convex:
        return FitWork(
            newton_steps=NEWTON_STEPS * (teachers + students),
            # n_public are the training records, not those of the student pool.
            newton_records=NEWTON_STEPS * (sizes.n_public + queries * students),
            answers=answers,
        )
    of_teachers = sizes.epochs * math.ceil(sizes.n_public / teachers / BATCH)
    of_students = sizes.epochs * math.ceil(queries / BATCH)
    return FitWork(
        steps=of_teachers + runs * of_students,
        records=of_teachers * teachers * BATCH + of_students * students * min(BATCH, queries),
        answers=answers,
    )


def _reference_spec(kind: str) -> MethodSpec:
    """The description of a form's non-private reference, a student of the votes without noise.

    ``kind``: ``hard`` or ``soft``, as of :func:`_private_spec`.
    """
    return MethodSpec(
        name=f"pate-{kind}-clean",
        summary=f"reference of pate-{kind}: a student of the same votes, without noise",
        source="Papernot et al. 2018; Tran and Fioretto 2023",
        guarantee=Guarantee.NONE,
        trainer=f"{_TRAINERS}:Pate{kind.title()}",
        settings=_TEACHERS,
        conversions=_OF_SUMS,
        needs=(Need.PUBLIC_POOL,),
        reference=None,
        reference_of=f"pate-{kind}",
        fit_work=_fit_work,
        unprotected=_PUBLIC,
    )


def _private_spec(kind: str, label: str, remark: str = "") -> MethodSpec:
    """The description of a private form of PATE.

    Args:
        kind: ``hard`` or ``soft``; it names the method, its reference and its trainer.
        label: What the student learns of a record, in words.
        remark: What a reader of the method's name must know, in sentences; "" for nothing.
    """
    return MethodSpec(
        name=f"pate-{kind}",
        summary=f"teachers on disjoint records vote; a student on public records learns {label}",
        source="Papernot et al. 2017; Tran and Fioretto 2023",
        guarantee=Guarantee.ESTABLISHED,
        trainer=f"{_TRAINERS}:Pate{kind.title()}",
        settings={**_TEACHERS, "noise_draws": NOISE_DRAWS, "noise_multiplier": NOISE_MULTIPLIER},
        conversions=_OF_SUMS,
        needs=(Need.PUBLIC_POOL,),
        gaussian=GaussianMechanism("votes", count="queries"),
        reference=f"pate-{kind}-clean",
        fit_work=_fit_work,
        readings="fairaudit.diagnostics.votes:read",
        meanings={**_MEANINGS, **_CORRELATIONS},
        columns=_COLUMNS,
        part="partition",
        unprotected=_PUBLIC,
        remark=remark,
    )


PATE_HARD_CLEAN = _reference_spec("hard")
PATE_HARD = _private_spec("hard", "the winning class of the noised votes")
PATE_SOFT_CLEAN = _reference_spec("soft")
PATE_SOFT = _private_spec(
    "soft",
    "the noised shares of the votes, projected to the simplex",
    "soft labels are published as a mitigation. At the settings of docs/methods.md 5.2 they moved "
    "the student less than hard ones on three of four files. The groups' excess risks came visibly "
    "together on none of the four; on one the gap halved at another setting. Without the "
    "projection they did on the two large files, and on a small one the training failed.",
)
