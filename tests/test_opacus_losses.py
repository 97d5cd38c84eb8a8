"""The losses of single records, of which a private loop's gradients are made."""

import functools
import math

import pytest
import torch
import torch.nn.functional as F
from opacus_loops import CLASSES, MODES, RECORDS, WIDTH, parameters, private, records, take
from torch import nn

from fairaudit.errors import ConfigError, FairauditError, TrainingError
from fairaudit.opacus.criterion import SingleLosses, as_module, is_known

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook is firing")
B, K, T = 6, 4, 3


@pytest.fixture(autouse=True)
def quick_plan(monkeypatch):
    """What a plan says of its epsilon takes seconds, and no test here asks."""
    monkeypatch.setattr("fairaudit.planning.guarantees.epsilon", lambda *_: 1.0)


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def classes(*shape):
    return torch.randint(K, shape, generator=torch.Generator().manual_seed(1))


def signs(*shape):
    return (numbers(*shape, seed=2) > 0).double() * 2 - 1


def shares(*shape):
    return numbers(*shape, seed=3).softmax(1)


WEIGHT = torch.tensor([1.0, 3.0, 0.5, 2.0], dtype=torch.float64)
NONE_OF_A_CLASS = classes(B, T)
NONE_OF_A_CLASS[0] = 1
# criterion, and outputs and targets as a batch has them
ONE_BY_ONE = {
    "class": (nn.CrossEntropyLoss(), numbers(B, K), classes(B)),
    "class, smoothed": (nn.CrossEntropyLoss(label_smoothing=0.1), numbers(B, K), classes(B)),
    "class, weighted": (nn.CrossEntropyLoss(WEIGHT, reduction="none"), numbers(B, K), classes(B)),
    "class, weighted sum": (
        nn.CrossEntropyLoss(WEIGHT, reduction="sum"),
        numbers(B, K),
        classes(B),
    ),
    "class, ignored": (nn.CrossEntropyLoss(ignore_index=2), numbers(B, K), classes(B)),
    "shares": (nn.CrossEntropyLoss(), numbers(B, K), shares(B, K)),
    "shares, weighted": (nn.CrossEntropyLoss(WEIGHT), numbers(B, K), shares(B, K)),
    "positions": (nn.CrossEntropyLoss(), numbers(B, K, T), classes(B, T)),
    "positions, padded": (nn.CrossEntropyLoss(ignore_index=1), numbers(B, K, T), NONE_OF_A_CLASS),
    "positions, weighted": (nn.CrossEntropyLoss(WEIGHT), numbers(B, K, T), classes(B, T)),
    "log shares": (nn.NLLLoss(), numbers(B, K).log_softmax(1), classes(B)),
    "yes or no, a column": (nn.BCEWithLogitsLoss(), numbers(B, 1), shares(B, K)[:, :1]),
    "yes or no, flat": (nn.BCEWithLogitsLoss(), numbers(B), shares(B, K)[:, 0]),
    "several labels": (nn.BCEWithLogitsLoss(), numbers(B, K), shares(B, K)),
    "several labels, sum": (nn.BCEWithLogitsLoss(reduction="sum"), numbers(B, K), shares(B, K)),
    "several labels, none": (nn.BCEWithLogitsLoss(reduction="none"), numbers(B, K), shares(B, K)),
    "labels weighted": (
        nn.BCEWithLogitsLoss(WEIGHT, pos_weight=WEIGHT),
        numbers(B, K),
        shares(B, K),
    ),
    "probabilities": (nn.BCELoss(), numbers(B, K).sigmoid(), shares(B, K)),
    "squares": (nn.MSELoss(), numbers(B, 1), numbers(B, 1, seed=4)),
    "squares of flat targets": (nn.MSELoss(), numbers(B, 1), numbers(B, seed=4)),
    "pictures": (nn.MSELoss(), numbers(B, 2, 3, 3), numbers(B, 2, 3, 3, seed=4)),
    "absolute": (nn.L1Loss(), numbers(B, K), numbers(B, K, seed=4)),
    "smooth": (nn.SmoothL1Loss(beta=0.5), numbers(B, 1), numbers(B, 1, seed=4)),
    "huber": (nn.HuberLoss(delta=0.5), numbers(B), numbers(B, seed=4)),
    "divergence": (nn.KLDivLoss(reduction="batchmean"), numbers(B, K), shares(B, K)),
    "counts": (nn.PoissonNLLLoss(), numbers(B, 1), classes(B, 1).double()),
    "margin": (nn.SoftMarginLoss(), numbers(B, K), signs(B, K)),
    "hinge": (nn.HingeEmbeddingLoss(), numbers(B, K), signs(B, K)),
    "margins": (nn.MultiMarginLoss(weight=WEIGHT), numbers(B, K), classes(B)),
    "soft margins": (nn.MultiLabelSoftMarginLoss(), numbers(B, K), (signs(B, K) + 1) / 2),
    "label margins": (nn.MultiLabelMarginLoss(), numbers(B, K), torch.tensor([[0, 2, -1, 0]] * B)),
    "a function": (F.cross_entropy, numbers(B, K), classes(B)),
    "own": (lambda o, t: F.cross_entropy(o, t) + o.square().mean(), numbers(B, K), classes(B)),
    "own, a number each": (
        lambda o, t: F.cross_entropy(o, t, reduction="none"),
        numbers(B, K),
        classes(B),
    ),
    "own, with an if": (
        lambda o, t: o.square().mean() * (2.0 if float(o.detach().sum()) > 0 else 1.0),
        numbers(2, K)[:1].repeat(B, 1),
        classes(B),
    ),
    "own, an old function": (lambda o, t: Doubled.apply(o).mean(), numbers(B, K), classes(B)),
}


class Doubled(torch.autograd.Function):
    """Has no rule for torch.func."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


def alone(criterion, output, target, reduction):
    """The loss of one record and its gradient at the output, by PyTorch on a batch of it."""
    leaf = output.unsqueeze(0).clone().requires_grad_()
    value = criterion(leaf, target.unsqueeze(0))
    value = value.mean() if reduction == "mean" else value.sum()
    (gradient,) = torch.autograd.grad(value, leaf)
    return value.detach().nan_to_num(0.0), gradient[0]


@pytest.mark.filterwarnings("ignore:Using a target size")  # PyTorch's own, of flat targets
@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("case", ONE_BY_ONE)
def test_losses_and_gradients_are_those_of_each_record_alone(case, reduction):
    criterion, outputs, targets = ONE_BY_ONE[case]
    values, gradients = SingleLosses(criterion, reduction)(
        outputs.clone().requires_grad_(), targets
    )
    expected = [alone(criterion, *pair, reduction) for pair in zip(outputs, targets, strict=True)]
    torch.testing.assert_close(values, torch.stack([value for value, _ in expected]))
    torch.testing.assert_close(gradients, torch.stack([gradient for _, gradient in expected]))
    assert not values.requires_grad
    with torch.no_grad():
        shown, none = SingleLosses(criterion, reduction)(outputs, targets)
    torch.testing.assert_close(shown, values)
    assert none is None


def test_a_record_of_which_all_is_ignored_has_no_gradient():
    criterion, outputs, targets = ONE_BY_ONE["positions, padded"]
    values, gradients = SingleLosses(criterion, "mean")(outputs.clone().requires_grad_(), targets)
    assert float(gradients[0].abs().max()) == float(values[0]) == 0.0
    assert float(gradients[1:].abs().amax((1, 2)).min()) > 0.0


@pytest.mark.parametrize("name", [name for name, case in ONE_BY_ONE.items() if "own" not in name])
def test_pytorchs_own_losses_are_known_by_their_type(name):
    criterion = as_module(ONE_BY_ONE[name][0])
    assert is_known(criterion)


def test_what_only_looks_like_one_of_them_is_not_known():
    class Own(nn.MSELoss):
        def forward(self, outputs, targets):
            return super().forward(outputs - outputs.mean(0), targets)

    hooked = nn.MSELoss()
    hooked.register_forward_hook(lambda *_: None)
    replaced = nn.MSELoss()
    replaced.forward = lambda outputs, targets: outputs.mean()
    for criterion in (Own(), hooked, replaced, lambda o, t: F.mse_loss(o, t), nn.GaussianNLLLoss()):
        assert not is_known(as_module(criterion))


def test_a_partial_function_is_the_module_with_these_options():
    given = functools.partial(F.cross_entropy, label_smoothing=0.2, reduction="sum")
    made = as_module(given)
    outputs, targets = numbers(B, K), classes(B)
    assert is_known(made)
    torch.testing.assert_close(made(outputs, targets), given(outputs, targets))


def test_a_partial_function_with_an_argument_that_the_module_lacks_is_taken_as_it_is():
    given = functools.partial(F.mse_loss, weight=numbers(B, K).abs())  # one for each of a batch
    assert as_module(given) is given
    assert not is_known(given)
    with pytest.raises(TrainingError, match="fails for a record alone"):
        SingleLosses(given, "mean")(numbers(B, K).requires_grad_(), numbers(B, K, seed=4))


@pytest.mark.parametrize(
    "criterion",
    [
        nn.CrossEntropyLoss(WEIGHT),
        nn.NLLLoss(WEIGHT),
        functools.partial(F.cross_entropy, weight=WEIGHT),
    ],
    ids=["CrossEntropyLoss", "NLLLoss", "partial"],
)
def test_class_weights_that_would_cancel_are_refused(criterion):
    with pytest.raises(ConfigError, match="cancels") as caught:
        SingleLosses(criterion, "mean")(numbers(B, K).requires_grad_(), classes(B))
    assert "reduction='none'" in caught.value.hint


def centred(outputs, targets):
    return F.cross_entropy(outputs - outputs.mean(0), targets)


def variance(outputs, targets):
    return F.cross_entropy(outputs, targets) + outputs.var(0).mean()


def variance_of_few(outputs, targets):
    return F.cross_entropy(outputs, targets) + outputs.var(0, unbiased=False).mean()


def weighted_by_hand(outputs, targets):
    return F.cross_entropy(outputs, targets, weight=WEIGHT.to(outputs))


def of_the_first(outputs, targets):
    return F.cross_entropy(outputs, targets) * outputs[0].abs().sum()


READ_THE_BATCH = [centred, variance, variance_of_few, weighted_by_hand, of_the_first]


@pytest.mark.filterwarnings("ignore:var")  # PyTorch's own, of one record
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("criterion", READ_THE_BATCH, ids=lambda criterion: criterion.__name__)
def test_a_criterion_that_reads_the_batch_is_refused(criterion, dtype):
    model = nn.Linear(WIDTH, K).to(dtype)
    x, y, g = records()
    before = parameters(model)
    with pytest.raises(TrainingError, match="reads the batch"):
        take(private("dpsgd", model, criterion=criterion), x.to(dtype), y, g)
    assert torch.equal(parameters(model), before)


def test_losses_that_are_infinite_are_no_reading_of_the_batch():
    outputs = numbers(B, K)

    def infinite(outputs, targets):
        return outputs.square().sum(1).where(targets > 0, math.inf).mean()

    for finite in range(B + 1):  # so many records have a finite loss
        targets = torch.tensor([1] * finite + [0] * (B - finite))
        values, _ = SingleLosses(infinite, "mean")(outputs.clone().requires_grad_(), targets)
        assert values.isfinite().sum() == finite


def test_a_criterion_that_reads_the_batch_is_found_after_a_batch_of_infinite_losses():
    def mixing(outputs, targets):
        losses = (outputs - outputs.mean(0)).square().sum(1)
        return losses.where(targets > 0, math.inf).mean()

    losses = SingleLosses(mixing, "mean")
    outputs = numbers(B, K)
    losses(outputs.clone().requires_grad_(), torch.zeros(B, dtype=torch.long))
    with pytest.raises(TrainingError, match="reads the batch"):
        losses(outputs.clone().requires_grad_(), torch.ones(B, dtype=torch.long))


def test_a_criterion_that_draws_is_not_mistaken_for_one_that_reads_the_batch():
    def noisy(outputs, targets):
        return F.cross_entropy(outputs + 0.1 * torch.randn_like(outputs), targets)

    torch.manual_seed(0)
    before = torch.get_rng_state()
    losses = SingleLosses(noisy, "mean")
    _, gradients = losses(numbers(B, K).requires_grad_(), classes(B))
    assert not torch.equal(before, torch.get_rng_state())  # the records' own draws
    _, others = losses(numbers(B, K).requires_grad_(), classes(B))
    assert not torch.allclose(gradients, others)


class Keeping:
    """Grows with the largest output that it ever saw."""

    def __init__(self, number):
        self.number, self.largest = number, 0.0

    def __call__(self, outputs, targets):
        loss = F.cross_entropy(outputs, targets) * (1 + self.largest)
        self.largest = self.number(outputs)
        return loss


def test_a_criterion_that_keeps_tensors_of_records_is_refused_with_the_reason():
    losses = SingleLosses(Keeping(lambda outputs: outputs.detach().abs().max()), "mean")
    losses(numbers(B, K).requires_grad_(), classes(B))
    with pytest.raises(TrainingError, match="fails for a record alone") as caught:
        losses(numbers(B + 1, K).requires_grad_(), classes(B + 1))
    assert "keeps nothing" in caught.value.hint


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "criterion",
    [Keeping(lambda outputs: 0.0 * len(outputs)), lambda o, t: F.cross_entropy(o, t)],
    ids=["a class", "a function"],
)
def test_the_guarantee_rests_on_a_criterion_that_is_not_pytorchs(mode, criterion):
    accountant = private("dpsgd", criterion=criterion, mode=mode)[1].accountant
    assert accountant.guarantee == (
        "established if model and criterion treat records one by one and keep nothing of them"
    )
    (condition,) = accountant.conditions
    assert condition in ("the criterion Keeping", "the criterion <lambda>")
    assert condition in accountant.statement()


def test_a_criterion_that_is_hooked_later_is_seen():
    criterion = nn.CrossEntropyLoss()
    loop = private("dpsgd", criterion=criterion)
    take(loop, *records())
    assert loop[1].accountant.guarantee == "established"
    criterion.register_forward_hook(lambda module, given, out: out)
    take(loop, *records())
    assert loop[1].accountant.guarantee.startswith("established if model and criterion")


@pytest.mark.parametrize("mode", MODES)
def test_a_penalty_in_the_criterion_is_refused_from_when_it_is_there(mode):
    model, weight = nn.Linear(WIDTH, CLASSES), {"of": 0.0}

    def penalised(outputs, targets):
        loss = F.cross_entropy(outputs, targets)
        return loss + weight["of"] * model.weight.square().sum() if weight["of"] else loss

    loop = private("dpsgd", model, criterion=penalised, mode=mode)
    take(loop, *records())
    before, weight["of"] = parameters(model), 0.1
    with pytest.raises(ConfigError, match="gradient would be lost") as caught:
        take(loop, *records())
    assert "weight_decay" in caught.value.hint
    assert torch.equal(parameters(model), before)


def test_a_penalty_is_found_where_vmap_cannot_run_the_criterion():
    model = nn.Linear(WIDTH, CLASSES)

    def penalised(outputs, targets):
        scale = 1.0 if float(outputs.detach().abs().max()) < 1e9 else 0.0
        return F.cross_entropy(outputs, targets) * scale + model.weight.abs().sum()

    with pytest.raises(ConfigError, match="parameters beside the outputs"):
        take(private("dpsgd", model, criterion=penalised), *records())


def changed(how):
    """One batch of which the loss is changed in some way before its backward pass."""
    model = nn.Linear(WIDTH, CLASSES)

    def run(mode="hooks"):
        wrapped, optimizer, criterion, _ = private("dpsgd", model, mode=mode)
        x, y, _ = records()
        optimizer._batches.dealt.append(len(x))
        before = parameters(model)
        with pytest.raises(FairauditError) as caught:  # noqa: PT012
            how(criterion(wrapped(x), y), model, optimizer)
            optimizer.step()
        assert torch.equal(parameters(model), before)
        assert "weight_decay" in caught.value.hint or "no_grad" in caught.value.hint

    return run


def in_place(loss):
    loss *= 2.0
    return loss


CHANGES = {
    "a penalty": lambda loss, model, _: (loss + model.weight.square().sum()).backward(),
    "a penalty before it": lambda loss, model, _: (model.weight.square().sum() + loss).backward(),
    "a penalty by a function": lambda loss, model, _: torch.add(
        loss, model.weight.square().sum()
    ).backward(),
    "a penalty among losses": lambda loss, model, _: sum([loss, model.bias.abs().sum()]).backward(),
    "a factor": lambda loss, *_: (loss * 2).backward(),
    "a share": lambda loss, *_: (loss / 4).backward(),
    "a factor in place": lambda loss, *_: in_place(loss).backward(),
    "another gradient": lambda loss, *_: loss.backward(torch.tensor(2.0)),
    "graph of the gradient": lambda loss, *_: loss.backward(create_graph=True),
    "some parameters": lambda loss, model, _: loss.backward(inputs=[model.weight]),
    "a penalty by itself": lambda loss, model, _: (
        loss.backward(),
        model.weight.square().sum().backward(),
    ),
    "a penalty by itself, first": lambda loss, model, _: (
        model.weight.square().sum().backward(),
        loss.backward(),
    ),
    "twice": lambda loss, *_: (loss.backward(retain_graph=True), loss.backward()),
    "another loss": lambda loss, model, _: model(records()[0]).square().mean().backward(),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("how", CHANGES)
def test_what_would_be_lost_or_count_twice_is_refused(how, mode):
    changed(CHANGES[how])(mode)


@pytest.mark.parametrize("mode", MODES)
def test_a_step_needs_the_criterions_pass_of_its_batch(mode):
    loop = private("dpsgd", mode=mode)
    model, optimizer, criterion, _ = loop
    with pytest.raises(ConfigError, match="criterion"):
        optimizer.step()
    x, y, g = records()
    take(loop, x, y, g)
    optimizer._batches.dealt.append(len(x))
    with pytest.raises(ConfigError, match="criterion"):
        optimizer.step()
    criterion(model(x), y).backward()
    optimizer.zero_grad()
    with pytest.raises(ConfigError, match="criterion"):
        optimizer.step()


def test_a_loss_is_a_number_to_be_looked_at():
    wrapped, _, criterion, _ = private("dpsgd")
    x, y, _ = records()
    loss = criterion(wrapped(x), y)
    expected = F.cross_entropy(wrapped._module(x), y).detach()
    assert loss.item() == pytest.approx(float(expected))
    assert f"{loss:.3f}" == f"{float(expected):.3f}"
    assert loss.detach().numpy() == pytest.approx(float(expected))
    assert float(torch.stack([loss, loss]).mean()) == pytest.approx(float(expected))
    total = 0.0
    total += loss * len(x)
    assert float(total) == pytest.approx(float(expected) * len(x))
    assert bool(loss < 1e9)
    with torch.no_grad():
        shown = criterion(wrapped(x), y)
    assert float(shown) == pytest.approx(float(expected))
    with pytest.raises(ConfigError, match="no graph"):
        shown.backward()
    with torch.inference_mode():
        assert float(criterion(wrapped(x), y)) == pytest.approx(float(expected))
    nothing = criterion(wrapped(x[:0]), y[:0])
    assert float(nothing) == 0.0


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("reduced", [lambda loss: loss.mean(), lambda loss: loss.sum()])
def test_a_loop_may_reduce_what_is_one_number_already(reduced, mode):
    x, y, _ = records()
    one, other = (nn.Linear(WIDTH, CLASSES) for _ in range(2))
    other.load_state_dict(one.state_dict())
    take(private("dpsgd", one, mode=mode), *records())
    criterion = nn.CrossEntropyLoss(reduction="none")
    model, optimizer, loss, _ = private("dpsgd", other, mode=mode, criterion=criterion)
    optimizer._batches.dealt.append(RECORDS)
    reduced(loss(model(x), y)).backward()
    optimizer.step()
    torch.testing.assert_close(parameters(one), parameters(other))


def test_a_closure_takes_the_step_of_a_loop():
    x, y, _ = records()
    one, other = (nn.Linear(WIDTH, CLASSES) for _ in range(2))
    other.load_state_dict(one.state_dict())
    take(private("dpsgd", one), *records())
    model, optimizer, criterion, _ = private("dpsgd", other)
    optimizer._batches.dealt.append(RECORDS)

    def closure():
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        return loss

    optimizer.step(closure)
    assert torch.equal(parameters(one), parameters(other))
    inner = torch.optim.LBFGS(other.parameters())
    with pytest.raises(ConfigError, match="LBFGS asks for several gradients"):
        private("dpsgd", nn.Linear(WIDTH, CLASSES), inner=inner)


@pytest.mark.parametrize("mode", MODES)
def test_losses_of_several_outputs_add_up(mode):
    """As if each record's loss were the sum of its losses."""
    x, y, g = records()
    one, other = (nn.Linear(WIDTH, 2 * CLASSES) for _ in range(2))
    other.load_state_dict(one.state_dict())

    def both(outputs, targets):
        return F.cross_entropy(outputs[:, :CLASSES], targets) + F.cross_entropy(
            outputs[:, CLASSES:], targets
        )

    take(private("dpsgd", one, criterion=both, mode=mode), x, y, g)
    model, optimizer, criterion, _ = private("dpsgd", other, mode=mode)
    optimizer._batches.dealt.append(RECORDS)
    outputs = model(x)
    loss = criterion(outputs[:, :CLASSES], y) + criterion(outputs[:, CLASSES:], y) + 0.0
    loss.backward()
    optimizer.step()
    torch.testing.assert_close(parameters(one), parameters(other), rtol=1e-5, atol=1e-6)
    assert optimizer.accountant.guarantee == "established"


@pytest.mark.parametrize(
    ("outputs", "targets", "said"),
    [
        ((numbers(B, K),), classes(B), "one tensor of outputs"),
        (numbers(B, K), list(range(B)), "one tensor of outputs"),
        (numbers(B, K), numbers(B, K).requires_grad_(), "targets have a gradient"),
        (numbers(B, K), classes(B - 1), "outputs of 6 records and targets of 5"),
    ],
)
def test_what_does_not_fit_is_said(outputs, targets, said):
    with pytest.raises(ConfigError, match=said):
        private("dpsgd")[2](outputs, targets)


def test_a_criterion_that_gives_no_tensor_is_said():
    with pytest.raises(ConfigError, match="gives a tuple"):
        take(private("dpsgd", criterion=lambda o, t: (F.cross_entropy(o, t), 1.0)), *records())


def test_no_other_reduction_is_taken():
    with pytest.raises(ConfigError, match="loss_reduction 'none'"):
        private("dpsgd", loss_reduction="none")


@pytest.mark.parametrize("mode", MODES)
def test_ignored_records_leave_a_step_to_the_others(mode):
    x, y, g = (each[:30] for each in records())
    kept = y != 1
    one, other = (nn.Linear(WIDTH, CLASSES) for _ in range(2))
    other.load_state_dict(one.state_dict())
    take(private("dpsgd", one, criterion=nn.CrossEntropyLoss(ignore_index=1), mode=mode), x, y, g)
    take(private("dpsgd", other, mode=mode), x[kept], y[kept], g[kept])
    assert 0 < int(kept.sum()) < 30
    torch.testing.assert_close(parameters(one), parameters(other), rtol=1e-5, atol=1e-6)


def test_the_number_that_is_shown_is_the_sum_where_asked():
    x, y, _ = records()
    model = nn.Linear(WIDTH, CLASSES)
    wrapped, _, criterion, _ = private("dpsgd", model, loss_reduction="sum")
    expected = float(F.cross_entropy(model(x), y, reduction="sum").detach())
    assert math.isclose(float(criterion(wrapped(x), y)), expected, rel_tol=1e-5)
