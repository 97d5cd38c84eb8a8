"""Published forms of the methods, and the ablation of clipping.

Described without torch. A published form has an epsilon only where a proof covers it.
"""

from collections.abc import Mapping

from fairaudit.extend import (
    LEARNING_RATE,
    MAX_GRAD_NORM,
    Guarantee,
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
        "weight of the penalty on what clipping takes from the groups' gradients",
        0.0,
        1e6,
        default=Rule("1", lambda s: 1.0),
    )
}

# Method -> its published forms.
VARIANTS: Mapping[str, tuple[Variant, ...]] = {
    "dpsgd": (Variant("as-published", MEAN, f"{_CLIPPING}:DpSgdAsPublished"),),
    "global": (Variant("as-published", MEAN, f"{_CLIPPING}:GlobalAsPublished"),),
    "global-adapt": (
        Variant(
            "as-published",
            f"{MEAN}; the count is divided by it too, without noise of its own",
            f"{_CLIPPING}:GlobalAdaptAsPublished",
        ),
    ),
    "dpsgd-f": (
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
    ),
    "reweight": (
        Variant(
            "as-published",
            f"{FIXED} a weight can be negative or as large as it likes",
            f"{_CLIPPING}:ReweightXu",
        ),
    ),
    "fairlens": (
        Variant("as-published", _COUPLED, f"{_FAIRLENS}:FairLensEsipova", _GAMMA1),
        Variant("t21-eq6", _COUPLED, f"{_FAIRLENS}:FairLensTran", _GAMMA1),
    ),
    "output-perturbation": (
        Variant(
            "group-normalise",
            "each group is standardised by its own mean and deviation, which are released "
            "without noise; the group label is needed at prediction",
            "fairaudit.papers.normalised:GroupNormalised",
            reads_groups=True,
        ),
    ),
    "pate-soft": (
        Variant(
            "no-project",
            "labels as printed, which may be negative or exceed 1; the projection is "
            "post-processing, so the privacy is the same",
            "fairaudit.papers.unprojected:PateSoftUnprojected",
            guarantee=Guarantee.ESTABLISHED,
        ),
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
    source = "Esipova et al. 2023, sec. 4 and App. B.4"
    if control_of:
        source = "control of this project for the ablation"
    return MethodSpec(
        name=name,
        summary=summary,
        source=source,
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
