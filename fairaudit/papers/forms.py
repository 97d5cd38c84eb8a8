"""Published forms of the methods, what their trainings are read for, and the ablation of clipping.

Described without torch. A published form has an epsilon only where a proof covers it.
"""

from fairaudit.extend import (
    LEARNING_RATE,
    MAX_GRAD_NORM,
    Guarantee,
    MethodAddition,
    MethodSpec,
    Rule,
    Setting,
    Variant,
)

_CLIPPING = "fairaudit.papers.clipping"
_FAIRLENS = "fairaudit.papers.fairlens"

MEAN = (
    "divides by the realised batch size: one record shifts the mean by up to twice the noise's "
    "unit, and the batch size itself is revealed"
)
FIXED = (
    "printed for batches of a fixed size, where replacing a record moves the counts by sqrt(2) "
    "and the sum by twice the bound (here they are Poisson samples); noised counts have no floor, "
    "so"
)
_COUPLED = (
    "the penalty depends on the whole batch, so adding one record changes every record's clipped "
    f"gradient: the sum moves by up to 2|B| + 1 bounds where one is claimed; {MEAN}"
)
_GAMMA1 = {
    "gamma1": Setting(
        "weight of the penalty on gradients", 0.0, 1e6, default=Rule("1", lambda s: 1.0)
    )
}

# --- what finished trainings are read for: name -> what it is

_OF_MINIMISERS = {
    "hessian_trace": "trace of the group's Hessian at the minimiser",
    "excess_risk_predicted": "excess risk by Theorem 1, nats",
    "excess_risk_drawn": "excess risk, mean over draws of the noise, nats",
    "excess_risk_drawn_se": "standard error of that excess risk, nats",
    "trace_agreement": "share of pairs of groups in which larger trace and larger excess risk "
    "coincide",
}
_OF_VOTES = {
    "flip_probability": "probability that noise changes the winner of a query",
    "closeness": "boundary proximity, 1 - sum p^2 of the clean student",
    "excess_risk": "excess risk on the student pool against the clean votes, nats",
    "deviation": "distance from the clean student",
    "deviation_bound": "bound on that distance, Theorem 2",
    "xi": "largest difference of excess risk between groups, nats",
}


def _pate_addition(*variants: Variant) -> MethodAddition:
    """What the papers add to a form of PATE: its variants, and readings of votes and students."""
    return MethodAddition(
        variants=variants,
        readings="fairaudit.papers.votes:read",
        meanings=_OF_VOTES,
        columns={"deviation": ("mean", "standard error")},
    )


ADDITIONS = {
    "dpsgd": MethodAddition((Variant("as-published", MEAN, f"{_CLIPPING}:DpSgdAsPublished"),)),
    "global": MethodAddition((Variant("as-published", MEAN, f"{_CLIPPING}:GlobalAsPublished"),)),
    "global-adapt": MethodAddition(
        (
            Variant(
                "as-published",
                f"{MEAN}; the count is divided by it too, without noise of its own",
                f"{_CLIPPING}:GlobalAdaptAsPublished",
            ),
        )
    ),
    "dpsgd-f": MethodAddition(
        (
            Variant(
                "as-published-x21",
                f"{FIXED} a bound can be negative or as large as it likes",
                f"{_CLIPPING}:DpSgdFXu",
            ),
            Variant(
                "as-published-e23",
                f"noise is set by the base bound though groups are clipped to larger ones; {MEAN}",
                f"{_CLIPPING}:DpSgdFEsipova",
            ),
            Variant(
                "author-code",
                "noise is set by the largest bound among the groups that were drawn, so its size "
                "reveals which groups are in the batch",
                f"{_CLIPPING}:DpSgdFAuthors",
            ),
        )
    ),
    "reweight": MethodAddition(
        (
            Variant(
                "as-published",
                f"{FIXED} a weight can be negative or as large as it likes",
                f"{_CLIPPING}:ReweightXu",
            ),
        )
    ),
    "fairlens": MethodAddition(
        (
            Variant("as-published", _COUPLED, f"{_FAIRLENS}:FairLensEsipova", _GAMMA1),
            Variant("t21-eq6", _COUPLED, f"{_FAIRLENS}:FairLensTran", _GAMMA1),
        )
    ),
    "output-perturbation": MethodAddition(
        variants=(
            Variant(
                "group-normalise",
                "each group is standardised by its own mean and deviation, which are released "
                "without noise; the group label is needed at prediction",
                "fairaudit.papers.normalised:GroupNormalised",
                reads_groups=True,
            ),
        ),
        readings="fairaudit.papers.perturbation:read",
        meanings=_OF_MINIMISERS,
    ),
    "pate-hard": _pate_addition(),
    "pate-soft": _pate_addition(
        Variant(
            "no-project",
            "labels as printed, which may be negative or exceed 1; the projection is "
            "post-processing, so the privacy is the same",
            "fairaudit.papers.unprojected:PateSoftUnprojected",
            guarantee=Guarantee.ESTABLISHED,
        )
    ),
}


# --- the ablation: what clipping's direction and its magnitude do, each without the other


def _ablation_arm(
    name: str, summary: str, trainer: str, *, control_of: str | None = None
) -> MethodSpec:
    """The description of a method of the ablation; it takes dpsgd's settings and adds no noise.

    Args:
        name, summary: As of MethodSpec.
        trainer: Name of its class in ``papers.ablation``.
        control_of: The method whose shrinkage series it reads; None for one that is no control.
    """
    return MethodSpec(
        name=name,
        summary=summary,
        source="control of this project for the ablation"
        if control_of
        else "Esipova et al. 2023, sec. 6.1 and App. B.4",
        guarantee=Guarantee.NONE,
        trainer=f"fairaudit.papers.ablation:{trainer}",
        settings={"learning_rate": LEARNING_RATE, "max_grad_norm": MAX_GRAD_NORM},
        control_of=control_of,
        source_series="shrinkage",
        settings_of="dpsgd",
        method_set="ablation",
    )


ABLATION = (
    _ablation_arm("clipped", "ablation: clip each record's gradient to C, add no noise", "Clipped"),
    _ablation_arm(
        "magnitude-only",
        "ablation: the batch's own gradient, as short as clipping makes it; no noise",
        "MagnitudeOnly",
    ),
    _ablation_arm(
        "direction-only",
        "ablation: the clipped batch's direction, as long as the batch's own gradient; no noise",
        "DirectionOnly",
    ),
    _ablation_arm(
        "sgd-slowed",
        "ablation control: plain SGD with the mean step length of magnitude-only",
        "SgdSlowed",
        control_of="magnitude-only",
    ),
)
