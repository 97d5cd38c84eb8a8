"""Layers in a private loop: gradients are those of single records, and mixing is refused."""

import copy
import pickle
from contextlib import nullcontext

import opacus
import pytest
import torch
from opacus.layers import DPGRU, DPLSTM, DPMultiheadAttention
from opacus_loops import CLASSES, MODES, WIDTH, parameters, private, records, take
from own_models import seeded_module
from torch import nn
from torch.ao.quantization import FakeQuantize, MinMaxObserver, MovingAverageMinMaxObserver
from torch.nn.utils import parametrizations, prune

from fairaudit.engine.small_layers import ChannelsFirst
from fairaudit.errors import ConfigError, FairauditError, TrainingError
from fairaudit.opacus.admitted import ADMITTED, not_admitted
from fairaudit.opacus.wrapped import HookedModel

pytestmark = [
    pytest.mark.filterwarnings("ignore:Full backward hook is firing"),
    pytest.mark.filterwarnings("ignore:.torch.jit.script_method. is deprecated"),
    pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel"),
    # Of embeddings under Opacus' functorch, whose inputs are whole numbers.
    pytest.mark.filterwarnings("ignore:In CPU autocast"),
]
B, BOUND = 7, 0.05
CONDITIONAL = "established if model and criterion treat records one by one and keep nothing of them"
TOKENS = torch.tensor(
    [
        [0, 0, 1, 2],
        [0, 3, 3, 3],
        [1, 1, 0, 0],
        [5, 6, 0, 1],
        [2, 2, 2, 2],
        [0, 0, 0, 0],
        [6, 5, 4, 3],
    ]
)


@pytest.fixture(autouse=True)
def quick_plan(monkeypatch):
    """What a plan says of its epsilon takes seconds, and no test here asks."""
    monkeypatch.setattr("fairaudit.planning.guarantees.epsilon", lambda *_: 1.0)


def numbers(*shape, seed=0):
    """Records of very different sizes."""
    x = torch.randn(B, *shape, generator=torch.Generator().manual_seed(seed))
    return x * torch.logspace(-1, 1, B).view(-1, *[1] * len(shape))


def fixed(layer):
    """A batch normalisation of a backbone: not trained, its statistics known."""
    layer.running_mean.uniform_(-1, 1)
    layer.running_var.uniform_(0.5, 2)
    return layer.requires_grad_(False).eval()


def last(inputs, outputs=CLASSES):
    """What makes outputs of a model's last numbers."""
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, outputs))


# A layer in a model that is established, and the records that it reads: with its parameters by
# themselves, or between others.
LAYERS = {
    "Linear": (lambda: nn.Linear(5, CLASSES), numbers(5)),
    "Linear without bias": (lambda: nn.Linear(5, CLASSES, bias=False), numbers(5)),
    "Conv1d": (
        lambda: nn.Sequential(nn.Conv1d(2, 3, 3, stride=2, padding=1), last(15)), numbers(2, 9)
    ),
    "Conv1d, same": (
        lambda: nn.Sequential(nn.Conv1d(2, 4, 4, padding="same", groups=2), last(36)), numbers(2, 9)
    ),
    "Conv1d, circular": (
        lambda: nn.Sequential(nn.Conv1d(2, 3, 3, padding=1, padding_mode="circular"), last(27)),
        numbers(2, 9),
    ),
    "Conv2d": (
        lambda: nn.Sequential(
            nn.Conv2d(2, 4, (3, 2), (2, 1), (1, 0), (1, 2), groups=2), last(80)
        ),
        numbers(2, 9, 6),
    ),
    "Conv2d, reflect": (
        lambda: nn.Sequential(nn.Conv2d(1, 2, 3, padding=1, padding_mode="reflect"), last(40)),
        numbers(1, 4, 5),
    ),
    "Conv3d": (
        lambda: nn.Sequential(nn.Conv3d(1, 2, 2, padding="same"), last(48)), numbers(1, 4, 2, 3)
    ),
    "ConvTranspose2d": (
        lambda: nn.Sequential(nn.ConvTranspose2d(2, 2, 3, stride=2), last(126)), numbers(2, 3, 4)
    ),
    "Embedding": (lambda: nn.Sequential(nn.Embedding(7, 3), last(12)), TOKENS),
    "Embedding of one token": (
        lambda: nn.Sequential(nn.Embedding(7, 3), nn.Linear(3, 3)), TOKENS[:, 3]
    ),
    "Embedding, padding": (
        lambda: nn.Sequential(nn.Embedding(7, 3, padding_idx=0), last(12)), TOKENS
    ),
    "Embedding, padding counted from the end": (
        lambda: nn.Sequential(nn.Embedding(7, 3, padding_idx=-6), last(12)), TOKENS
    ),
    "Embedding, pretrained": (
        lambda: nn.Sequential(
            nn.Embedding.from_pretrained(torch.randn(7, 3), freeze=False, padding_idx=1), last(12)
        ),
        TOKENS,
    ),
    "GroupNorm": (lambda: nn.Sequential(nn.GroupNorm(2, 4), last(36)), numbers(4, 3, 3)),
    "GroupNorm of rows": (lambda: nn.Sequential(nn.GroupNorm(2, 4), last(4)), numbers(4)),
    "LayerNorm": (lambda: nn.Sequential(nn.LayerNorm((3, 4)), last(24)), numbers(2, 3, 4)),
    "LayerNorm without bias": (
        lambda: nn.Sequential(nn.LayerNorm(4, bias=False), last(4)), numbers(4)
    ),
    "RMSNorm": (lambda: nn.Sequential(nn.RMSNorm(4, eps=0.1), last(12)), numbers(3, 4)),
    "InstanceNorm1d": (
        lambda: nn.Sequential(nn.InstanceNorm1d(2, affine=True), last(10)), numbers(2, 5)
    ),
    "PReLU": (lambda: nn.Sequential(nn.Linear(5, 4), nn.PReLU(4), nn.Linear(4, 3)), numbers(5)),
    "BatchNorm1d, fixed": (
        lambda: nn.Sequential(nn.Linear(5, 4), fixed(nn.BatchNorm1d(4)), nn.Linear(4, 3)),
        numbers(5),
    ),
    "BatchNorm2d, fixed": (
        lambda: nn.Sequential(nn.Conv2d(1, 2, 2), fixed(nn.BatchNorm2d(2)), nn.ReLU(), last(12)),
        numbers(1, 3, 4),
    ),
    "InstanceNorm2d, fixed": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 2, 2), fixed(nn.InstanceNorm2d(2, track_running_stats=True)), last(12)
        ),
        numbers(1, 3, 4),
    ),
    "pictures": (
        lambda: nn.Sequential(
            ChannelsFirst((6, 6, 1)), nn.ZeroPad2d(1), nn.Conv2d(1, 3, 3), nn.GroupNorm(3, 3),
            nn.GELU(), nn.MaxPool2d(2), nn.Upsample(scale_factor=2), nn.Softmax2d(),
            nn.AvgPool2d(2), nn.Dropout2d(0.0), nn.PixelShuffle(1), nn.LocalResponseNorm(2),
            nn.Unfold(2), last(48),
        ),
        numbers(6, 6, 1),
    ),
    "sequences": (
        lambda: nn.Sequential(
            nn.ConstantPad1d(1, 0.5), nn.GLU(-1), nn.LogSoftmax(2), nn.Unflatten(1, (1, 2)),
            nn.Flatten(1, 2), nn.LPPool1d(2, 2), nn.AdaptiveAvgPool1d(2), nn.Softmin(1), last(4),
        ),
        numbers(2, 6),
    ),
}  # fmt: skip


class OfSequence(nn.Module):
    """A user's own module, of which Opacus' recurrent layers and attention are parts."""

    def __init__(self, layer):
        super().__init__()
        self.layer, self.last = layer, nn.Linear(3, CLASSES)

    def forward(self, x):
        several = isinstance(self.layer, DPMultiheadAttention)
        return self.last((self.layer(x, x, x) if several else self.layer(x))[0].sum(1))


class Branches(nn.Module):
    """A user's own module, with a skip connection and a layer that is called twice."""

    def __init__(self):
        super().__init__()
        self.first, self.twice, self.last = nn.Linear(5, 5), nn.Linear(5, 5), nn.Linear(5, CLASSES)

    def forward(self, x):
        h = torch.tanh(self.first(x)) + x
        return self.last(self.twice(torch.tanh(self.twice(h))))


class Bare(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale, self.last = nn.Parameter(torch.ones(5)), nn.Linear(5, CLASSES)

    def forward(self, x):
        return self.last(torch.tanh(x * self.scale))


def tied():
    one, other = nn.LayerNorm(5), nn.LayerNorm(5)
    other.weight = one.weight
    return nn.Sequential(one, other, nn.Linear(5, CLASSES))


OWN = {
    "DPLSTM": (
        lambda: OfSequence(DPLSTM(4, 3, num_layers=2, batch_first=True)), numbers(6, 4)
    ),
    "DPGRU": (lambda: OfSequence(DPGRU(4, 3, batch_first=True)), numbers(6, 4)),
    "DPMultiheadAttention": (
        lambda: OfSequence(DPMultiheadAttention(3, 1, batch_first=True)), numbers(4, 3)
    ),
    "own forward": (Branches, numbers(5)),
    "own parameters": (Bare, numbers(5)),
    "a shared parameter": (tied, numbers(5)),
}  # fmt: skip
# Of these ghost clipping cannot take norms that are right.
NOT_BY_GHOST = {"DPMultiheadAttention", "own forward", "own parameters", "a shared parameter"}


def by_hand(model, x, y):
    """The sum of the records' gradients, each clipped to the bound: one backward pass for each."""
    trained = trained_of(model)
    total = 0.0
    for record, label in zip(x, y, strict=True):
        loss = nn.functional.cross_entropy(model(record.unsqueeze(0)), label.unsqueeze(0))
        row = torch.cat([g.flatten() for g in torch.autograd.grad(loss, trained)])
        total = total + row * min(1.0, BOUND / float(row.norm()))
    return total


def trained_of(model):
    return [p for p in model.parameters() if p.requires_grad]


def by_loop(model, x, y, mode):
    """The sum that a step follows, and the guarantee.

    It is the difference of two steps with equal noise: on the records, and on none.
    """
    ends = []
    for records_of in (slice(0, 0), slice(None)):
        own = copy.deepcopy(model)
        loop = private(
            "dpsgd", own, mode=mode, max_grad_norm=BOUND, batch=B, epochs=1,
            data=torch.utils.data.TensorDataset(x, y, y),
            inner=torch.optim.SGD(trained_of(own), lr=1.0),
        )  # fmt: skip
        take(loop, x[records_of], y[records_of], y[records_of])
        ends.append(torch.cat([p.detach().flatten() for p in trained_of(own)]))
    return (ends[0] - ends[1]) * B, loop[1].accountant.guarantee


LABELS = torch.arange(B) % CLASSES


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", LAYERS)
def test_an_admitted_layers_sum_is_that_of_single_records(name, mode):
    make, x = LAYERS[name]
    model = seeded_module(make, 5)
    expected = by_hand(copy.deepcopy(model), x, LABELS)
    found, guarantee = by_loop(model, x, LABELS, mode)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=2e-6)
    assert float(expected.norm()) > BOUND
    assert guarantee == "established"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", OWN)
def test_a_module_of_the_users_own_is_taken_by_single_records_or_refused(name, mode):
    make, x = OWN[name]
    model = seeded_module(make, 5)
    expected = by_hand(copy.deepcopy(model), x, LABELS)
    if mode == "ghost" and name in NOT_BY_GHOST:
        with pytest.raises(ConfigError, match="ghost clipping") as caught:
            by_loop(model, x, LABELS, mode)
        assert "'hooks'" in caught.value.hint
        return
    found, guarantee = by_loop(model, x, LABELS, mode)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=2e-6)
    assert guarantee == CONDITIONAL


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "name", ["Conv2d", "Embedding, padding", "LayerNorm", "BatchNorm2d, fixed"]
)
def test_a_batch_of_no_record_takes_a_step_of_noise(name, mode):
    make, x = LAYERS[name]
    model = seeded_module(make, 5)
    loop = private("dpsgd", model, mode=mode, inner=torch.optim.SGD(
        [p for p in model.parameters() if p.requires_grad], lr=1.0
    ))  # fmt: skip
    for rows in (slice(0, 0), slice(0, 1), slice(0, 0)):
        before = parameters(model)
        take(loop, x[rows], LABELS[rows], LABELS[rows])
        assert not torch.equal(before, parameters(model))
    assert loop[1].accountant.steps == 3


def test_every_type_of_the_table_is_pytorchs_or_opacus_own():
    for kind in ADMITTED:
        assert kind is ChannelsFirst or kind.__module__.startswith(("torch.nn.modules.", "opacus."))


# Layers that would take the axis of the records for another, and records that they read.
MIXING = {
    "LogSoftmax(0)": (lambda: nn.Sequential(nn.Linear(5, 3), nn.LogSoftmax(0)), numbers(5)),
    "Softmax(-2)": (lambda: nn.Sequential(nn.Linear(5, 3), nn.Softmax(-2)), numbers(5)),
    "Softmax()": (
        lambda: nn.Sequential(nn.Conv1d(2, 3, 9), nn.Softmax(), nn.Flatten()), numbers(2, 9)
    ),
    "Softmin(0)": (lambda: nn.Sequential(nn.Softmin(0), nn.Linear(5, 3)), numbers(5)),
    "Flatten(0)": (
        lambda: nn.Sequential(nn.Flatten(0), nn.Unflatten(0, (-1, 5)), nn.Linear(5, 3)), numbers(5)
    ),
    "Conv2d of one picture": (
        lambda: nn.Sequential(nn.Conv2d(B, B, 3, padding=1), nn.Flatten(), nn.Linear(20, 3)),
        numbers(4, 5),
    ),
    "Conv1d of one sequence": (
        lambda: nn.Sequential(nn.Conv1d(B, B, 1), nn.Linear(5, 3)), numbers(5)
    ),
    "MaxPool1d of one sequence": (
        lambda: nn.Sequential(nn.MaxPool1d(2), nn.Linear(2, 3)), numbers(5)
    ),
    "ConstantPad2d of rows": (
        lambda: nn.Sequential(nn.ConstantPad2d((0, 0, 1, -1), 0.0), nn.Linear(5, 3)), numbers(5)
    ),
    "InstanceNorm1d of one sequence": (
        lambda: nn.Sequential(nn.InstanceNorm1d(B), nn.Linear(5, 3)), numbers(5)
    ),
    "LayerNorm over all": (
        lambda: nn.Sequential(nn.LayerNorm((B, 5)), nn.Linear(5, 3)), numbers(5)
    ),
    "GLU over records": (
        lambda: nn.Sequential(nn.GLU(0), nn.Linear(5, 3)), torch.cat([numbers(5), numbers(5)])
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:Implicit dimension choice")
@pytest.mark.parametrize("by_itself", [None, "eval"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", MIXING)
def test_a_layer_over_the_axis_of_the_records_is_refused(name, mode, by_itself):
    make, x = MIXING[name]
    model = seeded_module(make, 5)
    if by_itself == "eval":  # its mode does not matter
        for part in model:
            part.train(bool(list(part.parameters())))
    loop = private("dpsgd", model, mode=mode)
    assert list(not_admitted(seeded_module(make, 5))) == []
    before = parameters(model)
    with pytest.raises(TrainingError, match="mixes records") as caught:
        loop[0](x)
    assert any(type(part).__name__ in str(caught.value) for part in model)
    assert torch.equal(before, parameters(model))


def test_the_same_in_a_module_of_the_users_own_is_its_condition():
    """There the first axis may be another: it lays out its sequences as [T, B, d]."""

    class TimeFirst(nn.Module):
        def __init__(self):
            super().__init__()
            self.last, self.over_time = nn.Linear(5, CLASSES), nn.Softmax(0)

        def forward(self, x):
            return self.last(self.over_time(x.transpose(0, 1)).sum(0))

    model, x = seeded_module(TimeFirst, 5), numbers(4, 5)
    expected = by_hand(copy.deepcopy(model), x, LABELS)
    found, guarantee = by_loop(model, x, LABELS, "hooks")
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=2e-6)
    assert guarantee == CONDITIONAL


class Centred(nn.Module):
    """Mixes the records of a batch."""

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(5, CLASSES)

    def mixed(self, x):
        return x - x.mean(0)

    def forward(self, x):
        return self.last(self.mixed(x))


class ByTheLargest(Centred):
    def mixed(self, x):
        return x / x.detach().abs().max()


class Functional(Centred):
    def mixed(self, x):
        return nn.functional.batch_norm(x, None, None, training=True)


class CentredOutputs(Centred):
    def forward(self, x):
        outputs = self.last(x)
        return outputs - outputs.mean(0)


class SequenceFirst(Centred):
    """A layer that takes the records for positions."""

    def __init__(self):
        super().__init__()
        self.layer, self.last = DPLSTM(5, 5), nn.Linear(5, CLASSES)

    def mixed(self, x):
        return self.layer(x)[0].sum(1)


class WithDropout(Centred):
    """Draws in its own forward while it trains."""

    def mixed(self, x):
        return nn.functional.dropout(x - x.mean(0), 0.5, self.training)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "make", [Centred, ByTheLargest, Functional, CentredOutputs, SequenceFirst, WithDropout]
)
def test_a_model_of_the_users_own_that_mixes_is_found(make, mode):
    model = seeded_module(make, 5)
    x = numbers(4, 5) if make is SequenceFirst else numbers(5)
    loop = private("dpsgd", model, mode=mode)
    state, before = torch.get_rng_state(), parameters(model)
    with pytest.raises(TrainingError, match=r"together|alone") as caught:
        loop[0](x)
    assert "\n" not in str(caught.value)
    assert torch.equal(before, parameters(model))
    if make is not WithDropout:
        assert torch.equal(state, torch.get_rng_state())


class Told(nn.Module):
    """Has parameters of its own, so that Opacus runs it once more by itself, with one input."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(5))

    def forward(self, x, power=1):
        return x * self.scale**power


class Telling(nn.Module):
    def __init__(self, power):
        super().__init__()
        self.power, self.told, self.last = power, Told(), nn.Linear(5, CLASSES)

    def forward(self, x):
        return self.last(torch.tanh(self.told(x, power=self.power)))


@pytest.mark.parametrize("mode", ["hooks", "functorch"])
@pytest.mark.parametrize("power", [1, 3])
def test_gradients_that_opacus_takes_otherwise_are_found(power, mode):
    """The outputs are those of single records."""
    loop = private("dpsgd", seeded_module(lambda: Telling(power), 5), mode=mode)
    wrong = pytest.raises(TrainingError, match="Opacus does not see all")
    with wrong if power > 1 else nullcontext():
        loop[0](numbers(5))


@pytest.mark.parametrize("mode", ["hooks", "ghost"])
def test_a_formula_of_opacus_that_is_wrong_is_found(mode, monkeypatch):
    """It gives each record the gradient of another one."""
    make, x = LAYERS["LayerNorm"]
    private("dpsgd", seeded_module(make, 5), mode=mode)[0](x)
    samplers = HookedModel.GRAD_SAMPLERS
    right = samplers[nn.LayerNorm]

    def shifted(layer, activations, backprops):
        return {p: rows.roll(1, 0) for p, rows in right(layer, activations, backprops).items()}

    monkeypatch.setitem(samplers, nn.LayerNorm, shifted)
    with pytest.raises(TrainingError, match="Opacus does not see all"):
        private("dpsgd", seeded_module(make, 5), mode=mode)[0](x)


class WithNoise(Centred):
    """Honest, but draws whatever its mode is."""

    def mixed(self, x):
        return x + torch.randn_like(x)


class Careful(Centred):
    """Honest, with dropout of its own."""

    def mixed(self, x):
        return nn.functional.dropout(x, 0.5, self.training)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("make", [WithNoise, Careful])
def test_draws_are_not_mistaken_for_mixing(make, mode):
    loop = private("dpsgd", seeded_module(make, 5), mode=mode)
    torch.manual_seed(0)
    take(loop, numbers(5), LABELS, LABELS)
    drawn = torch.get_rng_state()
    torch.manual_seed(0)
    seeded_module(make, 5).mixed(numbers(5))
    assert torch.equal(drawn, torch.get_rng_state())  # the comparison left no trace


class Elsewhere(nn.Module):
    """Reads a layer's weight outside of that layer."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(5, 5), nn.Linear(5, CLASSES)

    def forward(self, x):
        return self.last(torch.tanh(self.first(x)) @ self.first.weight)


class Positions(nn.Module):
    """Adds an embedding of positions, which no record's gradient can be told of."""

    def __init__(self):
        super().__init__()
        self.places, self.last = nn.Embedding(4, 3), nn.Linear(12, CLASSES)

    def forward(self, x):
        return self.last((x + self.places(torch.arange(4))).flatten(1))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("make", "x"), [(Elsewhere, numbers(5)), (Positions, numbers(4, 3))], ids=["read", "added"]
)
def test_what_opacus_does_not_see_of_a_parameter_is_refused(make, x, mode):
    model = seeded_module(make, 5)
    before = parameters(model)
    with pytest.raises(FairauditError) as caught:
        by_loop(model, x, LABELS, mode)
    assert "\n" not in str(caught.value)
    assert torch.equal(before, parameters(model))


@pytest.mark.parametrize("mode", MODES)
def test_one_record_cannot_be_compared_and_the_next_batch_is(mode):
    loop = private("dpsgd", seeded_module(Centred, 5), mode=mode)
    x = numbers(5)
    take(loop, x[:1], LABELS[:1], LABELS[:1])
    with pytest.raises(TrainingError, match="together"):
        loop[0](x[:2])


def with_weight_norm():
    with pytest.warns(FutureWarning):
        return torch.nn.utils.weight_norm(nn.Linear(5, 3))


def compiled(layer):
    layer.compile()
    return layer


def of_a_normalisation(layer):
    return lambda: nn.Sequential(nn.Linear(5, 4), layer, nn.Linear(4, 3))


# What is known to mix or remember records, or of which Opacus takes no gradients.
REFUSED = {
    "BatchNorm1d": of_a_normalisation(nn.BatchNorm1d(4)),
    "BatchNorm1d, not trained": of_a_normalisation(nn.BatchNorm1d(4).requires_grad_(False)),
    "BatchNorm1d, no parameters": of_a_normalisation(nn.BatchNorm1d(4, affine=False)),
    "BatchNorm1d, no statistics": of_a_normalisation(
        nn.BatchNorm1d(4, affine=False, track_running_stats=False).eval()
    ),
    "BatchNorm1d, fixed and trained": of_a_normalisation(nn.BatchNorm1d(4).eval()),
    "SyncBatchNorm": of_a_normalisation(nn.SyncBatchNorm(4, affine=False)),
    "InstanceNorm1d": lambda: nn.Sequential(
        nn.InstanceNorm1d(2, track_running_stats=True), last(10)
    ),
    "Embedding, max_norm": lambda: nn.Sequential(nn.Embedding(7, 3, max_norm=1.0), last(12)),
    "Embedding, max_norm, not trained": lambda: nn.Sequential(
        nn.Embedding(7, 3, max_norm=1.0).requires_grad_(False), last(12)
    ),
    "Embedding, scale_grad_by_freq": lambda: nn.Sequential(
        nn.Embedding(7, 3, scale_grad_by_freq=True), last(12)
    ),
    "Embedding, sparse": lambda: nn.Sequential(nn.Embedding(7, 3, sparse=True), last(12)),
    "FakeQuantize": lambda: nn.Sequential(FakeQuantize(MovingAverageMinMaxObserver), last(5)),
    "MinMaxObserver": lambda: nn.Sequential(MinMaxObserver(), last(5)),
    "LazyLinear": lambda: nn.Sequential(nn.LazyLinear(4), nn.Linear(4, 3)),
    "Linear, parametrised": lambda: nn.Sequential(parametrizations.weight_norm(nn.Linear(5, 3))),
    "Linear, weight_norm": lambda: nn.Sequential(with_weight_norm()),
    "LSTM": lambda: nn.LSTM(5, 3),
    "Linear, pruned": lambda: nn.Sequential(prune.l1_unstructured(nn.Linear(5, 3), "weight", 2)),
    "Linear, compiled": lambda: nn.Sequential(compiled(nn.Linear(5, 3))),
}


@pytest.mark.filterwarnings("ignore:Lazy modules")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_known_to_break_the_guarantee_is_refused_by_its_name(name, mode):
    model = seeded_module(REFUSED[name], 5)
    trained = [p for p in model.parameters() if p.requires_grad]
    with pytest.raises(TrainingError) as caught:
        private("dpsgd", model, mode=mode, inner=torch.optim.SGD(trained, lr=0.1))
    message = str(caught.value)
    assert name.split(",")[0] in message
    assert caught.value.hint
    assert "\n" not in message


@pytest.mark.parametrize("mode", MODES)
def test_a_normalisation_that_trains_again_is_refused_in_its_next_pass(mode):
    make, x = LAYERS["BatchNorm1d, fixed"]
    model = seeded_module(make, 5)
    inner = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    loop = private("dpsgd", model, mode=mode, inner=inner)
    take(loop, x, LABELS, LABELS)
    loop[0].train()
    statistics = model[1].running_mean.clone()
    for context in (nullcontext(), torch.no_grad()):
        with context, pytest.raises(TrainingError, match="BatchNorm1d at '1'") as caught:
            loop[0](x)
        assert "eval mode" in caught.value.hint
    assert torch.equal(statistics, model[1].running_mean)
    model[1].eval()
    take(loop, x, LABELS, LABELS)
    assert loop[1].accountant.guarantee == "established"


def hooked(model):
    model[0].register_forward_hook(lambda module, given, out: out * 1.0)


def replaced(model):
    model[1].forward = torch.sigmoid


def backward_hooked(model):
    model[2].register_full_backward_hook(lambda module, given, out: None)


@pytest.mark.parametrize("how", [hooked, replaced, backward_hooked])
def test_what_is_hung_on_a_layer_later_is_seen(how):
    def chain():
        return nn.Sequential(nn.Linear(WIDTH, 4), nn.Tanh(), nn.Linear(4, CLASSES))

    model = chain()
    loop = private("dpsgd", model)
    take(loop, *records())
    accountant = loop[1].accountant
    assert accountant.guarantee == "established"
    how(model)
    take(loop, *records())
    assert accountant.guarantee == CONDITIONAL
    assert "hooks" in accountant.statement()
    before = chain()
    how(before)
    assert private("dpsgd", before)[1].accountant.guarantee == CONDITIONAL


def appended(model):
    model.append(nn.Softmax(0))


def exchanged(model):
    model[1] = nn.BatchNorm1d(4, affine=False)


def tied_later(model):
    model[2].bias = model[0].bias


@pytest.mark.parametrize("how", [appended, exchanged, tied_later])
def test_another_model_than_that_of_make_private_is_refused(how):
    model = nn.Sequential(nn.Linear(WIDTH, CLASSES), nn.Tanh(), nn.Linear(CLASSES, CLASSES))
    loop = private("dpsgd", model)
    take(loop, *records())
    how(model)
    with pytest.raises((ConfigError, TrainingError), match="changed since make_private"):
        take(loop, *records())


def test_a_layer_that_is_called_twice_or_shared_is_a_condition():
    again = nn.Linear(5, 5)
    for model in (nn.Sequential(again, nn.Tanh(), again, nn.Linear(5, 3)), tied()):
        loop = private("dpsgd", model)
        assert loop[1].accountant.guarantee == CONDITIONAL
        take(loop, numbers(5), LABELS, LABELS)


@pytest.mark.parametrize("mode", MODES[:2])
def test_a_model_that_runs_twice_in_a_step_is_a_condition(mode):
    """Its loop may hand it other records in another order."""
    model, optimizer, criterion, _ = private("dpsgd", mode=mode)
    x, y, _ = records()
    optimizer._batches.dealt.append(len(x))
    (criterion(model(x), y) + criterion(model(x * 0.9), y)).backward()
    optimizer.step()
    assert optimizer.accountant.guarantee == CONDITIONAL
    assert "runs more than once" in optimizer.accountant.statement()


@pytest.mark.parametrize("mode", MODES)
def test_what_writes_over_a_layers_output_is_named(mode):
    model = nn.Sequential(nn.Linear(WIDTH, 4), nn.ReLU(inplace=True), nn.Linear(4, CLASSES))
    with pytest.raises(TrainingError, match="writes over") as caught:
        take(private("dpsgd", model, mode=mode), *records())
    assert "inplace=False" in caught.value.hint


class Outputs(dict):
    """As of models of other libraries."""

    __getattr__ = dict.__getitem__


@pytest.mark.parametrize("mode", MODES)
def test_outputs_by_name_stay_what_they_are_of_no_record_too(mode):
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.last = nn.Linear(WIDTH, CLASSES)

        def forward(self, x):
            return Outputs(logits=self.last(x.view(x.size(0), -1)), other=None)

    model, optimizer, criterion, _ = private("dpsgd", Named(), mode=mode)
    x, y, _ = records()
    for rows in (slice(0, 0), slice(0, 9)):
        optimizer._batches.dealt.append(len(x[rows]))
        criterion(model(x[rows]).logits, y[rows]).backward()
        optimizer.step()
    assert optimizer.accountant.steps == 2


@pytest.mark.parametrize("mode", MODES)
def test_a_trained_layer_that_does_not_run_is_named(mode):
    class Idle(nn.Module):
        def __init__(self):
            super().__init__()
            self.last, self.idle = nn.Linear(WIDTH, CLASSES), nn.Linear(WIDTH, CLASSES)

        def forward(self, x):
            return self.last(x)

    with pytest.raises(ConfigError, match=r"'idle.weight' has no gradient") as caught:
        take(private("dpsgd", Idle(), mode=mode), *records())
    assert "freeze" in caught.value.hint


@pytest.mark.parametrize("mode", MODES)
def test_sequences_before_records_are_compared_with_nothing(mode):
    """Of [T, B, d] the first axis is no record's."""
    layer = DPLSTM(4, CLASSES)

    class Last(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer

        def forward(self, x):
            return self.layer(x)[0][-1]

    model, optimizer, criterion, _ = private("dpsgd", Last(), mode=mode)
    optimizer._batches.dealt.append(B)
    criterion(model(numbers(6, 4).transpose(0, 1)), LABELS).backward()
    optimizer.step()
    assert optimizer.accountant.guarantee == CONDITIONAL


@pytest.mark.parametrize("mode", MODES)
def test_a_run_that_is_not_trained_on_is_named(mode):
    model, optimizer, criterion, _ = private("dpsgd", mode=mode)
    x, y, _ = records()
    outputs = model(x)
    with pytest.raises(ConfigError) as caught:  # noqa: PT012
        model(x[:5])
        criterion(outputs, y).backward()
    assert "torch.no_grad()" in caught.value.hint
    with torch.no_grad():
        model(x[:5])
    take((model, optimizer, criterion, None), *records())


@pytest.mark.parametrize("mode", MODES)
def test_a_layer_out_of_training_mode_is_named(mode):
    loop = private("dpsgd", nn.Sequential(nn.Linear(WIDTH, CLASSES)), mode=mode)
    loop[0].eval()
    with pytest.raises(ConfigError, match="Linear at '0' is trained, and not in training mode"):
        take(loop, *records())
    loop[0].train()
    loop[1]._batches.dealt.clear()
    take(loop, *records())


def test_a_hook_on_a_gradient_is_refused():
    for hang in ("register_hook", "register_post_accumulate_grad_hook"):
        model = nn.Linear(WIDTH, CLASSES)
        loop = private("dpsgd", model, mode="ghost")
        getattr(model.weight, hang)(lambda g: None)
        with pytest.raises(ConfigError, match="hook on its gradient"):
            take(loop, *records())


@pytest.mark.parametrize("mode", MODES)
def test_what_is_done_to_gradients_before_a_step_does_not_reach_it(mode):
    one, other = (nn.Linear(WIDTH, CLASSES) for _ in range(2))
    other.load_state_dict(one.state_dict())
    take(private("dpsgd", one, mode=mode), *records())
    model, optimizer, criterion, _ = private("dpsgd", other, mode=mode)
    x, y, _ = records()
    optimizer._batches.dealt.append(len(x))
    criterion(model(x), y).backward()
    assert all(p.grad is None for p in other.parameters())
    for p in other.parameters():
        p.grad = torch.full_like(p, 1e6)
    optimizer.step()
    assert torch.equal(parameters(one), parameters(other))


def of_a_view(outputs):
    return outputs.view(len(outputs), -1)


# What a loop does to outputs [B, 4], and whether each row stays that of its record.
BETWEEN = {
    "nothing": (lambda out: out, True),
    "some columns": (lambda out: out[:, 1:4], True),
    "a view": (lambda out: out.view(len(out), 2, 2).flatten(1)[:, :3], True),
    "a column of sequences": (lambda out: out.view(len(out), 4, 1)[:, :, 0], True),
    "centred": (lambda out: out - out.mean(0), False),
    "centred in place": (lambda out: out.sub_(out.mean(0).detach()), False),
    "a softmax": (lambda out: out.softmax(1), False),
    "in another order": (lambda out: out.flip(0), False),
    "turned": (lambda out: out.view(-1)[: 3 * len(out)].view(3, -1).T, False),
    "shifted by a row": (
        lambda out: torch.cat([out, out])[: len(out)].roll(1, 0), False
    ),
    "shifted in memory": (
        lambda out: out.as_strided((len(out), 3), (3, 1)), False
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BETWEEN)
def test_a_guarantee_rests_on_what_the_loop_does_to_outputs(name):
    between, is_row_by_row = BETWEEN[name]
    model, optimizer, criterion, _ = private("dpsgd", nn.Sequential(nn.Linear(WIDTH, 4), nn.ReLU()))
    x, y, _ = records()
    assert optimizer.accountant.guarantee == "established"
    criterion(between(model(x)), y)
    accountant = optimizer.accountant
    assert accountant.guarantee == ("established" if is_row_by_row else CONDITIONAL)
    assert ("before the criterion" in " ".join(accountant.conditions)) is not is_row_by_row


def test_a_part_of_a_sequence_is_row_by_row_whatever_its_layout():
    """Opacus' recurrent layers put out views of [T, B, h]."""
    layer = DPLSTM(4, CLASSES, batch_first=True)
    model, optimizer, criterion, _ = private("dpsgd", layer)
    x = numbers(6, 4)
    for part in (lambda out: out[:, -1], lambda out: out[:, 2], lambda out: out.transpose(1, 2)):
        outputs = part(model(x)[0])
        criterion(outputs, LABELS if outputs.dim() == 2 else torch.zeros(B, 6).long()).backward()
        optimizer.zero_grad()
    assert optimizer.accountant.guarantee == "established"
    mixed = model(x)[0].transpose(0, 1)[:, -1]  # of the last record, all positions
    criterion(torch.cat([mixed, mixed])[:B], LABELS)
    assert optimizer.accountant.guarantee == CONDITIONAL


@pytest.mark.parametrize("read", [lambda out: out, lambda out: out[:, :]])
def test_hooks_on_outputs_are_a_condition(read):
    model, optimizer, criterion, _ = private("dpsgd")
    x, y, _ = records()
    optimizer._batches.dealt.append(len(x))
    outputs = model(x)
    loss = criterion(read(outputs), y)
    outputs.register_hook(lambda g: g / g.norm())
    loss.backward()
    assert optimizer.accountant.guarantee == CONDITIONAL


def test_outputs_of_tokens_one_below_the_other_are_named():
    model, optimizer, criterion, _ = private(
        "dpsgd", nn.Sequential(nn.Embedding(7, 3), nn.Linear(3, 5))
    )
    optimizer._batches.dealt.append(B)
    criterion(model(TOKENS).view(-1, 5), TOKENS.view(-1) % 5).backward()
    with pytest.raises(ConfigError, match=r"'0.weight' reads 7 rows where the criterion reads 28"):
        optimizer.step()
    criterion(model(TOKENS).transpose(1, 2), TOKENS % 5).backward()
    optimizer.step()


@pytest.mark.parametrize(
    ("mode", "copied"),
    [
        *((mode, copy.deepcopy) for mode in MODES),
        # Opacus' functorch cannot be pickled.
        *((mode, lambda x: pickle.loads(pickle.dumps(x))) for mode in ("hooks", "ghost")),
    ],
)
def test_a_copy_of_the_model_is_a_model_by_itself(mode, copied):
    """As one that is kept for its score, or an average of steps."""
    model = nn.Sequential(nn.Linear(WIDTH, 4), nn.Tanh(), nn.Linear(4, CLASSES))
    loop = private("dpsgd", model, mode=mode)
    x, y, g = records()
    take(loop, x, y, g)
    kept = copied(model)
    at_that_time = parameters(model)
    take(loop, x, y, g)
    assert torch.equal(parameters(kept), at_that_time)
    assert not torch.equal(parameters(model), at_that_time)
    with torch.no_grad():
        assert kept(x).shape == (len(x), CLASSES)
    copy.deepcopy(loop[0])


@pytest.mark.parametrize("mode", MODES)
def test_a_training_ends_and_another_begins(mode):
    model = nn.Sequential(nn.Linear(WIDTH, CLASSES))
    loop = private("dpsgd", model, mode=mode)
    take(loop, *records())
    with pytest.raises(ConfigError, match="in another private training"):
        private("dpsgd", model, mode=mode)
    plain = loop[0].to_standard_module()
    assert plain is model
    model[0].weight.square().sum().backward()
    model.zero_grad()
    again = private("dpsgd", model, mode=mode)
    take(again, *records())
    assert again[1].accountant.guarantee == "established"


@pytest.mark.skipif(opacus.__version__.startswith("1.5."), reason="Opacus 1.5 makes no empty dicts")
def test_a_model_with_several_inputs_is_compared_too():
    class Two(nn.Module):
        def __init__(self, mixes):
            super().__init__()
            self.mixes, self.last = mixes, nn.Linear(5, CLASSES)

        def forward(self, given, *, scale):
            x = given["x"] * scale.unsqueeze(1)
            return self.last(x - x.mean(0) if self.mixes else x)

    x = numbers(5)
    for mixes in (False, True):
        model = private("dpsgd", Two(mixes))[0]
        with pytest.raises(TrainingError, match="together") if mixes else nullcontext():
            model({"x": x}, scale=torch.ones(B))
