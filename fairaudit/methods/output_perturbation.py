"""Output perturbation and its reference; the solver and the noise are in ``minimiser``."""

from fairaudit.methods.defaults import (
    NEWTON_STEPS,
    NOISE_DRAWS,
    NOISE_MULTIPLIER,
    WIDE,
    Rule,
    Setting,
)
from fairaudit.methods.spec import FitSizes, FitWork, GaussianMechanism, Guarantee, MethodSpec, Need

_TRAINERS = "fairaudit.methods.minimiser"
_POINT = {
    "penalty": Setting(
        "weight of the squared norm of the parameters",
        1e-9,
        1e6,
        "nats",
        default=Rule("10 / N", lambda s: float(f"{10 / s.n_public:.3g}")),
        search=WIDE,
    ),
    "feature_norm": Setting(
        "largest norm R of a record's inputs", 1e-6, 1e6, default=Rule("1", lambda s: 1.0)
    ),
    "intercept": Setting(
        "constant input b of every record; 0 for none", 0.0, 1e6, default=Rule("1", lambda s: 1.0)
    ),
}


def _fit_work(sizes: FitSizes) -> FitWork:
    """What the minimiser takes, and its readings: losses of all records under drawn noise."""
    # Models whose losses are read: the minimiser itself, and one for each draw.
    drawn = 1 + sizes.settings["noise_draws"] if sizes.is_read else 0.0
    return FitWork(
        newton_steps=NEWTON_STEPS,
        newton_records=NEWTON_STEPS * sizes.n_public,
        answers=drawn * sizes.n_public,
    )


EXACT_MINIMISER = MethodSpec(
    name="exact-minimiser",
    summary="reference of output-perturbation: the same regularised minimiser, without noise",
    source="Chaudhuri et al. 2011; Tran et al. 2021",
    guarantee=Guarantee.NONE,
    trainer=f"{_TRAINERS}:OutputPerturbation",
    settings=_POINT,
    needs=(Need.CONVEX_MODEL,),
    reference=None,
    reference_of="output-perturbation",
    fit_work=_fit_work,
)
OUTPUT_PERTURBATION = MethodSpec(
    name="output-perturbation",
    aliases=("outpert",),
    summary="solve a regularised logistic regression exactly, add noise to the solution",
    source="Chaudhuri et al. 2011; Tran et al. 2021, Thm 1",
    guarantee=Guarantee.ESTABLISHED,
    trainer=f"{_TRAINERS}:OutputPerturbation",
    settings={**_POINT, "noise_draws": NOISE_DRAWS, "noise_multiplier": NOISE_MULTIPLIER},
    needs=(Need.CONVEX_MODEL,),
    gaussian=GaussianMechanism("minimiser"),
    reference="exact-minimiser",
    fit_work=_fit_work,
    readings="fairaudit.diagnostics.perturbation:read",
    meanings={
        "hessian_trace": "trace of the group's Hessian at the minimiser",
        "excess_risk_predicted": "excess risk by Theorem 1, nats",
        "excess_risk_drawn": "excess risk, mean over draws of the noise, nats",
        "excess_risk_drawn_se": "standard error of that excess risk, nats",
        "trace_agreement": "share of pairs of groups in which larger trace and larger excess risk "
        "coincide",
    },
    part="regularisation",
)
