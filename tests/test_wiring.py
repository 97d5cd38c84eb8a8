"""What a worker hands to a method and keeps of it, against the file and the options read by hand.

Nothing here is computed by what is tested: the rows are read with pandas, standardised with numpy,
and every mean is a loop. Two groupings, three seeds that do not start at 0, repeats, rows without a
group.
"""

import hashlib

import numpy as np
import pandas as pd
import pytest
import recorder
import torch
from changed import replace
from jobs import run_here
from numpy.testing import assert_allclose

from fairaudit.analysis.measure import measure
from fairaudit.config.options import AuditConfig
from fairaudit.data.tabular import load_dataset
from fairaudit.diagnostics.observers import EpochCurves, FactorOfStep
from fairaudit.planning.plan import make_plan
from fairaudit.privacy.events import NoisyRelease, SampledGaussian

SEEDS, REPEATS = (4, 5, 6), 2
SEXES, REGIONS = ("F", "M", "(missing)"), ("E", "N", "S", "(missing)")
PRIVATE = ("dpsgd", "dpsgd#self-check", "global-adapt", "global-adapt#self-check", "dpsgd-matched")
OPTIONS = {
    "group": ("sex", "region"),
    "label": "y",
    "positive": "yes",
    "drop": ("part",),
    "seeds": 3,
    "seed": 4,
    "repeats": REPEATS,
    "method": ("dpsgd", "dpsgd-matched"),
    "self_check": True,
    "model": "mlp",
    "hidden": (5, 3),
    "activation": "relu",
    "optimizer": "momentum",
    "n_public": 50,
    "batch_size": 12,
    "epochs": 2,
    "noise_multiplier": 1.5,
    "delta": 1e-3,
    "learning_rate": 0.25,
    "max_grad_norm": 0.75,
    "memory": 64,
    "diagnostics_every": 3,
    "test_size": 0.25,
    "twins": "always",
    "threshold": 6.0,
    "settings": {
        "global-adapt": {"count_noise_multiplier": 5.0, "max_grad_norm": 0.5, "tolerance": 0.7}
    },
}


FEW = {"method": ("dpsgd",), "self_check": False, "repeats": 1, "seeds": 2, "settings": {}}


def distinct_rows(rows=80):
    """Distinct numbers, so that an input names its row; the last eight rows repeat the first."""
    draw = np.random.default_rng(5)
    frame = pd.DataFrame(
        {
            "x": draw.permutation(rows) / 8,
            "z": draw.normal(size=rows).round(4),
            "sex": draw.choice(["F", "M", ""], rows, p=[0.3, 0.5, 0.2]),
            "region": draw.choice(["N", "S", "E", ""], rows),
            "part": np.where(np.arange(rows) % 7 < 4, "train", "test"),
            "y": draw.choice(["no", "yes"], rows),
        }
    )
    frame.iloc[-8:] = frame.iloc[:8]
    return frame


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("wiring") / "people.csv"
    distinct_rows().to_csv(path, index=False)
    return path


@pytest.fixture(autouse=True, scope="module")
def quick_accountant():
    """Nothing here is about an arm's own epsilon, which takes most of a plan's time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fairaudit.planning.guarantees.epsilon", lambda event, delta, accountant: 1.0)
        patch.setattr("fairaudit.planning.plan.composed_epsilon", lambda runs, delta: 1.0)
        # Every row is a record of its own here; tests/data/test_copies.py is about copies.
        patch.setattr("fairaudit.data.usable.are_copies", lambda columns, first: False)
        yield


class Audit:
    """All jobs of a plan through the worker, with a method that records."""

    def __init__(self, path, **given):
        config = AuditConfig(**{**OPTIONS, "data": path, **given})
        self.frame = pd.read_csv(path, keep_default_na=False) if path.suffix == ".csv" else None
        self.dataset = load_dataset(config)
        made = make_plan(config, self.dataset)
        self.twin_jobs = {(job.arm, job.seed): job for job in made.twins}
        arms = tuple(replace(arm, trainer="recorder:Recorder") for arm in made.arms)
        self.plan = replace(made, arms=arms)
        recorder.claims = {arm.key: arm.privacy.event for arm in arms}
        self.jobs = {(job.arm, job.seed): job for job in made.jobs}
        self.results, self.tasks, self.observers, self.twins = {}, {}, {}, {}
        for place, job in self.jobs.items():
            self.tasks[place], self.observers[place] = self.run(job)
        for place, job in self.twin_jobs.items():
            self.twins[place], observers = self.run(job)
            assert [type(observer) for observer in observers] == [FactorOfStep]

    def run(self, job):
        """Run a job; the task and the observers that its method was handed."""
        recorder.handed.clear()
        self.results[job.id] = run_here(self.plan, job, self.results.get(job.source_id))
        (handed,) = recorder.handed
        return handed

    def result(self, arm, seed):
        return self.results[self.jobs[arm, seed].id]

    def quiet(self, arm, seed):
        """What the job of an arm's twins left."""
        return self.results[self.twin_jobs[arm, seed].id]

    def codes(self, column, names):
        return np.array([names.index(value or "(missing)") for value in self.frame[column]])

    @property
    def labels(self):
        return np.array([["no", "yes"].index(value) for value in self.frame["y"]])

    def inputs(self, train, rows):
        """[n, 2]: both numbers, standardised by the training rows."""
        numbers = self.frame[["x", "z"]].to_numpy(float)
        return (numbers[rows] - numbers[train].mean(0)) / numbers[train].std(0)

    def second(self, arm, seed, rows, more=0.0):
        """What the recorder says of rows, [R, n]."""
        task, groups = self.tasks[arm, seed], self.codes("sex", SEXES)
        return recorder.second_class(
            self.inputs(task.records, rows)[:, 0], groups[rows], task.repeats, more
        )

    def right(self, arm, seed, rows, more=0.0):
        """Whether the recorder is right about rows, [R, n]."""
        return (self.second(arm, seed, rows, more) > 0.5) == self.labels[rows]


@pytest.fixture(scope="module")
def wired(file):
    return Audit(file)


def test_a_training_is_given_the_numbers_of_the_options(wired):
    adapt = {
        "max_grad_norm": 0.5,
        "threshold": 6.0,
        "tolerance": 0.7,
        "count_noise_multiplier": 5.0,
    }
    assert list(wired.tasks) == [(arm.key, seed) for seed in SEEDS for arm in wired.plan.arms]
    assert {arm for arm, _ in wired.tasks} == {"sgd", *PRIVATE}
    for (arm, seed), task in wired.tasks.items():
        assert (task.arm, task.seed, task.repeats) == (arm, seed, 1 if arm == "sgd" else REPEATS)
        assert task.optimizer == "momentum"
        assert (task.steps_per_epoch, task.epochs, task.n_public) == (5, 2, 50)  # ceil(50 / 12)
        assert task.budget == 64 * 2**20
        assert task.device == torch.device("cpu")
        kept = set() if arm == "sgd" else set(wired.plan.amount_read(10).steps)
        assert len(kept) > 1 or arm == "sgd"
        assert kept <= set(task.checkpoints) <= set(range(10))
        assert (len(task.checkpoints) == 0) == (arm == "sgd")
        assert task.public is None
        scaled = arm.startswith(("global-adapt", "dpsgd-matched"))
        assert task.settings["learning_rate"] == (0.25 * 6.0 / 0.5 if scaled else 0.25)
        if arm != "sgd":
            assert task.settings["noise_multiplier"] == 1.5
        if arm.startswith("dpsgd"):
            assert task.settings["max_grad_norm"] == (0.5 if arm == "dpsgd-matched" else 0.75)
        if arm.startswith("global-adapt"):
            assert {name: task.settings[name] for name in adapt} == adapt


def test_the_reference_shares_its_batches_with_the_first_repeat_and_with_nothing_else(wired):
    expected = {
        "sgd": ["shared"],
        "dpsgd": ["shared", "dpsgd/1"],
        "global-adapt": ["shared", "global-adapt/1"],
        "dpsgd-matched": ["shared", "dpsgd-matched/1"],
        "dpsgd#self-check": ["dpsgd#self-check/0", "dpsgd#self-check/1"],
        "global-adapt#self-check": ["global-adapt#self-check/0", "global-adapt#self-check/1"],
    }
    assert {key: list(task.sampling) for key, task in wired.tasks.items()} == {
        (arm, seed): labels for arm, labels in expected.items() for seed in SEEDS
    }


def test_the_model_is_the_one_asked_for_and_a_seeds_arms_start_alike(wired):
    starts = {}
    for (_, seed), task in wired.tasks.items():
        weights = [p.detach() for p in task.model.parameters()]
        assert [tuple(w.shape) for w in weights] == [(5, 2), (5,), (3, 5), (3,), (2, 3), (2,)]
        x = torch.linspace(-2, 2, 14).view(7, 2)
        hidden = x
        for weight, bias in ((weights[0], weights[1]), (weights[2], weights[3])):
            hidden = (hidden @ weight.T + bias).clamp(min=0)
        torch.testing.assert_close(task.model(x), hidden @ weights[4].T + weights[5])
        starts.setdefault(seed, set()).add(
            torch.cat([w.flatten() for w in weights]).numpy().tobytes()
        )
    assert [len(found) for found in starts.values()] == [1, 1, 1]
    assert len(set.union(*starts.values())) == 3


def test_a_training_reads_the_files_rows_of_its_seed(wired):
    sexes, splits = wired.codes("sex", SEXES), {}
    for (arm, seed), task in wired.tasks.items():
        rows, pool = task.records, task.pool
        batch = pool.gather(torch.arange(pool.n_records), None)
        assert_allclose(batch.inputs, wired.inputs(rows, rows), rtol=1e-5, atol=1e-6)
        assert batch.targets.argmax(-1).tolist() == wired.labels[rows].tolist()
        assert pool.labels[:-1].tolist() == wired.labels[rows].tolist()
        assert batch.group.tolist() == pool.groups[:-1].tolist() == sexes[rows].tolist()
        assert (pool.n_classes, pool.n_groups) == (2, 3)
        tested = wired.result(arm, seed).arrays["test_rows"]
        assert sorted([*rows, *tested]) == list(range(80))
        assert len(tested) == 20
        per_group = np.bincount(sexes[tested], minlength=3) - 0.25 * np.bincount(sexes, minlength=3)
        assert (abs(per_group) < 1).all()  # stratified by the first grouping
        splits.setdefault(seed, set()).add((tuple(rows), tuple(tested)))
    assert [len(found) for found in splits.values()] == [1, 1, 1]
    assert len(set.union(*splits.values())) == 3


def test_a_control_reads_what_its_source_released_at_the_same_seed(wired):
    for (arm, seed), task in wired.tasks.items():
        if arm == "dpsgd-matched":
            expected = [recorder.threshold("global-adapt", seed, step, REPEATS) for step in (1, 3)]
            assert {name: series.tolist() for name, series in task.source.items()} == {
                "threshold": expected
            }
            assert wired.jobs[arm, seed].source_id == wired.jobs["global-adapt", seed].id
        else:
            assert task.source == {}


def test_a_twin_is_the_same_training_without_noise(wired):
    """Of every noisy arm but those that check the audit; side queries are answered exactly, too."""
    assert set(wired.twins) == {
        (arm, seed) for arm, seed in wired.tasks if "#" not in arm and arm != "sgd"
    }
    zeroed = {"dpsgd": 1, "dpsgd-matched": 1, "global-adapt": 2}
    for place, twin in wired.twins.items():
        task, settings = wired.tasks[place], dict(twin.settings)
        changed = {name for name in settings if settings[name] != task.settings[name]}
        assert changed == {"noise_multiplier", "count_noise_multiplier"} & set(settings)
        assert len(changed) == zeroed[place[0]]
        assert {settings[name] for name in changed} == {0.0}
        plain = ("arm", "seed", "repeats", "optimizer", "steps_per_epoch", "epochs", "n_public")
        for name in (*plain, "sampling", "budget", "device"):
            assert getattr(twin, name) == getattr(task, name), name
        assert twin.records.tolist() == task.records.tolist()
        for series, values in task.source.items():
            assert twin.source[series].tolist() == values.tolist()
        start = twin.model.state_dict()
        for name, values in task.model.state_dict().items():
            assert torch.equal(start[name], values)
        tested = wired.result(*place).arrays["test_rows"]
        expected = wired.second(*place, tested, recorder.TWIN)
        found = wired.quiet(*place).arrays["without_noise.probabilities"]
        assert_allclose(found[..., 1], expected, atol=1e-5)


def test_a_cost_is_what_it_is_without_noise_and_what_noise_adds(wired):
    """Both parts by hand, in accuracy and loss, for groups and all rows."""
    compared = {
        (c.arm, c.reference): c
        for c in measure(wired.plan, wired.dataset, wired.results)
        if c.grouping == "sex"
    }
    assert not any(
        ".noise" in name for name in compared["dpsgd#self-check", "dpsgd"].overall.estimates
    )
    codes = wired.codes("sex", SEXES)
    for arm in ("dpsgd", "global-adapt"):
        of_group = {
            g.group: g.estimates
            for g in (*compared[arm, "sgd"].by_group, compared[arm, "sgd"].overall)
        }
        for name, estimates in of_group.items():
            means = []
            for of, more in (("sgd", 0.0), (arm, recorder.TWIN), (arm, 0.0)):
                figures = []
                for seed in SEEDS:
                    rows = wired.result(of, seed).arrays["test_rows"]
                    rows = rows[codes[rows] == SEXES.index(name)] if name else rows
                    second = wired.second(of, seed, rows, more)
                    said = np.where(wired.labels[rows] == 1, second, 1 - second)
                    figures.append([(said > 0.5).mean(), -np.log(said).mean()])
                means.append(np.mean(figures, 0))
            plain, twin, noisy = means
            expected = {
                "privacy_cost.step_and_clipping": plain[0] - twin[0],
                "privacy_cost.noise": twin[0] - noisy[0],
                "excess_risk.step_and_clipping": twin[1] - plain[1],
                "excess_risk.noise": noisy[1] - twin[1],
            }
            assert {key: estimates[key].value for key in expected} == pytest.approx(
                expected, abs=1e-5
            )
            for cost in ("privacy_cost", "excess_risk"):
                parts = (
                    estimates[f"{cost}.step_and_clipping"].value + estimates[f"{cost}.noise"].value
                )
                assert parts == pytest.approx(estimates[cost].value)


def test_a_cost_against_a_constant_model_is_by_the_training_rows_shares(wired):
    (found,) = (
        c
        for c in measure(wired.plan, wired.dataset, wired.results)
        if (c.arm, c.grouping) == ("dpsgd", "sex")
    )
    risks, costs = [], []
    for seed in SEEDS:
        rows = wired.result("dpsgd", seed).arrays["test_rows"]
        share = wired.labels[wired.tasks["dpsgd", seed].records].mean()
        assert wired.result("dpsgd", seed).arrays["train_classes"].tolist() == [
            round(60 * (1 - share)),
            round(60 * share),
        ]
        second, labels = wired.second("dpsgd", seed, rows), wired.labels[rows]
        constant = -np.log(np.where(labels == 1, share, 1 - share)).mean()
        risks.append(-np.log(np.where(labels == 1, second, 1 - second)).mean() - constant)
        costs.append((labels == (share > 0.5)).mean() - wired.right("dpsgd", seed, rows).mean())
    estimates = found.overall.estimates
    assert estimates["excess_risk.constant"].value == pytest.approx(np.mean(risks), abs=1e-5)
    assert estimates["privacy_cost.constant"].value == pytest.approx(np.mean(costs))
    assert not any(gap.metric.endswith("constant") for gap in found.gaps)


def test_facts_are_those_of_the_training(wired):
    rows_of = [tuple(row) for row in wired.frame.itertuples(index=False)]
    doubled = []
    for (arm, seed), task in wired.tasks.items():
        facts, tested = wired.result(arm, seed).facts, wired.result(arm, seed).arrays["test_rows"]
        assert facts["n_train"] == 60
        assert facts["inputs"] == ["x", "z"]
        trained = {rows_of[row] for row in task.records}
        doubled.append(sum(rows_of[row] in trained for row in tested))
        assert facts["duplicates_across_split"] == doubled[-1]
        weights = np.arange(3.0 * task.repeats, dtype=np.float32) + seed
        assert facts["params_sha256"] == hashlib.sha256(weights.tobytes()).hexdigest()
        assert facts["parameters"] == 3
        side = [NoisyRelease("count", 5.0)] if arm.startswith("global-adapt") else []
        event = SampledGaussian(5, 10, (NoisyRelease("gradient", 1.5), *side))
        assert facts["event"] == (
            None
            if arm == "sgd"
            else {
                "kind": "sampled-gaussian",
                "steps_per_epoch": 5,
                "steps": 10,
                "releases": [
                    {"name": r.name, "noise_multiplier": r.noise_multiplier} for r in event.releases
                ],
            }
        )
        assert ("sklearn_baseline" in facts) == (arm == "sgd")
    assert 0 < min(doubled) < max(doubled)


def test_the_baseline_is_fitted_on_training_rows_and_read_on_test_rows(wired):
    from sklearn.linear_model import LogisticRegression

    for seed in SEEDS:
        train, tested = (
            wired.tasks["sgd", seed].records,
            wired.result("sgd", seed).arrays["test_rows"],
        )
        model = LogisticRegression(tol=1e-3, max_iter=200)
        model.fit(wired.inputs(train, train).astype(np.float32), wired.labels[train])
        score = model.score(wired.inputs(train, tested).astype(np.float32), wired.labels[tested])
        found = wired.result("sgd", seed).facts["sklearn_baseline"]
        assert found["accuracy"] == pytest.approx(score)


def test_series_are_kept_with_the_steps_that_they_were_read_at(wired):
    for arm, seed in wired.tasks:
        arrays, repeats = wired.result(arm, seed).arrays, wired.tasks[arm, seed].repeats
        expected = [recorder.threshold(arm, seed, step, repeats) for step in (1, 3)]
        assert arrays["trace.threshold"].tolist() == expected
        assert arrays["trace_steps.threshold"].tolist() == [1, 3]
        if arm == "dpsgd":  # the mean over steps
            assert arrays["reading.group_noise_multiplier"] == pytest.approx([1.5, 3.0, 6.0])


def test_readers_are_the_options(wired, file):
    for observers in wired.observers.values():
        (curves,) = observers
        assert isinstance(curves, EpochCurves)
    few = {"seeds": 1, "repeats": 1, "method": ("dpsgd",), "self_check": False}
    assert set(map(len, Audit(file, diagnostics="off", **few).observers.values())) == {0}
    full = Audit(file, diagnostics="full", **few)
    assert {tuple(task.checkpoints) for task in full.tasks.values()} == {(0, 3, 6, 9)}
    whole = Audit(file, diagnostics="full", diagnostics_every=None, **few)
    assert {tuple(task.checkpoints) for task in whole.tasks.values()} == {(0, 1, 3, 4, 5, 6, 8, 9)}


# --- other ways to come by rows
# ----------------------------------------------------------------------


def test_undersampling_takes_other_rows_of_a_group_at_every_seed(file):
    balanced, thinned = Audit(file, balance=True, **FEW), Audit(file, keep={"M": 0.5}, **FEW)
    sexes = balanced.codes("sex", SEXES)
    few = np.bincount(sexes)[:2].min()
    for (arm, seed), task in balanced.tasks.items():
        used = [*task.records, *balanced.result(arm, seed).arrays["test_rows"]]
        assert np.bincount(sexes[used], minlength=3).tolist() == [few, few, 0]
    for (arm, seed), task in thinned.tasks.items():
        tested = thinned.result(arm, seed).arrays["test_rows"]
        left = np.bincount(sexes) - np.bincount(sexes[tested], minlength=3)
        left[1] = round(left[1] / 2)
        assert np.bincount(sexes[task.records], minlength=3).tolist() == left.tolist()
    for found in (balanced, thinned):
        first, second = (found.tasks["sgd", seed].records for seed in (4, 5))
        assert set(first[sexes[first] == 1]) != set(second[sexes[second] == 1])
        task = found.tasks["dpsgd", 5]
        inputs = task.pool.gather(torch.arange(3), None).inputs
        expected = found.inputs(task.records, task.records[:3])
        assert_allclose(inputs, expected, rtol=1e-5, atol=1e-6)


def test_a_student_is_given_the_public_file_and_teachers_are_encoded_by_it(tmp_path):
    table, public = distinct_rows(300), distinct_rows(90).drop(columns="y")
    public["x"] = public["x"] * 3 + 1
    public["sex"] = public["sex"].replace("", "F")
    table.to_csv(tmp_path / "people.csv", index=False)
    public.to_csv(tmp_path / "public.csv", index=False)
    given = {
        "method": ("pate-hard",),
        "settings": {"pate-hard": {"teachers": 3.0}},
        "model": "logistic",
    }
    found = Audit(
        tmp_path / "people.csv",
        **{**FEW, **given},
        public_data=tmp_path / "public.csv",
        n_public=None,
        diagnostics="off",
    )
    own = {arm for arm, _ in found.tasks if arm.startswith("pate")}
    assert own == {"pate-hard", "pate-hard-clean"}
    assert found.tasks["sgd", 4].records.tolist() != found.tasks["sgd", 5].records.tolist()
    numbers, shown = (frame[["x", "z"]].to_numpy(float) for frame in (table, public))
    centre, spread = shown.mean(0), shown.std(0)
    for (arm, seed), task in found.tasks.items():
        assert task.records.tolist() == found.tasks["sgd", seed].records.tolist()
        inputs = task.pool.gather(torch.arange(task.pool.n_records), None).inputs
        by = (
            (centre, spread)
            if arm in own
            else (numbers[task.records].mean(0), numbers[task.records].std(0))
        )
        assert_allclose(inputs, (numbers[task.records] - by[0]) / by[1], rtol=1e-4, atol=1e-5)
        assert (task.public is None) == (arm not in own)
        if arm in own:
            assert_allclose(
                task.public.features[:], (shown - centre) / spread, rtol=1e-4, atol=1e-5
            )
            assert task.public.groups.tolist() == [SEXES.index(value) for value in public["sex"]]
            assert task.sampling == ([f"{arm}/0"])


@pytest.mark.parametrize(
    ("given", "scaled"),
    [
        ({"pixel_range": "unit"}, lambda pixels: pixels / 255),
        ({}, lambda pixels: pixels / 127.5 - 1),
        ({"channels": "rgb"}, lambda pixels: np.repeat(pixels / 127.5 - 1, 3, axis=-1)),
        ({"model": "logistic"}, lambda pixels: (pixels / 127.5 - 1).reshape(len(pixels), -1)),
    ],
)
def test_images_reach_a_training_pixel_by_pixel(tmp_path, given, scaled):
    draw = np.random.default_rng(3)
    pixels = draw.integers(0, 256, (40, 6, 7, 1), dtype=np.uint8)
    sex, y = draw.integers(0, 2, 40), np.arange(40) % 2
    np.savez(tmp_path / "images.npz", images=pixels, sex=sex, y=y)
    few = {
        **FEW,
        "group": ("sex",),
        "positive": None,
        "drop": (),
        "model": "cnn",
        "batch_size": 8,
        "n_public": None,
    }
    found = Audit(tmp_path / "images.npz", **{**few, **given})
    for (arm, seed), task in found.tasks.items():
        rows, tested = task.records, found.result(arm, seed).arrays["test_rows"]
        batch = task.pool.gather(torch.arange(task.pool.n_records), None)
        assert_allclose(batch.inputs, scaled(pixels[rows].astype(float)), atol=1e-6)
        assert batch.targets.argmax(-1).tolist() == y[rows].tolist()
        assert batch.group.tolist() == sex[rows].tolist()
        first = scaled(pixels[tested].astype(float)).reshape(len(tested), -1)[:, 0]
        expected = recorder.second_class(first, sex[tested], 1)
        assert_allclose(
            found.result(arm, seed).arrays["probabilities"][..., 1], expected, atol=1e-5
        )


# --- from results to comparisons
# ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def measured(wired):
    return measure(wired.plan, wired.dataset, wired.results)


@pytest.mark.parametrize(("column", "names"), [("sex", SEXES), ("region", REGIONS)])
def test_what_is_measured_is_what_was_predicted_for_each_arm_seed_and_group(
    wired, measured, column, names
):
    codes = wired.codes(column, names)
    compared = {c.arm: c for c in measured if c.grouping == column}
    assert set(compared) == {"sgd", *PRIVATE}
    for arm, comparison in compared.items():
        reference = arm.removesuffix("#self-check") if "#" in arm else "sgd"
        assert comparison.reference == ("" if arm == "sgd" else reference)
        assert [measure.group for measure in comparison.by_group] == list(names)
        assert "rows of this file" in comparison.estimand  # a split for every seed
        for k, group in enumerate((*comparison.by_group, comparison.overall)):
            own = _accuracies(wired, arm, codes, k, len(names))
            assert group.estimates["accuracy"].value == pytest.approx(np.mean(own["test"]))
            assert group.n_train == pytest.approx(np.mean(own["trained"]))
            assert group.n_test == own["tested"]
            if arm != "sgd":
                other = _accuracies(wired, reference, codes, k, len(names))
                cost = np.subtract(other["test"], own["test"])
                assert group.estimates["privacy_cost"].value == pytest.approx(np.mean(cost))
                assert group.estimates["privacy_cost"].by_seed == pytest.approx(cost)


def _accuracies(wired, arm, codes, k, count):
    """Of group k, or of all where k is K: seed by seed, over the repeats."""
    right, trained, tested = [], [], set()
    for seed in SEEDS:
        of_group = (codes == k) | (k == count)
        rows = wired.result(arm, seed).arrays["test_rows"]
        rows = rows[of_group[rows]]
        right.append(wired.right(arm, seed, rows).mean())
        trained.append(of_group[wired.tasks[arm, seed].records].sum())
        tested.update(rows)
    return {"test": right, "trained": trained, "tested": len(tested)}


@pytest.mark.parametrize("lost", ["sgd", "dpsgd"])
def test_a_seed_that_one_arm_lost_is_left_out_of_the_other_though_the_rows_are_equal(file, lost):
    found = Audit(file, split_column="part", drop=(), **{**FEW, "seeds": 3})
    rows = np.flatnonzero(found.frame["part"] == "test")
    for place, task in found.tasks.items():
        assert task.records.tolist() == np.flatnonzero(found.frame["part"] == "train").tolist()
        assert found.result(*place).arrays["test_rows"].tolist() == rows.tolist()
    # Over equal rows the recorder answers alike at every seed: here each training is right about a
    # few of its own number of rows, so that no two pairs have one difference.
    known = dict(zip(found.jobs, (3, 5, 10, 14, 21, 28), strict=True))
    results = {}
    for key, job in found.jobs.items():
        right = np.arange(len(rows)) < known[key]
        second = np.where(right == (found.labels[rows] == 1), 0.9, 0.1)
        arrays = {"probabilities": np.stack([1 - second, second], -1)[None].astype(np.float32)}
        results[job.id] = replace(
            found.results[job.id], arrays={**found.results[job.id].arrays, **arrays}
        )
    del results[found.jobs[lost, 4].id]
    (cost,) = (
        c.overall.estimates["privacy_cost"]
        for c in measure(found.plan, found.dataset, results)
        if (c.arm, c.grouping) == ("dpsgd", "sex")
    )
    expected = [(known["sgd", seed] - known["dpsgd", seed]) / len(rows) for seed in (5, 6)]
    assert cost.by_seed == pytest.approx(expected)
