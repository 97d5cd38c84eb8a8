"""Catalog entries of the ablation: what clipping's direction and its magnitude do, each without the other."""

from fairaudit.methods.defaults import LEARNING_RATE, MAX_GRAD_NORM
from fairaudit.methods.spec import Guarantee, MethodSpec

NAME = "ablation"  # `--method ablation` trains all of these

_MODULE = "fairaudit.methods.published.ablation"
_SOURCE = "Esipova et al. 2023, sec. 6.1 and App. B.4"


def _arm(name: str, summary: str, trainer: str, *, control_of: str | None = None) -> MethodSpec:
    return MethodSpec(
        name=name,
        summary=summary,
        source=_SOURCE if control_of is None else "control of this project for the ablation",
        guarantee=Guarantee.NONE,
        trainer=f"{_MODULE}:{trainer}",
        settings={"learning_rate": LEARNING_RATE, "max_grad_norm": MAX_GRAD_NORM},
        control_of=control_of,
        source_series="shrinkage",
        settings_of="dpsgd",
        ablation=True,
    )


ABLATION: tuple[MethodSpec, ...] = (
    _arm("clipped", "ablation: clip each record's gradient to C, add no noise", "Clipped"),
    _arm(
        "magnitude-only",
        "ablation: the batch's own gradient, as short as clipping makes it; no noise",
        "MagnitudeOnly",
    ),
    _arm(
        "direction-only",
        "ablation: the clipped batch's direction, as long as the batch's own gradient; no noise",
        "DirectionOnly",
    ),
    _arm(
        "sgd-slowed",
        "ablation control: plain SGD with the mean step length of magnitude-only",
        "SgdSlowed",
        control_of="magnitude-only",
    ),
)
