"""Xu et al. 2021, and what is known to differ from the publication."""

from fairaudit.config.presets.preset import Preset

_NOTES = (
    "The paper draws batches of a fixed size but counts privacy as for Poisson samples; here batches are "
    "Poisson samples. Its epsilons (3.1 for Adult, 2.66 for Dutch) are those of the gradient alone in an "
    "older conversion; here the noised counts are charged together with the gradient.",
    "Noise multipliers are not printed: 1 for the gradient is what reproduces the printed epsilons. The "
    "count noise and the clipping bounds are those that Esipova et al. 2023 use for its methods. Its "
    "reweighting has no largest weight; here it is 20.",
    "The learning rate is 1 / sqrt(steps) for the table's usual size: 36,178 training rows of Adult, 48,336 "
    "of Dutch, 20 epochs of batches of 256.",
)


def _xu(name: str, summary: str, *, step: float, bound: float, missing: str, drop: tuple[str, ...]) -> Preset:
    return Preset(
        name=name,
        summary=summary,
        source="Xu et al. 2021, sec. 6.1",
        fields={
            "missing": missing,
            "drop": drop,
            "merge_rare": 0.0,
            "test_size": 0.2,
            "model": "logistic",
            "epochs": 20,
            "batch_size": 256,
            "optimizer": "sgd",
            "delta": 1e-6,
            "noise_multiplier": 1.0,
            "max_grad_norm": bound,
            "learning_rate": step,
            "settings": {
                "dpsgd-f": {"count_noise_multiplier": 10.0},
                "reweight": {"count_noise_multiplier": 10.0, "largest_weight": 20.0},
            },
        },
        notes=_NOTES,
    )


ADULT = _xu(
    "xu-adult",
    "Adult census table: logistic regression, groups of unequal size, sex is no input",
    step=0.0188,
    bound=0.5,
    missing="drop",
    drop=("fnlwgt",),
)
DUTCH = _xu(
    "xu-dutch",
    "Dutch census table: logistic regression, sex is no input",
    step=0.0163,
    bound=0.1,
    missing="drop",
    drop=(),
)
