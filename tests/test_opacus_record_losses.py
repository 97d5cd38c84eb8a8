"""No record reads another: PyTorch's losses with every shape of outputs, targets and weights.

A record's loss and its gradient must stay as they are when another record's output and target
change, and must be those that PyTorch gives for a batch of this record alone. What PyTorch itself
or the criterion refuses is left out, and how much remains is counted.
"""

import itertools
from collections import Counter

import pytest
import torch
from opacus_loops import BATCH, MODES, WIDTH, parameters, private, records, take
from torch import nn

from fairaudit.errors import FairauditError
from fairaudit.opacus.criterion import SingleLosses, is_known

pytestmark = [
    pytest.mark.filterwarnings("ignore:Using a target size"),  # PyTorch's own, of broadcasting
    pytest.mark.filterwarnings("ignore:reduction. 'mean' divides"),  # PyTorch's own, of KLDivLoss
    pytest.mark.filterwarnings("ignore:Full backward hook is firing"),
]
SIZES = [(2, 1), (3, 3), (4, 2)]  # records B, outputs of a record K
REDUCTIONS = ("mean", "sum", "none")


def drawn(*shape):
    return torch.rand(shape, dtype=torch.float64) * 0.8 + 0.1


def weights(batch, width, *, one_axis=False):
    """None, and weights of each shape that may be broadcast against a batch."""
    shapes = {(1,), (width,), (batch,)}
    if not one_axis:
        shapes |= {(), (1, width), (batch, 1), (batch, width)}
    return [None, *(drawn(*shape) for shape in sorted(shapes))]


def shapes_of(batch, width):
    """Shapes [B, ...] of outputs or targets: flat, columns, and with another axis of size B."""
    given = [
        (batch,),
        (batch, 1),
        (batch, width),
        (batch, batch),
        (batch, width, 2),
        (batch, 1, batch),
        (batch, width, batch),
        (batch, 2, 2, 2),
    ]
    return list(dict.fromkeys(given))


def none(*_):
    return [{}]


def weighted(batch, width):
    return [{"weight": each} for each in weights(batch, width)]


def with_logits(batch, width):
    both = [{"weight": each, "pos_weight": each} for each in weights(batch, width)]
    return both + [{"pos_weight": each} for each in weights(batch, width)]


def of_class(batch, width):
    return [
        {"weight": each, "ignore_index": ignored}
        for each in weights(batch, width, one_axis=True)
        for ignored in (-100, 0)
    ]


# Loss -> its arguments beside the reduction, of B records with outputs [B, K].
ARGUMENTS = {
    nn.BCELoss: weighted,
    nn.BCEWithLogitsLoss: with_logits,
    nn.CrossEntropyLoss: lambda *size: [
        {**each, "label_smoothing": smoothed} for each in of_class(*size) for smoothed in (0.0, 0.2)
    ],
    nn.HingeEmbeddingLoss: lambda *_: [{}, {"margin": 0.5}],
    nn.HuberLoss: lambda *_: [{}, {"delta": 0.3}],
    nn.KLDivLoss: lambda *_: [{"log_target": False}, {"log_target": True}],
    nn.L1Loss: none,
    nn.MSELoss: none,
    nn.MultiLabelMarginLoss: none,
    nn.MultiLabelSoftMarginLoss: lambda *size: [
        {"weight": each} for each in (*weights(*size, one_axis=True), drawn(*size))
    ],
    nn.MultiMarginLoss: lambda *size: [
        {"weight": each, "p": power} for each in weights(*size, one_axis=True) for power in (1, 2)
    ],
    nn.NLLLoss: of_class,
    nn.PoissonNLLLoss: lambda *_: [{}, {"log_input": False, "full": True}],
    nn.SmoothL1Loss: lambda *_: [{}, {"beta": 0.3}],
    nn.SoftMarginLoss: none,
}

# How many combinations of arguments and shapes remain at least, of all.
LEAST = {
    nn.BCELoss: 250,
    nn.BCEWithLogitsLoss: 500,
    nn.CrossEntropyLoss: 500,
    nn.HingeEmbeddingLoss: 900,
    nn.HuberLoss: 450,
    nn.KLDivLoss: 600,
    nn.L1Loss: 450,
    nn.MSELoss: 240,  # twice as many from PyTorch's versions that take integer targets
    nn.MultiLabelMarginLoss: 30,
    nn.MultiLabelSoftMarginLoss: 500,
    nn.MultiMarginLoss: 80,
    nn.NLLLoss: 150,
    nn.PoissonNLLLoss: 900,
    nn.SmoothL1Loss: 900,
    nn.SoftMarginLoss: 240,
}
# Those of which PyTorch takes no targets of another shape than the outputs.
OF_EQUAL_SHAPES = (nn.BCELoss, nn.BCEWithLogitsLoss, nn.MultiLabelMarginLoss)


def targets_of(shape, outputs, kind):
    """Drawn targets: shares, or classes that the outputs have."""
    if kind == "shares":
        return drawn(*shape)
    return torch.randint(outputs.shape[1] if outputs.dim() > 1 else 1, shape)


def admitted(loss_type, batch, width, every):
    """Criterion, outputs, targets and their kind, wherever PyTorch takes them.

    Of a criterion and the shape of its outputs every ``every``-th shape and kind of targets.
    """
    turn = itertools.count()
    reductions = (*REDUCTIONS, "batchmean") if loss_type is nn.KLDivLoss else REDUCTIONS
    for reduction, arguments in itertools.product(reductions, ARGUMENTS[loss_type](batch, width)):
        criterion = loss_type(reduction=reduction, **arguments)
        assert is_known(criterion)
        shapes = shapes_of(batch, width)
        for given, wanted, kind in itertools.product(shapes, shapes, ("shares", "classes")):
            if next(turn) % every:
                continue
            outputs = drawn(*given).requires_grad_()
            targets = targets_of(wanted, outputs, kind)
            try:
                criterion(outputs, targets).sum().backward()
            except (RuntimeError, ValueError, IndexError):
                continue
            yield criterion, outputs.detach(), targets, kind


def taken(criterion, outputs, targets):
    """Losses [B] and gradients [B, numbers of a record] of single records; None if refused."""
    try:
        values, gradients = SingleLosses(criterion, "mean")(
            outputs.clone().requires_grad_(), targets
        )
    except FairauditError:
        return None
    assert values.shape == outputs.shape[:1]
    assert gradients.shape == outputs.shape
    return values.nan_to_num(0.0), gradients.nan_to_num(0.0).view(len(values), -1)


def alone(criterion, output, target):
    """As :func:`taken`, of one record, by PyTorch on a batch of it; None if PyTorch refuses it."""
    leaf = output.unsqueeze(0).clone().requires_grad_()
    try:
        value = criterion(leaf, target.unsqueeze(0)).mean()
    except (RuntimeError, ValueError, IndexError):
        return None
    (gradient,) = torch.autograd.grad(value, leaf)
    return value.detach().nan_to_num(0.0), gradient.nan_to_num(0.0).flatten()


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("loss_type", ARGUMENTS, ids=lambda each: each.__name__)
def test_no_loss_of_a_record_reads_another(loss_type, every):
    torch.manual_seed(0)
    counts = Counter()
    for batch, width in SIZES:
        for criterion, outputs, targets, kind in admitted(loss_type, batch, width, every):
            before = taken(criterion, outputs, targets)
            if before is None:
                continue
            shapes = f"{criterion}, {tuple(outputs.shape)} and {kind} {tuple(targets.shape)}"
            changed = int(torch.randint(batch, ()))
            others = [i for i in range(batch) if i != changed]
            moved, renamed = outputs.clone(), targets.clone()
            moved[changed] = drawn(*outputs.shape[1:])
            renamed[changed] = targets_of(targets.shape, outputs, kind)[changed]
            after = taken(criterion, moved, renamed)
            assert after is not None, shapes
            for one, other in zip(before, after, strict=True):
                assert torch.allclose(one[others], other[others], rtol=1e-9), shapes
            counts["with equal shapes" if outputs.shape == targets.shape else "with others"] += 1
            expected = alone(criterion, outputs[changed], targets[changed])
            if expected is not None:
                for one, other in zip(before, expected, strict=True):
                    assert torch.allclose(one[changed], other), shapes
                counts["compared with a record alone"] += 1
    # A third of all may hold fewer than its share.
    least = LEAST[loss_type] if every == 1 else 0.8 * LEAST[loss_type] / every
    assert counts["with equal shapes"] + counts["with others"] >= least
    assert counts["compared with a record alone"] >= least
    assert bool(counts["with others"]) == (loss_type not in OF_EQUAL_SHAPES)


def test_every_loss_that_is_admitted_by_its_type_is_tried():
    known = {
        each
        for each in vars(nn).values()
        if isinstance(each, type) and each.__name__.endswith("Loss") and is_known(made(each))
    }
    assert known == set(ARGUMENTS) == set(LEAST)


def made(loss_type):
    """A loss by its defaults; one that needs arguments is none of those that are known."""
    try:
        return loss_type()
    except TypeError:
        return nn.Identity()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("loss_type", [nn.MultiLabelSoftMarginLoss, nn.SoftMarginLoss, nn.MSELoss])
def test_a_step_with_flat_targets_is_that_with_a_column(loss_type, mode):
    x, y, g = records()
    targets = (y > 0).float()
    one, other = (nn.Linear(WIDTH, 1) for _ in range(2))
    other.load_state_dict(one.state_dict())
    take(private("dpsgd", one, criterion=loss_type(), mode=mode), x, targets, g)
    take(private("dpsgd", other, criterion=loss_type(), mode=mode), x, targets.unsqueeze(1), g)
    torch.testing.assert_close(parameters(one), parameters(other), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", MODES)
def test_what_a_record_gives_to_a_step_reads_no_other_target(mode):
    """Noise is the same in both steps, so they differ by the changed record alone, at most 2 C."""
    x, y, g = records()
    one, other = (nn.Linear(WIDTH, 1) for _ in range(2))
    other.load_state_dict(one.state_dict())
    targets = torch.stack([(y > 0).float(), (y > 0).float()])
    targets[1, 0] = 1e6  # of one record
    for model, given in zip((one, other), targets, strict=True):
        loop = private("dpsgd", model, criterion=nn.MultiLabelSoftMarginLoss(), mode=mode, lr=1.0)
        take(loop, x, given, g)
    moved = float((parameters(one) - parameters(other)).norm())
    assert 0.0 < moved <= 2.0 / BATCH * (1 + 1e-4)  # the bound is 1
