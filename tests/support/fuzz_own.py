"""Faults of users' own models: any error, anywhere, at any call.

And what the engine makes of them.
"""

import random

import torch
from torch import nn
from torch.nn import functional as F

from fairaudit.engine.isolation import PerRecord, faults
from fairaudit.engine.pool import TrainingPool
from fairaudit.engine.replicates import check_model, stack, tape_of
from fairaudit.errors import FairauditError
from fairaudit.models.zoo import check_outputs, digest

WIDTH, CLASSES = 6, 2


class Unspeakable(Exception):
    def __str__(self):
        raise ValueError("no text")


ERRORS = (
    ValueError("two\nlines"),
    SystemExit(0),
    StopIteration(),
    RecursionError(),
    ArithmeticError("x" * 5000),
    Unspeakable(),
    ExceptionGroup("g", [ValueError("in")]),
)
OUTPUTS = (
    lambda out: None,
    lambda out: (out, out),
    lambda out: out[0],
    lambda out: out[:0],
    lambda out: out.long(),
    lambda out: out.double(),
    lambda out: out.detach(),
    lambda out: out * float("nan"),
    lambda out: out.to_sparse(),
)


CALLS = [0]  # of the model at hand


class Faulty(nn.Module):
    """Fails as it is told: at which call, where, and how."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self.inner, self.out = nn.Linear(WIDTH, 4), nn.Linear(4, CLASSES)
        self.plan = (
            rng.randrange(1, 30),
            rng.choice(("forward", "output", "backward", "write", "repr", "copy")),
        )
        self.error, self.change = rng.choice(ERRORS), rng.choice(OUTPUTS)
        self.calls = [0] if rng.random() < 0.1 else None
        CALLS[0] = 0

    def forward(self, x):
        at, where = self.plan
        CALLS[0] += 1
        if self.calls is not None:
            self.calls[0] += 1
        now = CALLS[0] >= at
        if now and where == "forward":
            raise self.error
        h = torch.tanh(self.inner(x))
        if now and where == "backward":
            h = Failing.apply(h, self)
        if now and where == "write":
            self.inner.weight.data.mul_(0.5)
        out = self.out(h)
        return self.change(out) if now and where == "output" else out

    def extra_repr(self):
        if self.plan[1] == "repr":
            raise self.error
        return ""

    def __deepcopy__(self, memo):
        if self.plan[1] == "copy":
            raise self.error
        other = Faulty(random.Random(0))
        other.__dict__.update({k: v for k, v in self.__dict__.items() if not k.startswith("_")})
        other.load_state_dict(self.state_dict())
        return other


class Failing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, h, model):
        ctx.model = model
        return h.clone()

    @staticmethod
    def backward(ctx, gradient):
        raise ctx.model.error


def run_case(seed: int) -> str:
    """What became of a model: "trained" or its error's class.

    All but a FairauditError goes through.
    """
    rng = random.Random(seed)
    torch.manual_seed(seed)
    x = torch.randn(12, WIDTH)
    pool = TrainingPool(
        x, torch.arange(12) % 2, torch.zeros(12, dtype=torch.int64), n_classes=2, n_groups=1
    )
    try:
        model = Faulty(rng)
        few = pool.gather(torch.arange(4), None).inputs
        if rng.random() < 0.5:
            check_model(model, few, CLASSES)
        network = stack([model])
        check_outputs("m:f", PerRecord(model), few, CLASSES)
        with faults():
            digest("fuzz_own:Faulty", model)
        tape = tape_of(network)
        with torch.inference_mode():
            for rows in ([0, 1, 2], [], list(range(12))):
                logits = tape.forward(x[rows])
                targets = F.one_hot(torch.arange(len(rows)) % 2, 2)
                norms = tape.backward(torch.softmax(logits, -1) - targets)
                assert torch.isfinite(norms).all()
                network.theta.sub_(tape.sums([torch.ones(1, len(rows))])[0], alpha=0.1)
        assert torch.isfinite(network.theta).all()
        network.probabilities(x)
    except FairauditError as error:
        if "\n" in str(error) or len(str(error)) > 1000 or error.exit_code not in (2, 4):
            raise AssertionError("no line that a user can act on") from error
        return type(error).__name__
    return "trained"
