"""The exact minimiser of L2-regularised logistic regression.

Damped Newton in float64, R problems at once.

    J_r(theta) = (1/n_r) sum_i sum_c t_ric loss_c(theta; x_ri) + (lambda/2) |theta|^2

Shapes: R problems, n records, d inputs, Y classes. A solution theta has H rows of d weights: H is 1
for two classes (the score of class 1; class 0 scores 0) and Y for more.

The constant input, where there is one, is penalised like the others: J is lambda-strongly convex
only then, and both the sensitivity of the minimiser and the theorems on students need that.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fairaudit.errors import TrainingError

TOLERANCE = 1e-10  # on the gradient's norm: the minimiser is at most TOLERANCE / lambda away
MOST_PARAMETERS = 4096  # of one problem: the Hessian is formed
_ROUNDS = 200  # of Newton steps, at most
_HALVINGS = 40  # of a step that does not shorten the gradient, at most
_PIECE_BYTES = 128 * 2**20  # of records in one pass
_ROWS_AT_ONCE = 4096  # in one pass


@dataclass(frozen=True, slots=True)
class LogisticProblems:
    """R regressions of Y classes on d inputs.

    Args:
        features: [R, n, d] float64, or [n, d] that all problems share.
        targets: [R, n, Y] float64, the weight of each class's loss; a row need not sum to 1.
        penalty: lambda.
        divisor: What each sum of losses is divided by; a public constant where the solution is to
            be released. None: the number of records.
    """

    features: Tensor
    targets: Tensor
    penalty: float
    divisor: float | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """(H, d), the shape of one problem's solution."""
        return n_heads(self.targets.shape[-1]), self.features.shape[-1]

    def pieces(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Inputs [(R,) m, d] and targets [R, m, Y] of the records, some at a time to save memory.

        The targets are divided by the divisor already, so that sums over all pieces are means.
        """
        records = self.targets.shape[1]
        divisor = records if self.divisor is None else self.divisor
        # Bytes of one record: its inputs, and about four tensors of the targets' size, R Y.
        size = 8 * (self.features.shape[-1] + 4 * self.targets[:, 0].numel())
        at_once = max(1, _PIECE_BYTES // size)
        for start in range(0, records, at_once):
            piece = slice(start, start + at_once)
            # The divisor is a number of records, so ``max`` changes only a divisor of 0.
            yield self.features[..., piece, :], self.targets[:, piece] / max(divisor, 1.0)

    def part(self, rows: Tensor) -> "LogisticProblems":
        """The problems with the indices ``rows`` [r], to go on with the unsolved ones alone."""
        shares_features = self.features.dim() == 2
        features = self.features if shares_features else self.features[rows]
        return replace(self, features=features, targets=self.targets[rows])

    def gradient(self, theta: Tensor) -> Tensor:
        """Gradient of each problem's penalised loss J at ``theta`` [R, H, d], of the same shape.

        It is lambda theta + sum_i (m_i p_i - t_i) x_i^T, where p_i are the probabilities of the
        classes, t_i the targets over the divisor, and m_i, the mass, is the sum of t_i
        over classes.
        """
        total = self.penalty * theta
        for features, targets in self.pieces():
            mass = targets.sum(-1, keepdim=True)
            logits = torch.matmul(features, theta.mT)
            if theta.shape[-2] == 1:  # two classes: the score, and the target, of class 1 alone
                residual = mass * torch.sigmoid(logits) - targets[..., 1:]
            else:
                residual = mass * torch.softmax(logits, -1) - targets
            total = torch.matmul(residual.mT, features) + total
        return total

    def newton_step(self, theta: Tensor, gradient: Tensor) -> Tensor:
        """The Newton step of each problem: inverse Hessian at theta times gradient, [R, H, d].

        Args:
            theta: Where the step begins, [R, H, d].
            gradient: As :meth:`gradient` gives it there, [R, H, d].

        Raises:
            TrainingError: A Hessian is not positive definite, so the loss is not convex.
        """
        steps = []
        for r, slope in enumerate(gradient):  # one Hessian [H d, H d] in memory at a time
            hessian = theta.new_zeros(slope.numel(), slope.numel())
            for features, targets in self.pieces():
                x = features if features.dim() == 2 else features[r]
                hessian += _curvature(x, targets[r].sum(-1), theta[r])
            hessian.diagonal().add_(self.penalty)
            factor, failed = torch.linalg.cholesky_ex(hessian)
            if failed:  # as with targets of negative mass, whose loss may have no minimum
                raise TrainingError(
                    "the regularised loss is not convex on these targets",
                    hint="use a larger penalty, or projected labels",
                )
            steps.append(torch.cholesky_solve(slope.reshape(-1, 1), factor).view_as(slope))
        return torch.stack(steps)


def n_heads(n_classes: int) -> int:
    """H, the rows of weights of a linear model: two classes share one score, that of class 1."""
    return 1 if n_classes == 2 else n_classes


def minimise(problems: LogisticProblems, start: Tensor | None = None) -> Tensor:
    """The minimiser of every problem: Newton steps, halved until the gradient is shorter.

    The norm of the gradient decides whether a step is better, and not J. It serves as well, as J is
    strongly convex, and unlike J it still tells better from worse at the last digits.

    Args:
        problems: R of them.
        start: [R, H, d] to start from, zero by default.

    Returns:
        The minimisers, [R, H, d] float64.

    Raises:
        TrainingError: Too many parameters; a loss that is not convex; or a gradient's norm stays
            above TOLERANCE, and nothing may be released, as sensitivity is that of the minimiser.
    """
    height, width = problems.shape
    if height * width > MOST_PARAMETERS:
        raise TrainingError(
            f"an exact minimiser of {height * width:,} parameters, above the {MOST_PARAMETERS:,} "
            "supported",
            hint="drop columns, or raise --merge-rare",
        )
    if start is None:
        start = torch.zeros(len(problems.targets), height, width, dtype=torch.float64)
    theta = start.clone()
    unsolved = torch.arange(len(theta))  # indices of problems
    gradient = problems.gradient(theta)
    norm = gradient.flatten(1).norm(dim=1)
    for number in range(_ROUNDS + 1):  # the last one makes no step: it looks at what was reached
        unsolved = unsolved[~(norm[unsolved] <= TOLERANCE)]  # "not <=": NaN is no solution
        if not len(unsolved):
            return theta
        if number == _ROUNDS:
            break
        part = problems.part(unsolved)
        point = theta[unsolved]
        step = part.newton_step(point, gradient[unsolved])
        fraction = torch.ones(len(unsolved), dtype=theta.dtype)  # of its step that each one takes
        # Each problem's step is halved until its gradient is shorter, by at least 1e-4 of the
        # fraction; after the last halving it is taken as it is, and the next round begins there.
        for _ in range(_HALVINGS):
            next_point = point - fraction[:, None, None] * step
            next_gradient = part.gradient(next_point)
            next_norm = next_gradient.flatten(1).norm(dim=1)
            # "not <=": a norm that is not finite is worse, too.
            worse = ~(next_norm <= (1.0 - 1e-4 * fraction) * norm[unsolved])
            if not worse.any():
                break
            fraction = torch.where(worse, fraction / 2, fraction)
        theta[unsolved] = next_point
        gradient[unsolved] = next_gradient
        norm[unsolved] = next_norm
    raise TrainingError(
        f"the exact minimiser was not reached: gradient norm {float(norm.max()):.1e} after "
        f"{_ROUNDS} rounds",
        hint="use a larger penalty",
    )


def scores(features: Tensor, theta: Tensor) -> Tensor:
    """Logits [R, n, Y] of features [R, n, d], or [n, d] for all, under solutions [R, H, d].

    Where H is 1 there are two classes, and class 0 scores 0.
    """
    logits = torch.matmul(features, theta.mT)
    if theta.shape[-2] == 1:
        return torch.cat((torch.zeros_like(logits), logits), -1)
    return logits


def losses(logits: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy of every record, nats: logits and targets [..., Y] -> [...]."""
    return -(torch.log_softmax(logits, -1) * targets).sum(-1)


def hessian_traces(features: Tensor, theta: Tensor) -> Tensor:
    """Trace of the Hessian of every record's loss, [R, n], at solutions [R, H, d].

    With p the probabilities of a record's classes it is p_0 p_1 |x|^2 for two classes and
    (1 - sum p^2) |x|^2 for more; features are [R, n, d], or [n, d] for all problems.
    Source: docs/methods.md 4.3, 8.6.
    """
    p = torch.softmax(scores(features, theta), -1)
    if theta.shape[-2] == 1:
        variance = p[..., 0] * p[..., 1]
    else:
        variance = 1.0 - p.square().sum(-1)
    return variance * features.square().sum(-1)


def _curvature(x: Tensor, mass: Tensor, theta: Tensor) -> Tensor:
    """Hessian of some records' losses, without the penalty, for one problem: [H d, H d].

    Its block [d, d] of two classes a, b is sum_i m_i p_ia (1[a = b] - p_ib) x_i x_i^T, where p are
    probabilities and m is the mass; for two classes it is one block, sum_i m_i p_i (1 - p_i) x_i
    x_i^T.

    Args:
        x: Inputs, [n, d].
        mass: Weight of each record, the sum of its targets over classes, [n].
        theta: Where it is taken, [H, d].
    """
    logits = x @ theta.T
    if len(theta) == 1:
        p = torch.sigmoid(logits[:, 0])
        return (x * (mass * p * (1.0 - p)).unsqueeze(1)).T @ x
    p = torch.softmax(logits, -1)
    classes, width = theta.shape
    hessian = x.new_empty(classes, width, classes, width)
    for a in range(classes):
        for b in range(a, classes):  # the other half is its mirror image
            curvature = mass * (p[:, a] * (float(a == b) - p[:, b]))
            hessian[a, :, b] = (x * curvature.unsqueeze(1)).T @ x
            hessian[b, :, a] = hessian[a, :, b].T
    return hessian.reshape(classes * width, classes * width)


@dataclass(frozen=True, slots=True)
class BoundedInputs:
    """Makes inputs of norm at most ``sqrt(norm^2 + intercept^2)``: clips, then appends a constant.

    Appending first would scale each record's constant by its own norm; clipping to the norm and
    then claiming it of the longer row would under-noise by up to 41 %. Source: docs/methods.md 4.2.

    Args:
        norm: The clipping bound, or infinity for no clipping.
        intercept: b, the constant; 0 for none.
        means, deviations: Of each group [K, d], subtracted and divided by before clipping; both
            None to leave inputs as they are.
    """

    norm: float
    intercept: float = 1.0
    means: Tensor | None = None
    deviations: Tensor | None = None

    def __call__(self, features: Tensor, groups: Tensor) -> Tensor:
        """Bounded inputs of records, [n, d] or with the constant [n, d + 1], float64.

        A record with a value that is not finite has zeros in place of its own inputs.

        Args:
            features: Inputs of the records, [n, d].
            groups: Their groups, [n]; read only where there are means.
        """
        width = features.shape[1]
        columns = width + 1 if self.intercept != 0.0 else width
        # Filled with the constant, which stays in the last column.
        out = features.new_full((len(features), columns), self.intercept, dtype=torch.float64)
        for start in range(0, len(features), _ROWS_AT_ONCE):
            piece = slice(start, start + _ROWS_AT_ONCE)
            out[piece, :width] = features[piece]
            self._clip(out[piece, :width], groups[piece])  # a view, so ``out`` is changed
        return out

    def _clip(self, x: Tensor, groups: Tensor) -> None:
        """Standardise rows ``[n, d]`` by group and clip each to the norm bound, in place."""
        lengths = x.norm(dim=1, keepdim=True)  # [n, 1], finite where the row is
        not_finite = ~torch.isfinite(lengths[:, 0])
        if not_finite.any():  # such a row becomes zeros, which keep the bound
            x[not_finite] = 0.0
            lengths[not_finite] = 0.0
        if self.means is not None and self.deviations is not None:
            x -= self.means[groups]
            x /= self.deviations[groups]
            lengths = x.norm(dim=1, keepdim=True)
        # 1e-12 keeps the row within the bound after rounding (rule R7, docs/methods.md 1.3). For
        # a row of zeros the quotient is infinite, and its factor 1.
        x *= torch.clamp(self.norm / (lengths * (1.0 + 1e-12)), max=1.0)


@dataclass(frozen=True, slots=True)
class LogisticModels:
    """R trained logistic regressions.

    Args:
        weights: [R, H, d] float64.
        inputs: Bounds the inputs of a record before the models read them.
    """

    weights: Tensor
    inputs: BoundedInputs

    @property
    def theta(self) -> Tensor:
        """All parameters of each model, [R, P]."""
        return self.weights.flatten(1)

    @property
    def n_parameters(self) -> int:
        """P, the parameters of one model."""
        return self.theta.shape[1]

    def probabilities(self, features: Tensor, groups: Tensor) -> Tensor:
        """Class probabilities [R, n, Y], float32, of records [n, d] of ``groups`` [n]."""
        parts = []
        # At least one part, an empty one where there are no records, to be concatenated.
        for start in range(0, max(len(features), 1), _ROWS_AT_ONCE):
            rows = slice(start, start + _ROWS_AT_ONCE)
            logits = scores(self.inputs(features[rows], groups[rows]), self.weights)
            parts.append(torch.softmax(logits, -1).float())
        return torch.cat(parts, 1)
