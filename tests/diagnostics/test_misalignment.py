"""Readings of a training's steps beside plain PyTorch: its own loop, one record at a time."""

import copy
import math
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from forms import FORM, each, forms, make_pool, make_task
from oracles import laid_out, model
from torch import nn

from fairaudit.diagnostics import step_terms
from fairaudit.diagnostics.amount import Amount
from fairaudit.diagnostics.checkpoints import BlockSums, StepReader, stratified
from fairaudit.diagnostics.misalignment import Cut, CutReader, blocks_of, read
from fairaudit.diagnostics.step_batches import drawn
from fairaudit.diagnostics.step_terms import CurvatureReader
from fairaudit.engine.pool import TrainingPool
from fairaudit.privacy.noise import GaussianNoise
from fairaudit.privacy.streams import numpy_stream
from fairaudit.results.steps import BATCHES, BLOCKS

N, STEPS_PER_EPOCH, BOUND = 600, 4, 1.5
ANGLES = Amount((), ())  # without terms


def cut_of(pool, groups=None, blocks=None):
    """The pool's rows cut by its own groups, or by others."""
    n = pool.n_records
    groups = pool.groups[:n] if groups is None else groups
    blocks = torch.from_numpy(blocks_of(groups.numpy(), 0)) if blocks is None else blocks
    return Cut(groups, blocks, int(groups.max()) + 1)


def learnable():
    """Records whose groups ask for different things, so that no mean gradient is zero at first."""
    rng = np.random.default_rng(4)
    groups = rng.integers(3, size=N)
    x = rng.normal(size=(N, 7)) * np.array([0.6, 1.0, 2.0])[groups, None]
    labels = (x[np.arange(N), groups] + 0.3 * rng.normal(size=N) > 0).astype(np.int64)
    tensors = torch.from_numpy(x.astype(np.float32)), torch.from_numpy(labels)
    return TrainingPool(*tensors, torch.from_numpy(groups), n_classes=2, n_groups=3)


def trained(key, *, checkpoints=(0, 5, 7), pool=None, repeats=1, **settings):
    form = FORM[key]
    pool = pool or learnable()
    if key == "global-adapt":
        settings = {"threshold": 2.0 * BOUND, **settings}
    task = make_task(
        form,
        pool,
        checkpoints=checkpoints,
        repeats=repeats,
        steps_per_epoch=STEPS_PER_EPOCH,
        max_grad_norm=BOUND,
        learning_rate=0.1,
        **settings,
    )
    method = form.make()
    return method, task, method.fit(task, [])


def factor_of(key, released, norm, group):
    """A record's factor at a step, from the papers' formulas and what the step had released."""
    if key == "dpsgd":
        return min(1.0, BOUND / norm)
    if key == "global-adapt":
        return BOUND / max(norm, float(released.threshold[0]))
    assert key == "dpsgd-f"
    return min(1.0, float(released.bound[0, group]) / norm)


class Alone:
    """One step of one model in float64, by a loop over single records."""

    def __init__(self, key, task, checkpoint):
        pool = task.pool
        n = pool.n_records
        module = copy.deepcopy(task.model).double()
        nn.utils.vector_to_parameters(checkpoint.parameters[0].double(), module.parameters())
        inputs = pool.gather(torch.arange(n), None).inputs.double()
        self.groups = pool.groups[:n].tolist()
        rows, factors = [], []
        for i in range(n):
            loss = nn.functional.cross_entropy(module(inputs[i : i + 1]), pool.labels[i : i + 1])
            parts = torch.autograd.grad(loss, list(module.parameters()))
            row = torch.cat([part.flatten() for part in parts]).numpy()
            rows.append(row)
            norm = float(np.linalg.norm(row))
            factors.append(factor_of(key, checkpoint.rule_released, norm, self.groups[i]))
        self.g, self.factors = np.array(rows), np.array(factors)
        stream = numpy_stream(task.seed, "probe", "angles", checkpoint.step)
        self.batches = []
        for _ in range(BATCHES):
            drawn = np.flatnonzero(stream.random(n) < 1 / STEPS_PER_EPOCH)
            plain = self.g[drawn].sum(0) / (n / STEPS_PER_EPOCH)
            clipped = (self.factors[drawn, None] * self.g[drawn]).sum(0) / (n / STEPS_PER_EPOCH)
            self.batches.append((plain, clipped))

    def of(self, members):
        """Every reading of the mean gradient of these records."""
        rows = self.g[members]
        mean = rows.mean(0)
        chance = rows.var(0, ddof=1).sum() / len(rows)
        length = math.sqrt(max(mean @ mean - chance, 0.1 * (mean @ mean)))
        before, after, turned = [], [], []
        for plain, clipped in self.batches:
            before.append(mean @ plain / (length * np.linalg.norm(plain)))
            after.append(mean @ clipped / (length * np.linalg.norm(clipped)))
            rhos = [np.linalg.norm(c) / np.linalg.norm(p) for p, c in self.batches]
            rho = np.linalg.norm(clipped) / np.linalg.norm(plain)
            usual = (sum(rhos) - rho) / (len(rhos) - 1)  # of the other batches
            every = self.g.sum(0) / N, (self.factors[:, None] * self.g).sum(0) / N
            off = usual * (plain - every[0]) - (clipped - every[1])  # of known expectation 0
            turned.append(mean @ (rho * plain - clipped - off))
        size = np.mean([np.linalg.norm(p) for p, _ in self.batches])
        size *= np.linalg.norm(self.g, axis=1).mean()
        angles = [np.degrees(np.arccos(np.clip(c, -1, 1))) for c in (before, after)]
        return {
            "misalignment": np.mean(angles[1] - angles[0]),
            "cosine_before": np.mean(np.clip(before, -1, 1)),
            "cosine_after": np.mean(np.clip(after, -1, 1)),
            "gradient_norm": np.linalg.norm(rows, axis=1).mean(),
            "turned": np.mean(turned) / size,
            "is_defined": chance <= 0.5 * (mean @ mean)
            and max(abs(np.mean(before)), abs(np.mean(after))) <= 1.05,
        }


@pytest.mark.parametrize("key", ["dpsgd", "global-adapt", "dpsgd-f"])
def test_readings_are_those_of_a_loop_over_single_records(key):
    method, task, made = trained(key)
    cut = cut_of(task.pool)
    found = read(method, task, made, [cut], ANGLES)
    groups = cut.groups.numpy()
    defined = 0
    for c, checkpoint in enumerate(made.checkpoints):
        alone = Alone(key, task, checkpoint)
        for k in range(3):
            defined += alone.of(np.flatnonzero(groups == k))["is_defined"]
            for j in range(BLOCKS + 1):  # all rows, then all but one block
                members = np.flatnonzero((groups == k) & (cut.blocks.numpy() != j - 1))
                expected = alone.of(members)
                is_defined = alone.of(np.flatnonzero(groups == k))["is_defined"]
                for name in ("misalignment", "cosine_before", "cosine_after"):
                    value = float(found[f"misalignment.0.{name}"][c, 0, k, j])
                    assert math.isnan(value) != is_defined, (name, k)
                    if is_defined:
                        assert value == pytest.approx(expected[name], rel=1e-3, abs=1e-3), name
                for name in ("gradient_norm", "turned"):
                    value = float(found[f"misalignment.0.{name}"][c, 0, k, j])
                    assert value == pytest.approx(expected[name], rel=2e-3, abs=1e-4), name
            least = alone.factors.max() if key == "global-adapt" else 1.0
            share = np.mean(alone.factors[groups == k] < least * (1 - 1e-4))
            value = float(found["misalignment.0.clipped_share"][c, 0, k, 0])
            assert value == pytest.approx(share, abs=1e-9)
            bound = {
                "dpsgd": lambda r, k: BOUND,
                "global-adapt": lambda r, k: float(r.threshold[0]),
                "dpsgd-f": lambda r, k: float(r.bound[0, k]),
            }[key](checkpoint.rule_released, k)
            ratio = found["misalignment.0.norm_to_bound"][c, 0, k, 0]
            length = found["misalignment.0.gradient_norm"][c, 0, k, 0]
            assert float(length / ratio) == pytest.approx(bound, rel=1e-4)
    assert defined > 6


def test_all_rows_are_the_last_place_also_where_a_sample_is_read():
    method, task, made = trained("dpsgd", checkpoints=(0,))
    cut = cut_of(task.pool)
    whole = read(method, task, made, [cut], ANGLES)
    alone = Alone("dpsgd", task, made.checkpoints[0]).of(np.arange(N))
    for name in ("misalignment", "cosine_before", "gradient_norm"):
        value = float(whole[f"misalignment.0.{name}"][0, 0, -1, 0])
        # The chance in the mean of all rows is summed over groups, each with its own mean.
        assert value == pytest.approx(alone[name], rel=0.05, abs=0.2), name
    sample = read(method, task, made, [cut], replace(ANGLES, rows=300))
    assert sample["misalignment.0.rows"].tolist() == [100.0, 100.0, 100.0, 300.0]
    for name in ("cosine_before", "gradient_norm"):
        value = float(sample[f"misalignment.0.{name}"][0, 0, -1, 0])
        assert value == pytest.approx(alone[name], rel=0.15), name
    assert whole["misalignment.0.rows"].sum() == 2 * N


@pytest.mark.parametrize("blocks", [[2, 2, 2, 2, 2, 2], [0, 0, 1, 1, 3, 3]])
def test_what_chance_adds_to_a_mean_is_that_of_its_rows_with_each_block_left_out(blocks):
    rows, blocks = np.random.default_rng(0).normal(size=(6, 4)), np.array(blocks)
    sums = np.array([rows[blocks == b].sum(0) for b in range(BLOCKS)])
    squares = np.array([(rows[blocks == b] ** 2).sum() for b in range(BLOCKS)])
    counts = np.bincount(blocks, minlength=BLOCKS)
    nothing = torch.zeros(1, BLOCKS)
    of_group = BlockSums(
        torch.from_numpy(sums)[None],
        torch.from_numpy(counts).double(),
        torch.from_numpy(squares)[None],
        *[nothing] * 4,
    )
    reader = SimpleNamespace(shares=torch.ones(1).double(), rows=torch.tensor([6.0, 6.0]))
    reader.together = partial(CutReader.together, reader)
    chance = CutReader.means(reader, [of_group]).chance[0, 0]
    kept = [rows, *(rows[blocks != b] for b in range(BLOCKS))]
    kept = [some if len(some) else rows for some in kept]  # nothing is left: all rows again
    expected = [some.var(0, ddof=1).sum() / len(some) for some in kept]
    assert chance.tolist() == pytest.approx(expected, rel=1e-12)


def test_several_groupings_and_repeats_are_read_each_by_itself():
    method, task, made = trained("dpsgd", repeats=2, checkpoints=(0, 7))
    own = cut_of(task.pool)
    other = cut_of(task.pool, groups=torch.arange(N) % 2)
    found = read(method, task, made, [other, own], ANGLES)
    assert found["misalignment.0.misalignment"].shape == (2, 2, 3, BLOCKS + 1)
    assert found["misalignment.1.misalignment"].shape == (2, 2, 4, BLOCKS + 1)
    single = read(method, task, made, [own], ANGLES)
    for name in ("misalignment", "turned"):
        torch.testing.assert_close(
            found[f"misalignment.1.{name}"], single[f"misalignment.0.{name}"], equal_nan=True
        )
    # Two repeats part after the first step.
    lengths = found["misalignment.1.gradient_norm"][:, :, :, 0]
    torch.testing.assert_close(lengths[0, 0], lengths[0, 1])
    assert not torch.allclose(lengths[1, 0], lengths[1, 1])


def test_a_large_model_is_read_block_by_block_with_the_same_numbers(monkeypatch):
    from fairaudit.diagnostics import checkpoints

    method, task, made = trained("dpsgd", checkpoints=(5,))
    cut = cut_of(task.pool)
    together = read(method, task, made, [cut], ANGLES)
    monkeypatch.setattr(checkpoints, "SMALL", 0)
    monkeypatch.setattr(checkpoints, "ROWS_AT_ONCE", 7)
    apart = read(method, task, made, [cut], ANGLES)
    assert together.keys() == apart.keys()
    for name, value in together.items():
        torch.testing.assert_close(value, apart[name], rtol=1e-4, atol=1e-5, equal_nan=True)


@each(forms())
def test_reading_draws_no_noise_and_moves_no_parameter(form, monkeypatch):
    task = make_task(form, make_pool(), checkpoints=(0, 9))
    method = form.make()
    made = method.fit(task, [])
    before = made.parameters.clone()

    def refuse(self, out):
        raise AssertionError("noise was drawn")

    monkeypatch.setattr(GaussianNoise, "fill", refuse)
    found = read(method, task, made, [cut_of(task.pool)], ANGLES)
    assert torch.equal(made.parameters, before)
    clips = form.spec.is_private or form.key in ("clipped", "direction-only", "magnitude-only")
    assert bool(found) == clips


def test_a_group_of_few_rows_or_of_no_direction_has_no_angle():
    groups = torch.full((N,), 2)
    groups[:10], groups[10:60] = 0, 1
    pool = learnable()
    method, task, made = trained("dpsgd", pool=pool, checkpoints=(0,))
    found = read(method, task, made, [cut_of(pool, groups=groups)], ANGLES)
    angles = found["misalignment.0.misalignment"][0, 0, :, 0]
    assert math.isnan(angles[0])  # ten rows
    assert math.isfinite(angles[2])
    assert math.isnan(found["misalignment.0.turned"][0, 0, 0, 0])


def test_blocks_are_equal_in_size_follow_from_the_file_and_differ_between_groupings():
    groups = np.array([0] * 205 + [1] * 33 + [2] * 7)[np.random.default_rng(0).permutation(245)]
    blocks = blocks_of(groups, 0)
    for k in range(3):
        sizes = np.bincount(blocks[groups == k], minlength=BLOCKS)
        assert sizes.max() - sizes.min() <= 1
    assert (blocks == blocks_of(groups, 0)).all()
    assert (blocks != blocks_of(groups, 1)).any()


def drawn_apart(alone, task, step, label, count):
    """Batches of single records' gradients: g_B and gbar_B, [M, P] each."""
    stream = numpy_stream(task.seed, "probe", label, step)
    plain, clipped = [], []
    for _ in range(count):
        chosen = np.flatnonzero(stream.random(N) < 1 / STEPS_PER_EPOCH)
        plain.append(alone.g[chosen].sum(0) * STEPS_PER_EPOCH / N)
        clipped.append((alone.factors[chosen, None] * alone.g[chosen]).sum(0) * STEPS_PER_EPOCH / N)
    return np.array(plain), np.array(clipped)


def hessian_of(task, theta, rows):
    """The whole Hessian of the mean cross-entropy of some rows, [P, P] float64."""
    module = copy.deepcopy(task.model).double()
    inputs = task.pool.gather(rows, None).inputs.double()

    def loss(flat):
        logits = torch.func.functional_call(module, laid_out(module, flat), (inputs,))
        return nn.functional.cross_entropy(logits, task.pool.labels[rows])

    return torch.autograd.functional.hessian(loss, theta.double()).numpy()


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("dpsgd", "logistic"),
        ("global-adapt", "logistic"),
        ("dpsgd-f", "logistic"),
        ("global-adapt", "mlp-tanh"),
        pytest.param("dpsgd", "mlp-tanh", marks=pytest.mark.slow),
        pytest.param("dpsgd-f", "mlp-tanh", marks=pytest.mark.slow),
    ],
)
def test_terms_are_those_of_a_loop_over_single_records_and_whole_hessians(key, kind):
    checkpoints = (0, 5) if kind == "logistic" else (5,)  # whole Hessians of a network take seconds
    method, task, made = trained(
        key, checkpoints=checkpoints, noise_multiplier=0.7, model=model(kind)
    )
    cut = cut_of(task.pool)
    amount = Amount(checkpoints, checkpoints, curved=240, batches=8)
    found = read(method, task, made, [cut], amount)
    chosen = stratified(cut.groups, 3, 240, task.seed)
    for c, checkpoint in enumerate(made.checkpoints):
        alone = Alone(key, task, checkpoint)
        eta, groups = checkpoint.learning_rate, cut.groups.numpy()
        count = int(found["misalignment.0.batches"][c])
        pilot = drawn_apart(alone, task, checkpoint.step, "angles", BATCHES)
        plain, clipped = drawn_apart(alone, task, checkpoint.step, "batches", count)
        lengths = [np.linalg.norm(v, axis=1) for v in (*pilot, plain, clipped)]
        typical, rho = (lengths[1] / lengths[0]).mean(), lengths[3] / lengths[2]
        usual = factor_of(key, checkpoint.rule_released, 1e-9, 0)
        every = alone.g.sum(0) / N, (alone.factors[:, None] * alone.g).sum(0) / N
        sensitivity = float(checkpoint.sensitivity[0])
        noise = task.settings["noise_multiplier"] * sensitivity / (N / STEPS_PER_EPOCH)
        for k in range(3):
            rows = chosen[cut.groups[chosen] == k]
            parts = []
            for j in range(BLOCKS):
                slice_ = rows[cut.blocks[rows] == j]
                h = hessian_of(task, checkpoint.parameters[0], slice_)
                some = range(count) if kind == "logistic" else [2 * j % count, (2 * j + 1) % count]
                on_plain = np.array([plain[b] @ h @ plain[b] for b in some])
                on_clipped = np.array([clipped[b] @ h @ clipped[b] for b in some])
                square = rho[list(some)] ** 2
                turned = (square * on_plain - on_clipped).mean()
                shortened = ((usual**2 - square) * on_plain).mean()
                parts.append((len(slice_), turned, shortened, np.trace(h)))
            parts = np.array(parts)
            for j in (0, 4):  # all rows, then all but block 3
                kept = np.arange(BLOCKS) != j - 1
                curved = np.average(parts[kept, 1:], axis=0, weights=parts[kept, 0])
                members = np.flatnonzero((groups == k) & (cut.blocks.numpy() != j - 1))
                mean = alone.g[members].mean(0)
                off = typical * (plain.mean(0) - every[0]) - (clipped.mean(0) - every[1])
                direction = mean @ ((rho[:, None] * plain - clipped).mean(0) - off)
                off = (usual - typical) * (plain.mean(0) - every[0])
                magnitude = mean @ (((usual - rho)[:, None] * plain).mean(0) - off)
                expected = {
                    "direction": eta * direction - eta**2 / 2 * curved[0],
                    "magnitude": eta * magnitude - eta**2 / 2 * curved[1],
                    "step_noise": (eta * noise) ** 2 / 2 * curved[2],
                }
                for name, value in expected.items():
                    ours = float(found[f"misalignment.0.{name}"][c, 0, k, j])
                    size = eta * np.linalg.norm(mean) * lengths[2].mean()  # float32 sums
                    assert ours == pytest.approx(value, rel=1e-3, abs=2e-6 * size), (name, k, j)


@pytest.mark.slow
def test_slices_of_a_model_of_any_make_agree_with_exact_forms_within_their_errors(monkeypatch):
    """200 draws of batches and probes on one step; exact traces and forms of every row."""
    monkeypatch.setattr(step_terms, "traces_of_records", lambda landscape: None)
    method, task, made = trained("dpsgd", checkpoints=(5,), noise_multiplier=0.7)
    checkpoint = made.checkpoints[0]
    cut = cut_of(task.pool)
    reader = StepReader(method, task, checkpoint)
    one = CutReader(cut, task, Amount((5,), (5,), curved=600), 1)
    curvature = CurvatureReader(reader, one.curved)
    values, errors = [], []
    for draw in range(200):
        trace = curvature.traces(draw)
        batches = drawn(reader, f"draw {draw}", 20)
        direction, magnitude = curvature.forms(batches, torch.ones(1))
        read_of = (trace, direction, magnitude)
        values.append([[float(of[k].left_out[0, 0]) for k in range(3)] for of in read_of])
        errors.append([[float(of[k].error[0]) for k in range(3)] for of in read_of])
    values, errors = np.array(values), np.array(errors)
    alone = Alone("dpsgd", task, checkpoint)
    rows = torch.arange(N)
    hessians = [hessian_of(task, checkpoint.parameters[0], rows[cut.groups == k]) for k in range(3)]
    many = [drawn_apart(alone, task, 10**6 + i, "angles", 50) for i in range(40)]
    plain, clipped = (np.concatenate(parts) for parts in zip(*many, strict=True))
    rho = np.linalg.norm(clipped, axis=1) / np.linalg.norm(plain, axis=1)
    for k, h in enumerate(hessians):
        on_plain, on_clipped = (np.einsum("mp,pq,mq->m", v, h, v) for v in (plain, clipped))
        truths = (
            np.trace(h),
            (rho**2 * on_plain - on_clipped).mean(),
            ((1 - rho**2) * on_plain).mean(),
        )
        for of, truth in enumerate(truths):
            off = values[:, of, k].mean() - truth
            assert abs(off) < 4 * values[:, of, k].std() / 200**0.5 + 0.02 * abs(truth), (of, k)
            inside = np.abs(values[:, of, k] - truth) < 2.262 * errors[:, of, k]
            assert inside.mean() > 0.88, (of, k, inside.mean())
