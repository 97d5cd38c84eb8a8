"""The exact minimiser of L2-regularised logistic regression: damped Newton in float64, R problems at once.

    J_r(theta) = (1/n_r) sum_i w_ri sum_c t_ric loss_c(theta; x_ri) + (lambda/2) |theta|^2

The constant input, where there is one, is penalised like the others: J is lambda-strongly convex only
then, and both the sensitivity of the minimiser and the theorems on students need that.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from fairaudit.errors import TrainingError

TOLERANCE = 1e-10  # on the gradient's norm: the minimiser is at most TOLERANCE / lambda away
MOST_PARAMETERS = 4096  # of one problem: the Hessian is formed
_ROUNDS = 200
_HALVINGS = 40
_CHUNK_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True)
class LogisticProblems:
    """R regressions of Y classes on d inputs.

    Args:
        features: [R, n, d] float64, or [n, d] that all problems share.
        targets: [R, n, Y] float64, the weight of each class's loss; a row need not sum to 1.
        penalty: lambda.
        divisor: What each sum of losses is divided by, [R]; a public constant where the solution
            is to be released. None: the number of records with a weight.
        weights: [R, n], 0 for padding; None: every record counts.
    """

    features: Tensor
    targets: Tensor
    penalty: float
    divisor: Tensor | None = None
    weights: Tensor | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Of one solution: rows, one for two classes and one per class for more; columns d."""
        classes = self.targets.shape[-1]
        return (1 if classes == 2 else classes), self.features.shape[-1]

    def part(self, rows: Tensor) -> "LogisticProblems":
        """The problems of those indices."""
        features = self.features if self.features.dim() == 2 else self.features[rows]
        divisor = None if self.divisor is None else self.divisor[rows]
        weights = None if self.weights is None else self.weights[rows]
        return LogisticProblems(features, self.targets[rows], self.penalty, divisor, weights)


def minimise(problems: LogisticProblems, start: Tensor | None = None) -> Tensor:
    """The minimiser of every problem.

    Args:
        problems: R of them. start: [R, H, d] to start from, zero by default.

    Returns:
        [R, H, d] float64; H is 1 for two classes (the score of class 1) and Y for more.

    Raises:
        TrainingError: A gradient's norm stays above TOLERANCE; nothing may be released then.
    """
    replicates = len(problems.targets)
    height, width = problems.shape
    if height * width > MOST_PARAMETERS:
        raise TrainingError(
            f"an exact minimiser of {height * width:,} parameters, above the {MOST_PARAMETERS:,} supported",
            hint="drop columns, or raise --merge-rare",
        )
    found = problems.targets.new_zeros(replicates, height, width) if start is None else start.clone()
    size = 8 * problems.targets.shape[1] * (width + 4 * problems.targets.shape[2])
    at_once = max(1, _CHUNK_BYTES // max(1, size))
    for rows in torch.split(torch.arange(replicates), at_once):
        found[rows] = _newton(_normalised(problems.part(rows)), found[rows])
    return found


def scores(features: Tensor, theta: Tensor) -> Tensor:
    """Logits [R, n, Y] of features [(R,) n, d] under solutions [R, H, d]; class 0 scores 0 where H is 1."""
    found = torch.matmul(features, theta.mT)
    return torch.cat((torch.zeros_like(found), found), -1) if theta.shape[-2] == 1 else found


def losses(logits: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy of every record, nats: logits and targets [..., Y] -> [...]."""
    return -(torch.log_softmax(logits, -1) * targets).sum(-1)


def hessian_traces(features: Tensor, theta: Tensor) -> Tensor:
    """Trace of every record's Hessian, [R, n]: p (1 - p) |x|^2, or (1 - sum p^2) |x|^2.

    Source: METHODS 3e, 6.5.
    """
    p = torch.softmax(scores(features, theta), -1)
    spread = p[..., 0] * p[..., 1] if theta.shape[-2] == 1 else 1.0 - p.square().sum(-1)
    return spread * features.square().sum(-1)


def _normalised(problems: LogisticProblems) -> LogisticProblems:
    """With targets that carry weight and divisor: J is a plain sum over records then."""
    targets = problems.targets
    count = torch.full((len(targets),), float(targets.shape[1]), dtype=targets.dtype)
    if problems.weights is not None:
        targets = targets * problems.weights.unsqueeze(-1)
        count = problems.weights.sum(1)
    divisor = count if problems.divisor is None else problems.divisor
    targets = targets / divisor.clamp_min(1.0)[:, None, None]
    return LogisticProblems(problems.features, targets, problems.penalty)


def _newton(problems: LogisticProblems, theta: Tensor) -> Tensor:
    """Newton steps, halved until the gradient is shorter.

    Its norm is a merit function as good as J (J is strongly convex), and unlike J it still tells better
    from worse at the last digits.
    """
    open_ = torch.arange(len(theta))
    norm = _gradient(problems, theta).flatten(1).norm(dim=1)
    for _ in range(_ROUNDS):
        open_ = open_[norm[open_] > TOLERANCE]
        if not len(open_):
            return theta
        part, here = problems.part(open_), theta[open_]
        step = _step(part, here)
        reach = torch.ones(len(open_), dtype=theta.dtype)
        for _ in range(_HALVINGS):
            there = here - reach[:, None, None] * step
            length = _gradient(part, there).flatten(1).norm(dim=1)
            worse = ~(length <= (1.0 - 1e-4 * reach) * norm[open_]) & (reach > 0)
            if not worse.any():
                break
            reach = torch.where(worse, reach / 2, reach)
        theta[open_], norm[open_] = there, length
    raise TrainingError(
        f"the exact minimiser was not reached: gradient norm {float(norm.max()):.1e} after {_ROUNDS} rounds",
        hint="use a larger penalty",
    )


def _gradient(problems: LogisticProblems, theta: Tensor) -> Tensor:
    """[R, H, d]."""
    residual = _residual(problems, theta)
    return torch.matmul(residual.mT, problems.features) + problems.penalty * theta


def _residual(problems: LogisticProblems, theta: Tensor) -> Tensor:
    """d loss / d logit of every record, [R, n, H]."""
    mass = problems.targets.sum(-1, keepdim=True)
    found = torch.matmul(problems.features, theta.mT)
    if theta.shape[-2] == 1:
        return mass * torch.sigmoid(found) - problems.targets[..., 1:]
    return mass * torch.softmax(found, -1) - problems.targets


def _step(problems: LogisticProblems, theta: Tensor) -> Tensor:
    """H^-1 gradient, [R, H, d]."""
    gradient = _gradient(problems, theta)
    steps = [
        _solve(_hessian(problems, theta, r), gradient[r].reshape(-1, 1)).view_as(gradient[r])
        for r in range(len(theta))
    ]
    return torch.stack(steps)


def _solve(hessian: Tensor, gradient: Tensor) -> Tensor:
    factor, failed = torch.linalg.cholesky_ex(hessian)
    if failed:  # targets of negative mass: the loss has no minimum, or none that Newton can promise
        raise TrainingError(
            "the regularised loss is not convex on these targets",
            hint="use a larger penalty, or projected labels",
        )
    return torch.cholesky_solve(gradient, factor)


def _hessian(problems: LogisticProblems, theta: Tensor, r: int) -> Tensor:
    """[H d, H d] of problem r."""
    x = problems.features if problems.features.dim() == 2 else problems.features[r]
    mass = problems.targets[r].sum(-1)
    found = x @ theta[r].T
    width = x.shape[1]
    if theta.shape[-2] == 1:
        p = torch.sigmoid(found[:, 0])
        hessian = (x * (mass * p * (1.0 - p)).unsqueeze(1)).T @ x
    else:
        p = torch.softmax(found, -1)
        classes = p.shape[1]
        hessian = x.new_empty(classes, width, classes, width)
        for a in range(classes):
            for b in range(a, classes):
                curvature = mass * (p[:, a] * (float(a == b) - p[:, b]))
                hessian[a, :, b] = (x * curvature.unsqueeze(1)).T @ x
                hessian[b, :, a] = hessian[a, :, b].T
        hessian = hessian.reshape(classes * width, classes * width)
    hessian.diagonal().add_(problems.penalty)
    return hessian
