"""Catalog entries of the methods that release something about all records at once, and their references."""

from collections.abc import Mapping

from fairaudit.methods.defaults import Setting, Sizes
from fairaudit.methods.mechanisms import GaussianMechanism
from fairaudit.methods.spec import Conversion, Guarantee, MethodSpec, Need, Variant

_OUTPUT = "fairaudit.methods.output_perturbation"
_PATE = "fairaudit.methods.pate"
_POINT = ("penalty", "feature_norm", "intercept")
_TEACHERS = ("teachers", "queries", "teacher_penalty", "student_penalty", "learning_rate")
_POOL = ("features and groups of the student pool, which are taken as public",)


def _student_penalty(given: float, settings: Mapping[str, float], sizes: Sizes) -> float:
    """From a sum of losses plus lambda |theta|^2 to their mean plus (lambda'/2) |theta|^2."""
    return 2.0 * given / settings["queries"]


def _teacher_penalty(given: float, settings: Mapping[str, float], sizes: Sizes) -> float:
    """The same for a teacher of the expected N / k records: its own number is not public."""
    return 2.0 * given * settings["teachers"] / sizes.n_public


# Tran and Fioretto 2023, eqs (1), (2), define a sum where their theorems need a mean.
_SUM = "weight of the squared norm of {} parameters beside a sum of losses"
_OF_SUMS = {
    "student_penalty_of_sum": Conversion(
        "student_penalty",
        "2 times this over the number of queries",
        _student_penalty,
        Setting(_SUM.format("the student's"), 1e-9, 1e9, "nats"),
    ),
    "teacher_penalty_of_sum": Conversion(
        "teacher_penalty",
        "2 times this over N / teachers",
        _teacher_penalty,
        Setting(_SUM.format("a teacher's"), 1e-9, 1e9, "nats"),
    ),
}
_UNPROJECTED = Variant(
    "no-project",
    "labels as printed, which may be negative or exceed 1; the projection is post-processing, so the "
    "privacy is the same",
    f"{_PATE}:PateSoftUnprojected",
    guarantee=Guarantee.ESTABLISHED,
)


def _clean(kind: str) -> MethodSpec:
    return MethodSpec(
        name=f"pate-{kind}-clean",
        summary=f"reference of pate-{kind}: a student of the same votes, without noise",
        source="Papernot et al. 2018; Tran and Fioretto 2023",
        guarantee=Guarantee.NONE,
        trainer=f"{_PATE}:Pate{kind.title()}Clean",
        settings=_TEACHERS,
        conversions=_OF_SUMS,
        needs=(Need.PUBLIC_POOL,),
        reference=None,
        reference_of=f"pate-{kind}",
        unprotected=_POOL,
    )


def _noised(kind: str, label: str, *variants: Variant) -> MethodSpec:
    return MethodSpec(
        name=f"pate-{kind}",
        summary=f"teachers on disjoint records vote; a student on public records learns {label}",
        source="Papernot et al. 2017; Tran and Fioretto 2023",
        guarantee=Guarantee.ESTABLISHED,
        trainer=f"{_PATE}:Pate{kind.title()}",
        settings=(*_TEACHERS, "noise_draws", "noise_multiplier"),
        conversions=_OF_SUMS,
        needs=(Need.PUBLIC_POOL,),
        gaussian=GaussianMechanism("votes", count="queries"),
        reference=f"pate-{kind}-clean",
        readings="fairaudit.diagnostics.votes:read",
        part="partition",
        unprotected=_POOL,
        variants=variants,
    )


UNSAMPLED: tuple[MethodSpec, ...] = (
    MethodSpec(
        name="exact-minimiser",
        summary="reference of output-perturbation: the same regularised minimiser, without noise",
        source="Chaudhuri et al. 2011; Tran et al. 2021",
        guarantee=Guarantee.NONE,
        trainer=f"{_OUTPUT}:ExactMinimiser",
        settings=_POINT,
        needs=(Need.CONVEX_MODEL,),
        reference=None,
        reference_of="output-perturbation",
    ),
    MethodSpec(
        name="output-perturbation",
        aliases=("outpert",),
        summary="solve a regularised logistic regression exactly, add noise to the solution",
        source="Chaudhuri et al. 2011; Tran et al. 2021, Thm 1",
        guarantee=Guarantee.ESTABLISHED,
        trainer=f"{_OUTPUT}:OutputPerturbation",
        settings=(*_POINT, "noise_draws", "noise_multiplier"),
        needs=(Need.CONVEX_MODEL,),
        gaussian=GaussianMechanism("minimiser"),
        reference="exact-minimiser",
        readings="fairaudit.diagnostics.perturbation:read",
        part="regularisation",
        variants=(
            Variant(
                "group-normalise",
                "each group is standardised by its own mean and deviation, which are released without noise; "
                "the group label is needed at prediction",
                "fairaudit.methods.published.normalised:GroupNormalised",
                reads_groups=True,
            ),
        ),
    ),
    _clean("hard"),
    _noised("hard", "the winning class of the noised votes"),
    _clean("soft"),
    _noised("soft", "the noised shares of the votes, projected to the simplex", _UNPROJECTED),
)
