"""Readings of checkpoints and bounds by name: what each is, and where it is from."""

from collections.abc import Mapping

_OF_DIRECTION = "excess risk of this step from clipping's direction, nats"
_OF_MAGNITUDE = "excess risk of this step from clipping's magnitude, nats"
# name -> what it is; in the order of the report
SERIES: Mapping[str, str] = {
    "r_direction": _OF_DIRECTION,
    "r_magnitude_effective": f"{_OF_MAGNITUDE}, against a plain step of the same effective length",
    "r_magnitude": "the same against a plain step of the method's own learning rate",
    "r_direction_star": f"{_OF_DIRECTION}; the split that turns first and shortens after",
    "r_magnitude_star": f"{_OF_MAGNITUDE}; the split that turns first and shortens after",
    "r_noise": "excess risk of this step from noise, nats",
    "r_clip": "excess risk of this step from clipping, in closed form, nats",
    "r_clip_batches": "the same over the drawn batches, nats",
    "angle_turned": "degrees by which clipping turns the batch's gradient away from the group's",
    "cos_before": "cosine of the group's gradient and the batch's",
    "cos_after": "cosine of the group's gradient and the processed batch's",
    "clipped_share": "share of the group's records that are clipped",
    "excess_norm": "mean length that clipping takes from a record of the group",
    "norm_group_mean": "norm of the group's mean gradient",
    "mean_gradient_norm": "mean norm of the group's record gradients",
    "mean_loss": "mean loss of the group, nats",
    "mean_closeness": "boundary proximity, 1 - sum p^2",
    "mean_input_norm": "mean norm of the group's inputs",
    "mean_trace": "mean trace of a record's Hessian, as the correlations take it",
    "hessian_trace": "trace of the group's Hessian",
    "eigenvalue_largest": "largest eigenvalue of the group's Hessian",
    "eigenvalue_smallest": "smallest eigenvalue of the group's Hessian",
    "noise_norm": "length of the noise on a mean over the group's part of a batch",
    "shrinkage": "length of the processed batch's gradient over the plain one's",
    "cos_batch": "cosine of the batch's gradient before and after",
    "batches": "batches drawn at this step",
}
_OVER_BATCHES = "standard error over the drawn batches of one training, mean over seeds: "
ERRORS: Mapping[str, str] = {
    **{
        f"{name}_se": f"{_OVER_BATCHES}{name}"
        for name in SERIES
        if name.startswith("r_") and name != "r_noise"
    },
    "hessian_trace_se": "standard error over random probes of hessian_trace; 0 where it is exact",
}

_TRAN = "Tran et al. 2021, Thm 3 with Lemma 2 corrected"
# bound -> (the quantity it bounds, name, source)
BOUNDS: Mapping[str, tuple[str, str, str]] = {
    "bound_direction": ("r_direction", "Prop. 3", "Esipova et al. 2023, Prop. 3"),
    "bound_direction_convex": ("r_direction", "Prop. 3, any step", "Esipova et al. 2023, Prop. 3"),
    "bound_direction_star": (
        "r_direction_star",
        "Prop. 3*",
        "Esipova et al. 2023, Prop. 3*, last term corrected",
    ),
    "bound_direction_star_convex": (
        "r_direction_star",
        "Prop. 3*, any step",
        "Esipova et al. 2023, Prop. 3*, last term corrected",
    ),
    "bound_clip": ("r_clip", "Thm 3", _TRAN),
    "bound_clip_printed": ("r_clip", "Thm 3 as printed", "Tran et al. 2021, Thm 3"),
    "bound_clip_convex": ("r_clip", "Thm 3, any step", _TRAN),
}
