"""What a model cannot be is said by its own name, and the hint is the way out of that."""

import warnings

import own_zoo
import pytest
import torch
from own_zoo import CLASSES, WIDTH
from refusals import refused_in_one_line
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import prune
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from fairaudit.engine.isolation import Isolated, PerRecord
from fairaudit.engine.refusals import fault, instead_of_statistics, place_of
from fairaudit.engine.replicates import check_model, why_not_in_table
from fairaudit.errors import ConfigError, TrainingError
from fairaudit.models.zoo import check_outputs


class Net(nn.Module):
    """``forward`` is ``function(self, x)``."""

    def __init__(self, function, **parts):
        super().__init__()
        self.out = nn.Linear(WIDTH, CLASSES)
        for name, part in parts.items():
            setattr(self, name, part)
        self.function = function

    def forward(self, x):
        return self.function(self, x)


def records():
    return torch.randn(8, WIDTH, generator=torch.Generator().manual_seed(3))


def examined(made):
    """As ``plan`` and ``run`` examine a factory's module before any training."""
    model = PerRecord(made) if why_not_in_table(made) else made
    check_outputs("nets:net", model, records(), CLASSES)
    check_model(model, records(), CLASSES)
    return model


def chain(*layers):
    return nn.Sequential(nn.Linear(WIDTH, 5), *layers, nn.Linear(5, CLASSES))


def old_weight_norm():
    return chain(nn.utils.weight_norm(nn.Linear(5, 5)))


def old_spectral_norm():
    return chain(nn.utils.spectral_norm(nn.Linear(5, 5)))


def pruned():
    model = chain()
    prune.l1_unstructured(model[0], "weight", amount=0.3)
    return model


def computed():
    model = chain()
    weight = model[0].weight * 2.0
    del model[0].weight
    model[0].weight = weight
    return model


def lazy():
    return nn.Sequential(nn.LazyLinear(5), nn.GELU(), nn.LazyLinear(CLASSES))


def compiled_in_place():
    model = chain(nn.GELU())
    model.compile()
    return model


def meta():
    with torch.device("meta"):
        return chain(nn.GELU())


def recurrent(kind):
    def read(net, x):
        return net.out(net.read(x.view(len(x), 3, 4))[0][:, -1].repeat(1, 4))

    return lambda: Net(read, read=kind(4, 3, batch_first=True))


def packed():
    def read(net, x):
        rows = x.view(len(x), 3, 4)
        rows = nn.utils.rnn.pack_padded_sequence(rows, [3] * len(x), batch_first=True)
        return net.out(net.read(rows)[1][-1].repeat(1, 4))

    return Net(read, read=nn.GRU(4, 3, batch_first=True))


def cell():
    return Net(lambda net, x: net.out(net.cell(x)[0].repeat(1, 4)), cell=nn.LSTMCell(WIDTH, 3))


# In PyTorch 2.6 checkpointing is a function with a vmap rule, which is refused as any other is.
RECOMPUTED = ("torch.utils.checkpoint", "leave checkpointing out")
if hasattr(torch.utils.checkpoint, "_NoopSaveInputs"):
    RECOMPUTED = ("whose rule for vmap is its own", "operations that torch.func.vmap runs")


def recomputed(reentrant):
    def read(net, x):
        return net.out(checkpoint(net.body, x, use_reentrant=reentrant))

    return lambda: Net(read, body=nn.Linear(WIDTH, WIDTH))


def recomputed_chain():
    def read(net, x):
        return net.out(checkpoint_sequential(net.body, 2, x, use_reentrant=False))

    return Net(read, body=nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU()))


class Doubles(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


def into_zeros(net, x):
    made = torch.zeros(len(x), WIDTH)
    made[:, :3] = x[:, :3]
    return net.out(made)


def into_empty(net, x):
    made = torch.empty(len(x), WIDTH)
    made[:] = x
    return net.out(made)


def added_to_zeros(net, x):
    made = torch.zeros(len(x), WIDTH)
    made += x
    return net.out(made)


def own_statistics(net, x):
    return net.out(F.batch_norm(x, net.mean, net.variance, training=True))


def only_predicts(net, x):
    with torch.no_grad():
        return net.out(x)


def in_half(net, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return net.out(x)


# What stands in message and in hint, in lower case.
REFUSED = {
    "old weight_norm": (old_weight_norm, "linear at '1'", "parametrizations.weight_norm"),
    "old spectral_norm": (old_spectral_norm, "spectral_norm", "leave it out"),
    "pruned": (pruned, "linear at '0'", "prune.remove"),
    "computed": (computed, "linear at '0'", "in forward"),
    "lazy": (lazy, "lazylinear at '0'", "initialise"),
    "lazy batch norm": (lambda: chain(nn.LazyBatchNorm1d()), "is lazy", "initialise"),
    "compiled": (lambda: torch.compile(chain(nn.GELU())), "torch.compile", "hand in"),
    "part compiled": (lambda: chain(torch.compile(nn.GELU())), "at '1'", "hand in"),
    "compiled in place": (compiled_in_place, "torch.compile", "hand in"),
    "data parallel": (lambda: nn.DataParallel(chain()), "over devices", ".module"),
    "meta": (meta, "meta device", "to_empty"),
    "batch norm": (own_zoo.batch_norm, "batchnorm1d at '1'", "nn.groupnorm"),
    "batch norm without statistics": (
        lambda: chain(nn.BatchNorm1d(5, track_running_stats=False).eval()),
        "batchnorm1d at '1'",
        "nn.groupnorm",
    ),
    "instance norm": (
        lambda: chain(
            nn.Unflatten(1, (1, 5)), nn.InstanceNorm1d(1, track_running_stats=True), nn.Flatten()
        ),
        "instancenorm1d at '2'",
        "track_running_stats",
    ),
    "max norm": (
        lambda: own_zoo.Words(nn.Embedding(9, 4, max_norm=1.0)),
        "max_norm",
        "leave max_norm out",
    ),
    "rnn": (recurrent(nn.RNN), "nn.rnn", "opacus.layers.dprnn"),
    "gru": (recurrent(nn.GRU), "nn.gru", "opacus.layers.dpgru"),
    "lstm": (recurrent(nn.LSTM), "nn.lstm", "opacus.layers.dplstm"),
    "packed": (packed, "nn.gru", "opacus.layers.dpgru"),
    "lstm cell": (cell, "nn.lstmcell", "dplstm"),
    "checkpoint": (recomputed(False), *RECOMPUTED),
    "old checkpoint": (recomputed(True), "torch.utils.checkpoint", "leave checkpointing out"),
    "chain checkpoint": (recomputed_chain, *RECOMPUTED),
    "zeros": (lambda: Net(into_zeros), "belongs to no record", "x.new_zeros"),
    "empty": (lambda: Net(into_empty), "belongs to no record", "x.new_zeros"),
    "adds to zeros": (lambda: Net(added_to_zeros), "belongs to no record", "x.new_zeros"),
    "if": (
        lambda: Net(lambda net, x: net.out(x) if x.sum() > 0 else -net.out(x)),
        "python decide",
        "torch.where",
    ),
    "item": (lambda: Net(lambda net, x: net.out(x) * x.max().item()), "into python", ".item"),
    "float": (lambda: Net(lambda net, x: net.out(x) * float(x.max())), "into python", ".item"),
    "list": (
        lambda: Net(lambda net, x: net.out(torch.tensor(x.tolist()))),
        "into python",
        ".tolist",
    ),
    "numpy": (
        lambda: Net(lambda net, x: net.out(x) * x.detach().numpy().max()),
        "into python",
        ".numpy",
    ),
    "mask": (
        lambda: Net(lambda net, x: net.out(x) + x[x > 0].sum()),
        "length depends",
        "torch.where",
    ),
    "unique": (
        lambda: Net(lambda net, x: net.out(x) + len(torch.unique(x))),
        "length depends",
        "torch.where",
    ),
    "one_hot": (
        lambda: Net(lambda net, x: net.out(x) + F.one_hot((x > 0).long()).sum()),
        "one_hot",
        "num_classes",
    ),
    "autograd.Function": (
        lambda: Net(lambda net, x: Doubles.apply(net.out(x))),
        "autograd.function",
        "--trainer",
    ),
    "own batch norm": (
        lambda: Net(own_statistics, mean=torch.zeros(WIDTH), variance=torch.ones(WIDTH)),
        "statistics of the batch",
        "training=false",
    ),
    "no gradient": (lambda: Net(only_predicts), "no gradient", "no_grad"),
    "detached": (lambda: Net(lambda net, x: net.out(x).detach()), "no gradient", ".detach"),
    "complex": (lambda: Net(lambda net, x: torch.fft.fft(net.out(x))), "complex64", "the logits"),
    "whole numbers": (lambda: Net(lambda net, x: net.out(x).long()), "int64", "the logits"),
    "mean over records": (
        lambda: Net(lambda net, x: net.out(x - x.mean(0))),
        "than for one record alone",
        "mean over the batch",
    ),
    "size of the batch": (
        lambda: Net(lambda net, x: net.out(x) * len(x)),
        "than for one record alone",
        "its size",
    ),
    "not finite": (
        lambda: Net(lambda net, x: net.out(x) / 0.0),
        "not finite",
        "add a small constant",
    ),
    "half precision": (lambda: Net(in_half), "one record alone", "autocast"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("make", "cause", "way_out"), REFUSED.values(), ids=REFUSED)
def test_a_model_that_cannot_be_is_refused_by_its_own_name_with_the_way_out(make, cause, way_out):
    made = make()
    with refused_in_one_line(TrainingError, "") as caught:
        examined(made)
    assert cause in caught.value.message.lower()
    assert way_out in caught.value.hint.lower()
    assert "(" not in caught.value.hint
    assert len(str(caught.value)) <= 300


PROBABILITIES = {
    "layer": lambda: nn.Sequential(nn.Linear(WIDTH, CLASSES), nn.Softmax(dim=1)),
    "function": lambda: Net(lambda net, x: torch.softmax(net.out(x), -1)),
    "both sides of a sigmoid": lambda: Net(
        lambda net, x: torch.cat([1 - net.out(x)[:, :1].sigmoid(), net.out(x)[:, :1].sigmoid()], 1)
    ),
    "by hand": lambda: Net(lambda net, x: net.out(x).exp() / net.out(x).exp().sum(1, True)),
}
LOGITS = {
    "logarithms": lambda: nn.Sequential(nn.Linear(WIDTH, CLASSES), nn.LogSoftmax(dim=1)),
    "squashed": lambda: nn.Sequential(nn.Linear(WIDTH, CLASSES), nn.Sigmoid()),
    "not negative": lambda: nn.Sequential(nn.Linear(WIDTH, CLASSES), nn.Softplus()),
    "zeros": lambda: Net(lambda net, x: net.out(x) * 0.0),
    "attention inside": lambda: Net(lambda net, x: net.out(torch.softmax(x, -1))),
}


@pytest.mark.parametrize("make", PROBABILITIES.values(), ids=PROBABILITIES)
def test_probabilities_are_not_taken_for_logits(make):
    with refused_in_one_line(ConfigError, "probabilities") as caught:
        examined(make())
    assert "the logits" in caught.value.hint


@pytest.mark.parametrize("make", LOGITS.values(), ids=LOGITS)
def test_logits_are_not_taken_for_probabilities(make):
    examined(make())


def test_the_users_line_is_named():
    with pytest.raises(TrainingError, match=r"\(test_refusals.py, line \d+\)"):
        examined(Net(into_zeros))
    assert place_of(ValueError()) == ""


@pytest.mark.parametrize("training", [False, True])
def test_a_random_slope_is_the_mean_one_where_nothing_is_drawn(training):
    """In training each negative number has a slope of its own, and its gradient is that slope."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(nn.RReLU(0.2, 0.6), nn.Linear(WIDTH, CLASSES, bias=False))
    isolated = Isolated(model, training=training)
    x = -torch.ones(70, WIDTH)
    assert isolated.draws(isolated.start, x) is training
    outputs, leaves = isolated.graph(isolated.start, x, (1,))
    (rows,) = torch.autograd.grad(outputs[:, 0].sum(), list(leaves.values()))
    slopes = -rows[:70, 0]  # the gradient in a weight is what that weight was multiplied with
    if not training:
        torch.testing.assert_close(outputs, model.eval()(x))
        assert (slopes == 0.4).all()
        return
    assert ((slopes >= 0.2) & (slopes <= 0.6)).all()
    assert float(slopes.mean()) == pytest.approx(0.4, abs=0.02)
    assert float(slopes.std()) == pytest.approx(0.4 / 12**0.5, abs=0.01)
    assert len(slopes.unique()) > 800


NAMED = {
    "rrelu": lambda x: torch.rrelu(input=x, lower=0.2, upper=0.6),
    "rrelu, no generator": lambda x: torch.rrelu(x, 0.2, 0.6, False, None),
    "rrelu in place": lambda x: nn.functional.rrelu(input=x.clone(), inplace=True),
    "embedding": lambda x: torch.embedding(weight=torch.eye(WIDTH), indices=(x > 0).long()).sum(-1),
}


@pytest.mark.parametrize("call", NAMED.values(), ids=NAMED)
def test_what_stands_in_for_an_operation_takes_its_arguments_by_their_names(call):
    model = Net(lambda net, x: net.out(call(x)))
    isolated = Isolated(model, training=False)
    x = torch.linspace(-1.0, 1.0, 3 * WIDTH).view(3, WIDTH)
    outputs = isolated.outputs(isolated.start, x, (0,))
    torch.testing.assert_close(outputs, model.eval()(x))


def test_a_slope_is_drawn_from_the_generator_that_is_named():
    ends = (0.2, 0.6)
    own = Net(lambda net, x: net.out(torch.rrelu(x, *ends, True, torch.Generator().manual_seed(5))))
    isolated = Isolated(own)
    x = -torch.ones(1, WIDTH)
    outputs = [isolated.outputs(isolated.start, x, (stream,)) for stream in (1, 2)]
    assert torch.equal(*outputs)  # not the generator that the pass seeds
    slopes = torch.empty(1, WIDTH).uniform_(*ends, generator=torch.Generator().manual_seed(5))
    torch.testing.assert_close(outputs[0], own.out(-slopes))


def test_a_frozen_layer_stays_frozen_where_its_wrapper_is_set_to_train():
    wrapped = PerRecord(own_zoo.fixed_statistics())
    wrapped.train()
    assert not wrapped.inner[1].training
    wrapped = PerRecord(own_zoo.batch_norm())
    wrapped.eval()
    with pytest.raises(TrainingError, match="BatchNorm1d"):
        wrapped(records())


@pytest.mark.parametrize("training", [True, False])
def test_evaluation_mode_is_no_way_out_for_a_layer_without_statistics(training):
    """It reads those of the batch in either mode."""
    layer = nn.BatchNorm1d(WIDTH, track_running_stats=False).train(training)
    alone, together = torch.arange(2.0 * WIDTH).view(2, WIDTH), torch.ones(4, WIDTH)
    assert not torch.equal(layer(torch.cat((alone, together)))[:2], layer(alone))
    assert instead_of_statistics(layer) == "use nn.GroupNorm in its place"
    keeps = nn.BatchNorm1d(WIDTH)
    assert "eval mode" in instead_of_statistics(keeps)
    assert instead_of_statistics(keeps.eval()) == ""


def test_the_engines_own_layers_are_of_parameters_as_their_sizes_say():
    """Others are computed as PyTorch computes them, and not by what the sizes say."""
    narrowed = chain(nn.Tanh())
    narrowed[0].weight = nn.Parameter(narrowed[0].weight[:, :WIDTH].detach().clone())
    assert why_not_in_table(narrowed) == ""
    narrowed = nn.Sequential(nn.Linear(7, 5), nn.Tanh(), nn.Linear(5, CLASSES))
    narrowed[0].weight = nn.Parameter(torch.ones(5, WIDTH))
    assert why_not_in_table(narrowed)
    examined(narrowed)
    extra = chain(nn.Tanh())
    extra[0].register_parameter("gain", nn.Parameter(torch.ones(1)))
    assert why_not_in_table(extra)


with warnings.catch_warnings(action="ignore"):
    SCRIPTED = torch.jit.script(chain())


def test_a_scripted_model_is_named():
    with refused_in_one_line(TrainingError, "compiled by torch.jit") as caught:
        examined(nn.Sequential(SCRIPTED))
    assert "Python module" in caught.value.hint


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 1 byte"),
        RuntimeError("CUDA out of memory. Tried to allocate 20.00 MiB"),
    ],
)
def test_want_of_memory_in_a_model_is_told_as_that(error):
    assert fault(error).message == "the model ran out of memory"
    assert "raised ValueError" in fault(ValueError("memory")).message
