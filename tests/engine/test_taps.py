"""Gradients of single records by taps: those of autograd on each record alone, in float64."""

import copy
import gc
import math
import weakref

import pytest
import tapped
import torch
from own_models import seeded_module
from tapped import LAYERS, OUTPUTS
from torch import nn
from torch.testing import assert_close

from fairaudit.engine import replicates
from fairaudit.engine.contributions import NORM_GUARD
from fairaudit.engine.isolation import PerRecord
from fairaudit.engine.replicates import IsolatedNetwork, IsolatedTape, choose_taps
from fairaudit.engine.terms import Products, norms_of_products
from fairaudit.errors import TrainingError


def records(shape, count=7, seed=1):
    return torch.randn(count, *shape, generator=torch.Generator().manual_seed(seed))


def directions(count, seed=2):
    return torch.randn(count, OUTPUTS, generator=torch.Generator().manual_seed(seed))


def alone(model, x, delta, dtype=torch.float64):
    """[n, P] by plain PyTorch, one record at a time."""
    model = copy.deepcopy(model).to(dtype)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    rows = []
    for record, direction in zip(x.to(dtype), delta.to(dtype), strict=True):
        value = (model(record.unsqueeze(0).clone())[0] * direction).sum()
        found = torch.autograd.grad(value, trained, allow_unused=True, materialize_grads=True)
        rows.append(torch.cat([gradient.flatten() for gradient in found]).double())
    return torch.stack(rows)


def by_tape(model, x, delta):
    """Norms [n] and gradients [n, P] of the engine, the latter as sums of one record each."""
    network = IsolatedNetwork([model])
    tape = IsolatedTape(network, len(x))
    tape.forward(x)
    norms = tape.backward(delta)
    rows = torch.stack([row.clone()[0] for row in tape.sums([*torch.eye(len(x)).unsqueeze(1)])])
    return network.tapping(x), norms, rows


def assert_alone(model, x, delta):
    """The tape finds what PyTorch finds for each record alone; returns what is tapped."""
    tapping, norms, rows = by_tape(model, x, delta)
    expected = alone(model, x, delta)
    assert_close(rows.double(), expected, rtol=1e-4, atol=2e-6 * float(expected.abs().max()))
    lengths = expected.norm(dim=1)
    assert (norms.double() >= lengths * (1.0 - 1e-6)).all()
    assert (norms.double() <= lengths * (1.0 + 1e-4) + 1e-9).all()
    return tapping


@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
def test_a_known_layer_is_tapped_and_its_gradients_are_those_of_one_record_alone(make):
    model = seeded_module(make)
    tapping = assert_alone(model, records(model.shape), directions(7))
    assert list(tapping.outputs) == ["layer"]
    assert tapping.why_not == ""


@pytest.mark.parametrize("make", [*tapped.COPIED, *tapped.PARTLY])
def test_what_is_more_than_one_call_of_a_known_layer_goes_by_copies(make):
    model = seeded_module(make)
    x, delta = records(model.shape), directions(7)
    if make is tapped.InHalfTheBits:
        tapping, _, rows = by_tape(model, x, delta)
        expected = alone(model, x, delta, torch.float32)
        assert_close(rows.double(), expected, rtol=0.1, atol=0.02)
    else:
        tapping = assert_alone(model, x, delta)
    assert list(tapping.outputs) == ["first", "out"]
    assert tapping.why_not == ""


def test_a_layer_at_two_places_is_tapped_under_its_first_name():
    model = seeded_module(tapped.CalledByItsOtherName)
    tapping = assert_alone(model, records(model.shape), directions(7))
    assert set(tapping.outputs) == {"first", "other", "out"}
    assert tapping.why_not == ""


@pytest.mark.parametrize("make", [tapped.ImagesOfPatches, tapped.Tabular, tapped.LazyAtFirst])
def test_whole_models_have_the_gradients_of_one_record_alone(make):
    model = seeded_module(make)
    tapping = assert_alone(model, records(model.shape), directions(7))
    layers = {name for name, part in model.named_modules() if type(part) in KINDS}
    assert set(tapping.outputs) == layers


KINDS = (nn.Linear, nn.LayerNorm, nn.Conv2d, nn.Embedding)


def test_memory_is_that_of_what_layers_read_and_put_out():
    model = nn.Sequential(nn.Linear(50, 400), nn.GELU(), nn.Linear(400, 3))
    tapping = choose_taps(model, (50,))
    assert tapping.numbers == (50 + 400) + (400 + 3)
    assert sum(p.numel() for p in model.parameters()) > 20_000


class Unlike(tapped.Mixed):
    """The layers compute something else than their type says, which nothing but a comparison sees.

    The weight's gradient is twice the product of input and output gradient.
    """

    def through(self, h):
        return self.other(h)


def test_layers_that_differ_from_autograd_are_copied_and_that_is_said(monkeypatch):
    plain = nn.Linear.forward
    monkeypatch.setattr(nn.Linear, "forward", lambda layer, x: plain(layer, x + x))
    tapping = assert_alone(seeded_module(Unlike), records((4, 6)), directions(7))
    assert tapping.outputs == {}
    assert "by autograd" in tapping.why_not


class WritesToWhatALayerRead(tapped.Mixed):
    """What a layer was given is changed after its call, so its gradient would be another's."""

    def through(self, h):
        given = h * 1.0
        out = self.other(given)
        given.mul_(2.0)
        return out


def test_a_module_that_writes_over_what_a_layer_read_is_refused_as_by_autograd():
    model = seeded_module(WritesToWhatALayerRead)
    with pytest.raises(TrainingError, match="inplace"):
        by_tape(model, records((4, 6)), directions(7))


class Codes(tapped.Mixed):
    """Looks up rows by a code, the least of which is given."""

    def __init__(self, least):
        super().__init__()
        self.table, self.least = nn.Embedding(3, 6), least

    def forward(self, x):
        code = (x[:, 0, 0] - self.least).long()
        return self.out(self.other(torch.tanh(x)).mean(1) + self.table(code))


def test_records_that_are_made_up_need_not_fit():
    """A table with rows for 0 and 1 can be tapped; where no made-up record fits, that is said."""
    x = torch.rand(7, 4, 6, generator=torch.Generator().manual_seed(1)) * 3.0
    tapping = assert_alone(seeded_module(lambda: Codes(0.0)), x, directions(7))
    assert set(tapping.outputs) == {"other", "table", "out"}
    tapping = assert_alone(seeded_module(lambda: Codes(5.0)), x + 5.0, directions(7))
    assert tapping.outputs == {}
    assert "index" in tapping.why_not


def test_which_way_a_layer_goes_follows_from_the_module_and_not_from_records():
    """The choice is made without them: ``choose_taps`` is handed the module and a shape."""
    for model in (seeded_module(tapped.Mixed), seeded_module(tapped.CalledTwice)):
        chosen = [
            by_tape(model, x, directions(7))[0] for x in (records((4, 6)), torch.zeros(7, 4, 6))
        ]
        assert chosen[0] == chosen[1] == choose_taps(model, (4, 6))


def test_a_layer_that_is_left_out_at_times_has_no_gradient_then():
    model = seeded_module(tapped.NotAlwaysCalled)
    network, x, delta = IsolatedNetwork([model]), records((6,)), directions(7)
    tape = IsolatedTape(network, 7)
    assert set(network.tapping(x).outputs) == {"maybe", "out"}
    seen = set()
    for _ in range(12):
        tape.forward(x)
        norms = tape.backward(delta)
        rows = torch.cat([row.clone() for row in tape.sums([*torch.eye(7).unsqueeze(1)])])
        assert_close(norms, rows.norm(dim=1), rtol=1e-5, atol=1e-9)
        seen.add(bool(rows[:, :42].any()))
    assert seen == {True, False}


def test_a_weight_that_is_used_elsewhere_once_in_a_while_is_copied_from_then_on():
    model = seeded_module(tapped.NotAlwaysInOneWay)
    network, x, delta = IsolatedNetwork([model]), records((6,)), directions(7)
    tape = IsolatedTape(network, 7)
    before = network.tapping(x)
    for _ in range(60):
        tape.forward(x)
        norms = tape.backward(delta)
        rows = torch.cat([row.clone() for row in tape.sums([*torch.eye(7).unsqueeze(1)])])
        assert_close(norms, rows.norm(dim=1), rtol=1e-5, atol=1e-9)
    assert set(before.outputs) == {"maybe", "out"}
    assert network.tapping(x).outputs == {}
    assert "maybe.weight" in network.tapping(x).why_not


def cancelling(positions, width, kind, size, seed=0):
    """Inputs and output gradients [8, T, width] of which the products nearly cancel."""
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(8, 1, width, generator=draw).expand(8, positions, width).clone()
    delta = torch.randn(8, positions, width, generator=draw)
    if kind == "pairs":
        x += torch.randn(x.shape, generator=draw) * 1e-6
        delta = delta[:, :1] * torch.tensor([1.0, -1.0]).repeat(positions // 2).view(1, -1, 1)
    elif kind == "the last against all":
        delta[:, -1] = -delta[:, :-1].sum(1)
    else:
        delta = delta - delta.mean(1, keepdim=True)
    return x * size**0.5, delta.contiguous() * size**0.5


@pytest.mark.parametrize("kind", ["pairs", "the last against all", "mean of zero"])
@pytest.mark.parametrize(("positions", "width"), [(2, 16), (16, 96), (64, 300), (64, 24)])
@pytest.mark.parametrize("size", [1.0, 1e4, 1e8])
def test_positions_that_nearly_cancel_leave_no_gradient_longer_than_the_bound(
    kind, positions, width, size
):
    """A record by itself, and beside others whose sum is known (rule R7)."""
    x, delta = cancelling(positions, width, kind, size)
    norms = norms_of_products(x, delta)
    assert (norms.double() >= exact(x, delta).norm(dim=(1, 2)) * (1.0 - 1e-6)).all()
    scale = (1e-3 / (norms * NORM_GUARD)).clamp(max=1.0)
    term = Products(x, delta)
    for number in range(len(x)):
        weights = torch.zeros(len(x))
        weights[number] = scale[number]
        total = torch.zeros(width, width)
        term.add_to(total, weights)
        assert float(total.double().norm()) <= 1e-3


def exact(x, delta):
    """The gradients [n, O, I] in float64."""
    return torch.einsum("nto,nti->noi", delta.double(), x.double())


class Cancelling(nn.Module):
    """Positions are read by one layer and added up with signs that are given, so that they cancel.

    Args:
        layer: Reads the positions.
    """

    def __init__(self, layer, positions):
        super().__init__()
        self.layer, self.shape = layer, (positions, layer.in_features)
        self.register_buffer("signs", torch.tensor([1.0, -1.0]).repeat(positions // 2))
        self.register_buffer("head", torch.randn(OUTPUTS, layer.out_features))

    def forward(self, x):
        return (self.layer(x) * self.signs.view(1, -1, 1)).sum(1) @ self.head.mT


@pytest.mark.parametrize(("inputs", "outputs"), [(300, 290), (12, 20)], ids=["products", "rows"])
def test_a_trained_record_of_cancelling_positions_stays_within_the_bound(inputs, outputs):
    """64 positions with terms of 1e4: without raised norms this one adds 2.4 bounds and more."""
    model = seeded_module(lambda: Cancelling(nn.Linear(inputs, outputs), 64))
    draw = torch.Generator().manual_seed(3)
    x = 1e4 * torch.randn(5, 1, inputs, generator=draw).expand(5, 64, inputs)
    x = x + torch.randn(x.shape, generator=draw) * 1e-2
    network = IsolatedNetwork([model])
    tape = IsolatedTape(network, 5)
    tape.forward(x)
    norms = tape.backward(directions(5))
    assert list(network.tapping(x).outputs) == ["layer"]
    scale = (0.5 / (norms * NORM_GUARD)).clamp(max=1.0)
    for row in tape.sums([*torch.diag(scale).unsqueeze(1)]):
        assert float(row.double().norm()) <= 0.5 * (1.0 + 1e-6)


@pytest.mark.parametrize("bad", [math.nan, math.inf, 1e30])
@pytest.mark.parametrize(
    "name",
    [
        "linear",
        "linear, positions, as products",
        "layer norm, positions",
        "conv2d",
        "conv2d, windows as products",
        "group norm",
    ],
)
def test_a_record_that_is_not_finite_counts_as_zero_and_moves_no_other(name, bad):
    model = seeded_module(LAYERS[name])
    model.brought = Scaled(model.brought)
    x, delta = records(model.shape), directions(7)
    broken = x.clone()
    broken[3] = bad
    _, norms, rows = by_tape(model, broken, delta)
    _, clean_norms, clean = by_tape(model, x, delta)
    others = [0, 1, 2, 4, 5, 6]
    if norms[3] != 0:  # a normalised input of 1e30 is an ordinary one
        assert bad == 1e30
    else:
        assert not rows[3].any()
    assert rows.isfinite().all()
    assert torch.equal(rows[others], clean[others])
    assert torch.equal(norms[others], clean_norms[others])


class Scaled:
    def __init__(self, brought):
        self.brought = brought

    def __call__(self, x):
        return self.brought(x) * 1e10


def test_a_model_that_has_run_can_be_copied_and_ends_with_its_last_user():
    model = PerRecord(seeded_module(tapped.Tabular))
    x = records((5,))
    first = model(x)
    other = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    assert torch.equal(model(x), first)
    assert not torch.equal(other(x), first)
    inside = weakref.ref(model._isolated[0].module.first)
    gc.disable()
    try:
        del model
        assert inside() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("replicates_", [1, 3])
def test_chunks_and_budget_change_nothing_but_rounding(replicates_, monkeypatch):
    from oracles import assert_alike, taped_within

    models = [seeded_module(tapped.ImagesOfPatches, seed) for seed in range(replicates_)]
    x = torch.stack([records((1, 8, 8), 23, seed) for seed in range(replicates_)])
    labels = torch.arange(23).remainder(3).expand(replicates_, 23)
    weights = torch.rand(2, replicates_, 23, generator=torch.Generator().manual_seed(5))
    network = IsolatedNetwork(models)
    per_record = 4 * network.tapping(x.flatten(0, 1)).numbers
    whole = taped_within(network, (x, labels, weights), (0,))
    monkeypatch.setattr(replicates, "CHUNK_BYTES", 8 * per_record)
    assert network.rows_per_chunk(x.flatten(0, 1)) == 8
    cut = taped_within(network, (x, labels, weights), (0, 9 * per_record * replicates_))
    assert_alike(cut, whole)
