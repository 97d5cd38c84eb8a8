"""From a released gradient to a step: post-processing, so no privacy cost (rule R9).

theta [R, P] are the parameters of R replicates, trained side by side.
"""

from abc import ABC, abstractmethod
from typing import ClassVar

from torch import Tensor


class Optimizer(ABC):
    """Moves theta in place along released gradients.

    Args:
        learning_rate: Step size; or one of each replicate, [R, 1].
    """

    is_proportional: ClassVar[bool] = True  # whether twice the gradients give twice the steps

    def __init__(self, learning_rate: float | Tensor) -> None:
        self.learning_rate = learning_rate

    @abstractmethod
    def step(self, theta: Tensor, gradient: Tensor) -> None:
        """Update theta [R, P] with the gradient [R, P]."""

    def _descend(self, theta: Tensor, direction: Tensor) -> None:
        """Subtract the learning rate times the direction [R, P] from theta, in place."""
        if isinstance(self.learning_rate, Tensor):
            theta.addcmul_(direction, self.learning_rate, value=-1.0)
        else:
            theta.add_(direction, alpha=-self.learning_rate)


class GradientDescent(Optimizer):
    """theta - lr * gradient."""

    def step(self, theta: Tensor, gradient: Tensor) -> None:
        """Subtract the learning rate times the gradient from theta ``[R, P]``, in place."""
        self._descend(theta, gradient)


class Momentum(Optimizer):
    """Heavy ball with factor 0.9, as in PyTorch (no dampening)."""

    factor = 0.9

    def __init__(self, learning_rate: float | Tensor) -> None:
        super().__init__(learning_rate)
        self._velocity: Tensor | None = None

    def step(self, theta: Tensor, gradient: Tensor) -> None:
        """Add the gradient ``[R, P]`` to the decayed velocity, and move theta along that."""
        if self._velocity is None:
            self._velocity = gradient.clone()
        else:
            self._velocity.mul_(self.factor).add_(gradient)
        self._descend(theta, self._velocity)


class Adam(Optimizer):
    """Adam with the usual constants (0.9, 0.999, 1e-8) and bias correction."""

    is_proportional = False
    decay = 0.9  # of the running mean of gradients, beta_1
    square_decay = 0.999  # of that of their squares, beta_2
    floor = 1e-8  # added to the root mean square

    def __init__(self, learning_rate: float | Tensor) -> None:
        super().__init__(learning_rate)
        self._mean: Tensor | None = None
        self._square: Tensor | None = None
        self._steps = 0

    def step(self, theta: Tensor, gradient: Tensor) -> None:
        """Move ``theta [R, P]`` by the bias-corrected mean gradient over the root mean square."""
        if self._mean is None or self._square is None:
            self._mean = gradient.new_zeros(gradient.shape)
            self._square = gradient.new_zeros(gradient.shape)
        self._steps += 1
        self._mean.lerp_(gradient, 1 - self.decay)
        self._square.mul_(self.square_decay).addcmul_(
            gradient, gradient, value=1 - self.square_decay
        )
        # Running means start at 0; what they are divided by corrects their bias towards it.
        square_weight = 1 - self.square_decay**self._steps
        mean_weight = 1 - self.decay**self._steps
        root = (self._square / square_weight).sqrt_().add_(self.floor)
        if isinstance(self.learning_rate, Tensor):
            theta.addcdiv_(self._mean * self.learning_rate, root, value=-1.0 / mean_weight)
        else:
            theta.addcdiv_(self._mean, root, value=-self.learning_rate / mean_weight)


OPTIMIZERS: dict[str, type[Optimizer]] = {
    "sgd": GradientDescent,
    "momentum": Momentum,
    "adam": Adam,
}
