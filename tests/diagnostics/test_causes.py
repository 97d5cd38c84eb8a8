import math

import pytest
import torch
from cases import every_third
from forms import DEFAULTS, FORM, PUBLISHED, each, make_pool, make_task
from steps import RECORDS, a_step, all_batches, small_pool

from fairaudit.diagnostics import causes
from fairaudit.diagnostics.causes import CauseReading, read, stratified
from fairaudit.diagnostics.risk_terms import noise_term, risk_terms
from fairaudit.privacy.noise import GaussianNoise

DPSGD, GLOBAL_ADAPT, SGD = (FORM[key] for key in ("dpsgd", "global-adapt", "sgd"))


def reading_of(form, *, pool=None, **task):
    method = form.make()
    made = make_task(form, pool or make_pool(), checkpoints=(0, 4, 9), **task)
    trained = method.fit(made, [])
    return method, made, trained


def test_full_reads_eigenvalues_clipping_bias_and_noise():
    pool = small_pool()
    step = a_step(
        DPSGD,
        pool=pool,
        max_grad_norm=0.5,
        noise_multiplier=2.0,
        steps_per_epoch=2,
        n_public=RECORDS,
    )
    reading = CauseReading(step.reader.method, step.reader.task)
    found = reading.at(step.reader.checkpoint)
    values = torch.linalg.eigvalsh(step.hessians[:-1])
    torch.testing.assert_close(found["eigenvalue_largest"][0], values[:, -1], rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(found["eigenvalue_smallest"][0], values[:, 0], rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(found["eta_lambda"], step.eta * found["eigenvalue_largest"])
    excess = (step.g.norm(dim=1) - 0.5).clamp_min(0.0)
    assert (excess > 0).any()
    for k in range(2):
        mine = pool.groups[:RECORDS] == k
        assert found["excess_norm"][0, k].item() == pytest.approx(
            float(excess[mine].mean()), rel=1e-4
        )
        # sigma C sqrt(P) over the group's part of an expected batch.
        length = 2.0 * 0.5 * step.g.shape[1] ** 0.5 / (int(mine.sum()) / 2)
        assert found["noise_norm"][0, k].item() == pytest.approx(length)
    assert found["batch_norm"].shape == (1, 2)
    assert found["batch_norm"][0, 1] < found["batch_norm"][0, 0]
    later = reading.at(step.reader.checkpoint, has_spectra=False, has_correlations=False)
    assert later["eta_lambda"].isnan().all()  # not looked for here
    assert torch.equal(later["bound_clip_curved"], found["bound_clip_curved"])


@each(every_third(DEFAULTS))
def test_reading_draws_no_noise_and_moves_no_parameter(form, monkeypatch):
    method, task, trained = reading_of(form)
    before = trained.parameters.clone()
    starts = [p.clone() for p in task.model.parameters()]

    def refuse(self, out):
        raise AssertionError("noise was drawn")

    monkeypatch.setattr(GaussianNoise, "fill", refuse)
    found = read(method, task, trained)
    assert torch.equal(trained.parameters, before)
    assert all(torch.equal(a, b) for a, b in zip(starts, task.model.parameters(), strict=True))
    assert all(value.shape[:2] == (3, 1) for value in found.values())


@each([form for form in PUBLISHED if not form.is_private])
def test_a_form_whose_step_is_not_over_the_expected_batch_has_no_decomposition(form):
    assert read(*reading_of(form)) == {}


def test_the_reference_has_curvature_and_no_terms():
    found = read(*reading_of(SGD))
    means = {"mean_input_norm", "mean_closeness", "correlations"}
    assert set(found) == {"hessian_trace", "hessian_trace_se", *means}
    assert found["correlations"].shape == (3, 1, 3, 3, 3)
    method, task, _ = reading_of(SGD)
    records = CauseReading(method, task).records
    lengths = records.features.norm(dim=1)
    means = [lengths[records.groups == k].mean() for k in range(2)]
    torch.testing.assert_close(found["mean_input_norm"][0, 0, :2].float(), torch.stack(means))


def test_the_terms_are_estimates_of_the_means_over_all_batches(monkeypatch):
    """Within 5 standard errors, once in two million by chance."""
    for name in ("LEAST", "MOST", "PROBES"):
        monkeypatch.setattr(causes, name, 600)
    step = a_step(
        DPSGD,
        pool=small_pool(),
        max_grad_norm=0.5,
        noise_multiplier=2.0,
        steps_per_epoch=2,
        n_public=RECORDS,
    )
    reading = CauseReading(step.reader.method, step.reader.task)
    found = reading.at(step.reader.checkpoint)
    chosen = all_batches()
    batches, means = step.batches(chosen, chosen, expected=RECORDS / 2), step.means()
    exact = risk_terms(batches, means, step.forms(batches, means), step.sampling())
    exact["r_clip"] = exact["r_direction"] + exact["r_magnitude"]
    for term in ("r_direction", "r_magnitude", "r_clip"):
        truth, error = exact[term], found[f"{term}_se"][0]
        assert (error > 0).all()
        assert ((found[term][0] - truth).abs() < 5 * error + 1e-4 * truth.abs()).all(), term
    traces = step.hessians.diagonal(dim1=1, dim2=2).sum(1)
    noise = noise_term(traces, step.sampling(noise_std=2.0 * 0.5 / (RECORDS / 2)))
    torch.testing.assert_close(found["r_noise"][0], noise)
    plain, clipped, group = batches.plain, batches.clipped, means.group[:-1]

    def angles(steps):
        return torch.nn.functional.cosine_similarity(steps.unsqueeze(1), group, dim=2).arccos()

    drawn = plain.norm(dim=1) > 0
    turned = (angles(clipped) - angles(plain))[drawn].rad2deg()
    error = turned.std(0) / 600**0.5
    assert ((found["angle_turned"][0] - turned.mean(0)).abs() < 5 * error).all()


def test_arms_of_one_seed_are_read_on_the_same_batches_and_records(monkeypatch):
    drawn = {}
    original = causes.poisson_batch
    monkeypatch.setattr(causes, "LEAST", causes.MOST)  # else each arm draws as many as it needs

    for form in (DPSGD, GLOBAL_ADAPT):
        monkeypatch.setattr(
            causes,
            "poisson_batch",
            lambda *a, key=form.key: (
                drawn.setdefault(key, []).append(original(*a)) or drawn[key][-1]
            ),
        )
        method, task, trained = reading_of(form)
        read(method, task, trained)
        drawn[f"{form.key} records"] = [CauseReading(method, task).records.features]
    assert all(map(torch.equal, drawn["dpsgd"], drawn["global-adapt"]))
    assert torch.equal(drawn["dpsgd records"][0], drawn["global-adapt records"][0])
    at_a_step = causes.PILOT + causes.MOST
    assert not torch.equal(drawn["dpsgd"][0], drawn["dpsgd"][at_a_step])
    assert not torch.equal(drawn["dpsgd"][0], drawn["dpsgd"][causes.PILOT])


def pilot_of(direction, error, *, magnitude=0.0, noise=0.0, others=0.0):
    """Terms of one group, and of everybody alike."""
    terms = {
        "r_direction": direction,
        "r_direction_se": error,
        "r_noise": noise,
        "r_magnitude_effective": magnitude,
        "r_magnitude_effective_se": others,
    }
    return {name: torch.full((2,), value, dtype=torch.float64) for name, value in terms.items()}


@pytest.mark.parametrize(
    ("pilot", "count"),
    [
        (pilot_of(-1.0, 0.1), 8),  # a tenth of the part already
        (pilot_of(-1.0, 0.2), 32),  # twice too large: four times as many
        (pilot_of(1.0, 0.2, noise=-39.0), 8),  # .4 is a hundredth of all parts
        (pilot_of(1.0, 0.2, magnitude=3.0, others=0.6), 32),
        (pilot_of(1.0, 9.0), 64),  # no more than that
        (pilot_of(0.0, 0.0), 8),  # nothing is clipped
        (pilot_of(math.nan, math.nan), 8),  # an absent group, or no batch was kept
    ],
)
def test_as_many_batches_are_drawn_as_bring_the_error_to_what_is_wanted(pilot, count):
    nothing = pilot_of(0.0, 0.0)
    assert causes.batches_needed([pilot], 10) == count
    assert causes.batches_needed([nothing, pilot], 10) == count
    assert causes.batches_needed([pilot], 2**28 // (2 * 8 * 20)) == min(
        count, 20
    )  # 20 fit the memory
    assert causes.batches_needed([pilot], 10**9) == 8


def test_the_wanted_error_is_reached(monkeypatch):
    steps = {"max_grad_norm": 0.3, "steps_per_epoch": 3, "learning_rate": 0.02}
    counts, needed = [], causes.batches_needed
    monkeypatch.setattr(
        causes, "batches_needed", lambda *given: counts.append(needed(*given)) or counts[-1]
    )
    found = read(*reading_of(DPSGD, pool=make_pool(2000), **steps))
    parts = [found[f"r_{part}"].abs() for part in ("direction", "magnitude_effective")]
    assert all(8 <= count < 64 for count in counts)
    assert len(set(counts)) > 1
    everything = sum(parts) + found["r_noise"].abs()
    for part, name in zip(parts, ("direction", "magnitude_effective"), strict=True):
        wanted = torch.maximum(0.1 * part, 0.01 * everything)
        # A pilot of eight batches knows the spread to within a factor of two.
        assert (found[f"r_{name}_se"] < 2 * wanted).all()


def test_curvature_is_read_from_as_many_records_of_each_group_as_there_are():
    groups = torch.tensor([0] * 900 + [1] * 30 + [2] * 400)
    chosen = stratified(groups, 4, 300, seed=3)
    assert torch.bincount(groups[chosen], minlength=4).tolist() == [135, 30, 135, 0]
    assert len(set(chosen.tolist())) == 300
    assert not torch.equal(chosen, stratified(groups, 4, 300, seed=4))
    assert len(stratified(groups, 4, 5000, seed=0)) == len(groups)
