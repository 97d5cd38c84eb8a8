"""What each method is, without torch: `plan`, `methods` and the report read only this."""

from functools import cache
from importlib.metadata import entry_points

from fairaudit.errors import ConfigError, did_you_mean
from fairaudit.methods.ablation import ABLATION
from fairaudit.methods.spec import REFERENCE, Guarantee, MethodSpec, Variant
from fairaudit.methods.unsampled import UNSAMPLED

__all__ = ["BUILT_IN", "REFERENCE", "Guarantee", "MethodSpec", "Variant", "catalog", "find"]

_MEAN = (
    "divides by the realised batch size: one record shifts the mean by up to twice the noise's unit, "
    "and the batch size itself is revealed"
)
_FLAT = ("learning_rate", "max_grad_norm", "noise_multiplier")
_FIXED = (
    "printed for batches of a fixed size, where replacing a record moves the counts by sqrt(2) and the sum "
    "by twice the bound (here they are Poisson samples); noised counts have no floor, so"
)
_COUPLED = (
    "the penalty depends on the whole batch, so adding one record changes every record's clipped gradient: "
    "the sum moves by up to 2|B| + 1 bounds where one is claimed"
)
_GRADIENT = "fairaudit.methods.gradient"
_PUBLISHED = "fairaudit.methods.published"

BUILT_IN: tuple[MethodSpec, ...] = (
    MethodSpec(
        name=REFERENCE,
        aliases=("non-private", "nonprivate"),
        summary="plain SGD on the same batches: the reference that every cost is measured against",
        source="none",
        guarantee=Guarantee.NONE,
        trainer=f"{_GRADIENT}:Sgd",
        settings=("learning_rate",),
        reference=None,
    ),
    MethodSpec(
        name="dpsgd",
        aliases=("dp-sgd",),
        summary="clip each record's gradient to C, add noise",
        source="Abadi et al. 2016",
        guarantee=Guarantee.ESTABLISHED,
        trainer=f"{_GRADIENT}:DpSgd",
        settings=_FLAT,
        variants=(Variant("as-published", _MEAN, f"{_PUBLISHED}.flat:DpSgdAsPublished"),),
    ),
    MethodSpec(
        name="dpsgd-matched",
        aliases=("matched",),
        summary="control: dpsgd that clips at the threshold global-adapt settled on, with its effective step",
        source="control of this project for Esipova et al. 2023, Alg. 2",
        guarantee=Guarantee.ESTABLISHED,
        trainer=f"{_GRADIENT}:DpSgdMatched",
        settings=_FLAT,
        control_of="global-adapt",
    ),
    MethodSpec(
        name="global",
        aliases=("dpsgd-global",),
        summary="scale every gradient by C/Z, drop those longer than Z, add noise",
        source="Bu et al. 2021; Esipova et al. 2023, Alg. 2",
        guarantee=Guarantee.ESTABLISHED,
        trainer=f"{_GRADIENT}:Global",
        settings=(*_FLAT, "threshold"),
        scales_by_threshold=True,
        variants=(Variant("as-published", _MEAN, f"{_PUBLISHED}.flat:GlobalAsPublished"),),
    ),
    MethodSpec(
        name="global-adapt",
        aliases=("dpsgd-global-adapt", "adapt"),
        summary="scale every gradient by C/Z, longer ones down to C; Z follows a noised count; add noise",
        source="Esipova et al. 2023, Alg. 2",
        guarantee=Guarantee.ESTABLISHED,
        trainer=f"{_GRADIENT}:GlobalAdapt",
        settings=(*_FLAT, "threshold", "tolerance", "threshold_learning_rate", "count_noise_multiplier"),
        side_queries={"count": "count_noise_multiplier"},
        scales_by_threshold=True,
        variants=(
            Variant(
                "as-published",
                f"{_MEAN}; the count is divided by it too, without noise of its own",
                f"{_PUBLISHED}.flat:GlobalAdaptAsPublished",
            ),
        ),
    ),
    MethodSpec(
        name="dpsgd-f",
        aliases=("dpsgdf",),
        summary="clip to a bound for each group, larger where more of the group is clipped; add noise",
        source="Xu et al. 2021, Alg. 2",
        guarantee=Guarantee.ESTABLISHED,
        trainer=f"{_GRADIENT}:DpSgdF",
        settings=(*_FLAT, "count_noise_multiplier", "largest_bound_ratio", "against_batch"),
        side_queries={"count": "count_noise_multiplier"},
        reads_groups=True,
        variants=(
            Variant(
                "as-published-x21",
                f"{_FIXED} a bound can be negative or as large as it likes",
                f"{_PUBLISHED}.grouped:DpSgdFXu",
            ),
            Variant(
                "as-published-e23",
                f"noise is set by the base bound though groups are clipped to larger ones; {_MEAN}",
                f"{_PUBLISHED}.grouped:DpSgdFEsipova",
            ),
            Variant(
                "author-code",
                "noise is set by the largest bound among the groups that were drawn, so its size reveals "
                "which groups are in the batch",
                f"{_PUBLISHED}.grouped:DpSgdFAuthors",
            ),
        ),
    ),
    MethodSpec(
        name="reweight",
        aliases=("naive",),
        summary="clip each record's gradient to C, weigh groups by their inverse noised counts; add noise",
        source="Xu et al. 2021, Alg. 3",
        guarantee=Guarantee.ESTABLISHED,
        trainer=f"{_GRADIENT}:Reweight",
        settings=(*_FLAT, "count_noise_multiplier", "smallest_count", "largest_weight"),
        side_queries={"count": "count_noise_multiplier"},
        reads_groups=True,
        variants=(
            Variant(
                "as-published",
                f"{_FIXED} a weight can be negative or as large as it likes",
                f"{_PUBLISHED}.grouped:ReweightXu",
            ),
        ),
    ),
    MethodSpec(
        name="fairlens",
        summary="dpsgd whose loss also pulls the groups' mean distances to the decision boundary together",
        source="Tran et al. 2021, eq. (6), in a form of this tool in which no record sees another",
        guarantee=Guarantee.ESTABLISHED,
        trainer=f"{_GRADIENT}:FairLensDecoupled",
        settings=(
            *(*_FLAT, "gamma2", "statistic_noise_ratio"),
            *("statistic_decay", "smallest_count", "smallest_share"),
        ),
        relative_queries={"statistics": "statistic_noise_ratio"},
        reads_groups=True,
        variants=(
            Variant(
                "as-published",
                f"{_COUPLED}; {_MEAN}",
                f"{_PUBLISHED}.fairlens:FairLensEsipova",
                ("gamma1",),
            ),
            Variant("t21-eq6", f"{_COUPLED}; {_MEAN}", f"{_PUBLISHED}.fairlens:FairLensTran", ("gamma1",)),
        ),
    ),
    *UNSAMPLED,
    *ABLATION,
)


@cache
def catalog() -> dict[str, MethodSpec]:
    """Every method by name: the built-in ones, then those of the entry points `fairaudit.methods`.

    Raises:
        ConfigError: An entry point is not a MethodSpec, or takes a name that is taken.
    """
    methods = {spec.name: spec for spec in BUILT_IN}
    for point in entry_points(group="fairaudit.methods"):
        spec = point.load()
        if not isinstance(spec, MethodSpec) or spec.name in methods:
            raise ConfigError(f"entry point {point.name!r} of group fairaudit.methods is no new method")
        methods[spec.name] = spec
    return methods


def find(name: str) -> MethodSpec:
    """The method of that name or alias.

    Raises:
        ConfigError: Unknown name.
    """
    methods = catalog()
    for spec in methods.values():
        if name.lower() in (spec.name, *spec.aliases):
            return spec
    raise ConfigError(f"unknown method {name!r}", hint=did_you_mean(name, methods))
