"""From a released gradient to a step: post-processing, so no privacy cost (rule R9)."""

from abc import ABC, abstractmethod

from torch import Tensor

from fairaudit.errors import ConfigError


class Optimizer(ABC):
    """Moves theta in place along released gradients."""

    def __init__(self, learning_rate: float) -> None:
        self.learning_rate = learning_rate

    @abstractmethod
    def step(self, theta: Tensor, gradient: Tensor) -> None:
        """Update theta [R, P] with the gradient [R, P]."""


class GradientDescent(Optimizer):
    """theta - lr * gradient."""

    def step(self, theta: Tensor, gradient: Tensor) -> None:
        """Plain step."""
        theta.add_(gradient, alpha=-self.learning_rate)


class Momentum(Optimizer):
    """Heavy ball with factor 0.9, as in PyTorch (no dampening)."""

    factor = 0.9

    def __init__(self, learning_rate: float) -> None:
        super().__init__(learning_rate)
        self._velocity: Tensor | None = None

    def step(self, theta: Tensor, gradient: Tensor) -> None:
        """Accumulate, then step."""
        if self._velocity is None:
            self._velocity = gradient.clone()
        else:
            self._velocity.mul_(self.factor).add_(gradient)
        theta.add_(self._velocity, alpha=-self.learning_rate)


class Adam(Optimizer):
    """Adam with the usual constants (0.9, 0.999, 1e-8) and bias correction."""

    decay, square_decay, floor = 0.9, 0.999, 1e-8

    def __init__(self, learning_rate: float) -> None:
        super().__init__(learning_rate)
        self._mean: Tensor | None = None
        self._square: Tensor | None = None
        self._steps = 0

    def step(self, theta: Tensor, gradient: Tensor) -> None:
        """Step by the bias-corrected mean over the root of the mean square."""
        if self._mean is None or self._square is None:
            self._mean, self._square = gradient.new_zeros(gradient.shape), gradient.new_zeros(gradient.shape)
        self._steps += 1
        self._mean.lerp_(gradient, 1 - self.decay)
        self._square.mul_(self.square_decay).addcmul_(gradient, gradient, value=1 - self.square_decay)
        unbias = 1 - self.square_decay**self._steps
        scale = (self._square / unbias).sqrt_().add_(self.floor)
        theta.addcdiv_(self._mean, scale, value=-self.learning_rate / (1 - self.decay**self._steps))


OPTIMIZERS: dict[str, type[Optimizer]] = {"sgd": GradientDescent, "momentum": Momentum, "adam": Adam}


def make_optimizer(name: str, learning_rate: float) -> Optimizer:
    """The optimizer of that name.

    Raises:
        ConfigError: Unknown name.
    """
    if name not in OPTIMIZERS:
        raise ConfigError(f"unknown optimizer {name!r}", hint="use sgd, momentum or adam")
    return OPTIMIZERS[name](learning_rate)
