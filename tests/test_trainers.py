"""Trainers of the user's own.

What they are handed, what is checked of answers, what is said of them.
"""

import itertools
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fairaudit
from fairaudit.choosing.choose import candidates
from fairaudit.config.value_sources import resolve_config
from fairaudit.data.encode import encode
from fairaudit.data.split import draw_split
from fairaudit.data.tabular import load_dataset
from fairaudit.errors import ConfigError, FairauditError, TrainerError
from fairaudit.release.planned import Request as Wish
from fairaudit.release.planned import plan_release
from fairaudit.results.jobs import read_result
from fairaudit.trainers.child import Request, Trained
from fairaudit.trainers.process import answer_of

OUT = map("out-{}".format, itertools.count())
OWN = """
import math, os, sys, time
import numpy as np
import pandas as pd
import fairaudit

class Shares:
    claimed = None
    def __init__(self, weights): self.weights = weights
    def predict_proba(self, features):
        features = np.asarray(features)
        upper = 1 / (1 + np.exp(-(features @ self.weights[:-1] + self.weights[-1])))
        return np.stack([1 - upper, upper], 1)

def fitted(data, privacy, seed):
    draw = np.random.default_rng(seed)
    x = np.hstack([data.features, np.ones((len(data.labels), 1))])
    w = np.zeros(x.shape[1])
    for _ in range(30):
        w -= 2 * x.T @ (1 / (1 + np.exp(-x @ w)) - data.labels) / len(x)
    return Shares(w if privacy is None else w + draw.normal(size=len(w)) / privacy.epsilon)

def plain(data, privacy, seed):
    model = fitted(data, privacy, seed)
    if privacy is not None:
        share = {0: 0.5, 1: 1.0}.get(seed, 0.25)  # the largest claim is neither first nor last
        claim = privacy.epsilon * share, privacy.delta, "a row", "add or remove", "none"
        model.claimed = fairaudit.Privacy(*claim)
    return model

def seen(data, privacy, seed):
    assert isinstance(data, fairaudit.TrainingData)
    assert data.groups is None and data.group_names == ()
    assert (data.classes, data.names) == (("no", "yes"), ("a", "b"))
    assert (data.features.dtype, data.labels.dtype) == (np.float32, np.int64)
    data.features[:] = 0  # its own copy: what is predicted later is whole
    data.labels[:] = 0
    model = Shares(np.array([2.0, 0.0, privacy.epsilon * seed]))
    model.claimed = fairaudit.Privacy(2, 1e-6, "a row", "add or remove one", "by hand")
    return model

def hangs(data, privacy, seed):
    for _ in range(2):
        os.fork()
    print("still here", flush=True)
    open(f"alive-{os.getpid()}", "w").close()
    time.sleep(6000)

def prints(data, privacy, seed):
    for _ in range(200):
        print("x" * 10_000)
    raise RuntimeError("after all that")

def raw(data, privacy, seed):
    assert list(data.features.columns) == ["x", "job", "sex"]
    assert set(data.features["job"]) == {"a", "b"}
    assert data.group_names == ("F", "M", "X") and set(data.groups) == {0, 1, 2}
    assert [data.group_names[g] for g in data.groups] == list(data.features["sex"])
    assert len(data.groups) == len(data.features) == len(data.labels)
    data.features["x"] = 0
    def predict(features):
        assert list(features.columns) == ["x", "job", "sex"] and features["x"].any()
        return np.full((len(features), 2), 0.5)
    return predict

def asks(data, privacy, seed):
    return data.features[["x", "sex"]]

def draws(data, privacy, seed):
    model = fitted(data, None, seed)
    model.weights = model.weights + np.random.default_rng().normal(size=len(model.weights)) / 10
    model.claimed = fairaudit.Privacy(9, 0) if seed else None
    return model

def beyond(data, privacy, seed):
    model = fitted(data, privacy, seed)
    model.claimed = fairaudit.Privacy(9, 0)
    return model

def fails(data, privacy, seed):
    if seed == 1 and privacy is not None and not os.path.exists("mended"):
        print("about to fail")
        raise ValueError("never at seed 1")
    return fitted(data, privacy, seed)

def never(data, privacy, seed):
    open(f"seed-{seed}-{privacy is None}", "w").close()
    if privacy is not None:
        raise ValueError("never works")
    return fitted(data, None, seed)

def shifted(data, privacy, seed, settings):
    shift = settings.get("shift", 2.0)
    model = fitted(data, None, seed)
    if privacy is not None:
        model.weights[-1] += shift + (0.0 if math.isinf(privacy.epsilon) else 1 / privacy.epsilon)
        model.claimed = fairaudit.Privacy(privacy.epsilon, privacy.delta)
    return model.predict_proba

shifted.supports_no_noise = True
shifted.settings = {"shift": fairaudit.Range(-0.01, 0.01)}
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with a table and trainers, in which commands are given."""
    folder = tmp_path_factory.mktemp("home")
    draw = np.random.default_rng(5)
    people = pd.DataFrame({"x": draw.normal(size=300), "sex": draw.choice(["F", "M", "X"], 300)})
    people["job"] = np.where(np.arange(300) % 3, "a", "b")
    people["y"] = (people["x"] + draw.normal(size=300) > 0).astype(int)
    people.to_csv(folder / "people.csv", index=False)
    (folder / "own.py").write_text(OWN)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        patched.syspath_prepend(str(folder))
        yield folder
    sys.modules.pop("own", None)


def asked(**options):
    quick = {"group": "sex", "label": "y", "seeds": 2, "epochs": 1, "workers": 1}
    return quick | {"out": next(OUT), "format": "json", "diagnostics": "off", **options}


def audited(trainer, **options):
    return fairaudit.run_audit("people.csv", trainer=trainer, **asked(**options))


def request(trainer, **given):
    """What a training is handed, made by hand: features [n, 2], two classes."""
    draw = np.random.default_rng(1)
    features = draw.normal(size=(40, 2)).astype(np.float32)
    labels = (features[:, 0] > 0).astype(np.int64)
    data = fairaudit.TrainingData(features, labels, None, ("no", "yes"), names=("a", "b"))
    test = draw.normal(size=(9, 2)).astype(np.float32)
    return replace(Request(trainer, data, fairaudit.Privacy(1, 1e-5), test=test), **given)


def codes_of(report):
    return {(warning.code, warning.arm) for warning in report.warnings}


def test_a_trainer_gets_its_seeds_records_and_predicts_the_test_rows(home):
    given = request("own:seen", seed=3)
    answer = answer_of(given, Trained)
    for features, rows in ((given.test, answer.test), (given.data.features, answer.train)):
        upper = 1 / (1 + np.exp(-(2.0 * features[:, 0].astype(float) + 3.0)))
        np.testing.assert_allclose(rows, np.stack([1 - upper, upper], 1), atol=1e-6)
        assert rows.dtype == np.float32
    claim = fairaudit.Privacy(**answer.claimed)
    assert claim == fairaudit.Privacy(2.0, 1e-6, "a row", "add or remove one", "by hand")


FAILS = {
    "raise ValueError('no\\nsecond line')": "ValueError: no (fails.py, line",
    "sys.exit('bye')": "SystemExit: bye",
    "os._exit(0)": "exit code 0",
    "os.kill(os.getpid(), 9)": "signal 9",
    "np.ones((400, 2**20)).sum()": "--trainer-memory",
    "return None": "NoneType",
    "m = fitted(data, None, 0); m.claimed = 'eps 1'; return m": "claimed is a str",
    "m = fitted(data, None, 0); m.classes_ = [1, 0]; return m": "classes_ are 1, 0",
    "return lambda f: np.full((len(f), 3), 1/3)": "[9, 3] for 9 rows of 2 classes",
    "return lambda f: np.full((len(f), 2), np.nan)": "not finite in 9 of 9 rows",
    "return lambda f: np.full((len(f), 2), .7)": "add up to 1 or are negative in 9 of 9 rows",
    "return lambda f: np.tile([1.5, -.5], (len(f), 1))": "are negative in 9 of 9 rows",
    "return lambda f: 'no idea'": "a str that is no array",
    "return lambda f: 1 / 0": "predict_proba of fails:train raised ZeroDivisionError",
}


@pytest.mark.parametrize("body", FAILS)
def test_what_cannot_be_used_is_told_in_one_line(home, body):
    (home / "fails.py").write_text(f"{OWN}\ndef train(data, privacy, seed):\n    {body}\n")
    with pytest.raises(TrainerError) as error:
        answer_of(request("fails:train", memory=600), Trained)
    assert FAILS[body] in str(error.value)
    assert "\n" not in str(error.value)
    assert "fairaudit/" not in error.value.log  # the traceback is theirs, never ours
    raises = "raise" in body or "exit('" in body or "1 / 0" in body or "ones" in body
    assert ("fails.py" in error.value.log) == raises


def test_a_training_that_hangs_is_ended_with_all_that_it_forked(home, monkeypatch):
    communicate = subprocess.Popen.communicate

    def from_when_it_hangs(process, content, timeout):
        process.stdin.write(content)
        process.stdin.close()
        process.stdin = None
        while len(list(home.glob("alive-*"))) < 4:
            time.sleep(0.05)
        return communicate(process, None, timeout)

    monkeypatch.setattr(subprocess.Popen, "communicate", from_when_it_hangs)
    with pytest.raises(TrainerError, match="--trainer-timeout") as error:
        answer_of(request("own:hangs", timeout=0.5), Trained)
    assert "still here" in error.value.log
    started = [int(path.name.partition("-")[2]) for path in home.glob("alive-*")]
    while any(map(is_alive, started)):  # what is killed is buried by and by
        time.sleep(0.05)


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False


def test_a_training_ends_with_whoever_asked_for_it(home):
    asks = """
from fairaudit.trainers.child import Request, Trained, TrainingData
from fairaudit.trainers.process import answer_of
answer_of(Request("own:hangs", TrainingData(None, None, None, ())), Trained)
"""
    for path in home.glob("alive-*"):
        path.unlink()
    asking = subprocess.Popen([sys.executable, "-c", asks], cwd=home)
    while len(list(home.glob("alive-*"))) < 4:
        time.sleep(0.05)
    asking.kill()
    asking.wait()
    while any(is_alive(int(path.name.partition("-")[2])) for path in home.glob("alive-*")):
        time.sleep(0.05)


def test_what_is_printed_is_kept_to_its_end(home):
    with pytest.raises(TrainerError, match="after all that") as error:
        answer_of(request("own:prints"), Trained)
    assert 2**16 < len(error.value.log) < 70_000
    assert error.value.log.rstrip().endswith("RuntimeError: after all that")


REFUSED = [
    ("train = 3", {}, "is not a function"),
    ("def fit(data, privacy, seed): ...", {}, "nothing:train is not there"),
    ("def train(data): ...", {}, "does not take three arguments"),
    ("import no_such_library", {}, "ModuleNotFoundError: No module named 'no_such_library'"),
    ("train.settings = {'a': fairaudit.Range(0, 1)}", {}, "does not take four arguments"),
    ("train.settings = {'a': (0, 1)}", {}, "setting 'a' is no fairaudit.Range"),
    ("", {"trainer": "no_such_module:train"}, "no module 'no_such_module'"),
    ("", {"trainer": "nothing"}, "names no function"),
    ("", {"tune": 2}, "nothing:train declares no settings"),
    ("", {"noise_multiplier": 1.0}, "is asked for an epsilon"),
    ("", {"trainer": None, "raw": True}, "--raw is about --trainer"),
    ("", {"trainer": lambda data, privacy, seed: None}, "is held by no module"),
]


@pytest.mark.parametrize(("body", "options", "said"), REFUSED)
def test_what_cannot_be_audited_is_refused_before_anything_is_trained(home, body, options, said):
    trains = "def train(data, privacy, seed): open('trained', 'w').close()\n"
    if "settings" in body or not body:
        body = f"import fairaudit\n{trains}{body}"
    (home / "nothing.py").write_text(body + "\n")
    with pytest.raises(ConfigError) as error:
        audited(**{"trainer": "nothing:train", **options})
    assert said in str(error.value)
    assert not (home / "trained").exists()


@pytest.mark.parametrize("ends", [(1, 1), (0, 1, True), (0, float("inf")), (float("nan"), 1)])
def test_a_range_has_ends_that_are_apart(ends):
    with pytest.raises(ValueError, match="is no range"):
        fairaudit.Range(*ends)


@pytest.mark.parametrize("option", ["trainer", "synthesizer"])
def test_an_option_file_that_was_only_found_may_not_name_code(tmp_path, option):
    (tmp_path / "fairaudit.toml").write_text(f'data = "people.csv"\n{option} = ["own:plain"]\n')
    with pytest.raises(ConfigError, match="runs code"):
        resolve_config({}, folder=tmp_path)


# --- an audit


OPTIONS = {"seeds": 3, "epsilon": [2, 4], "self_check": True, "repeats": 2, "out": "out"}


@pytest.fixture(scope="module")
def plain(home):
    """An audit, its plan, and what every job left by arm and seed."""
    report = audited("own:plain", fail_on="epsilon > 1.5", **OPTIONS)
    plan = fairaudit.plan_audit("people.csv", trainer="own:plain", **asked(**OPTIONS))
    results = {(job.arm, job.seed): read_result(home / "out/jobs", job.id) for job in plan.jobs}
    return report, plan, results


@pytest.mark.slow
def test_an_audit_pairs_the_trainer_with_its_own_reference_and_believes_nothing(plain):
    report = plain[0]
    private = [f"own.plain@{e}{c}" for e in (2, 4) for c in ("", "#self-check")]
    assert [arm.key for arm in report.arms] == ["sgd", "own.plain-reference", *private]
    references = {cost.arm: cost.reference for cost in report.costs}
    assert references["own.plain@2"] == references["own.plain@4"] == "own.plain-reference"
    facts = report.privacy["own.plain@4"]
    assert (facts.guarantee.name, facts.epsilon, facts.delta) == ("CLAIMED", None, None)
    assert (facts.claim.epsilon, facts.claim.unit, facts.claim.trainings) == (4.0, "a row", 6)
    assert report.sweep[0].method == "own.plain"
    assert {target.outcome for target in report.gates[0].targets} == {"inconclusive"}
    trusted = fairaudit.check_gates(report, ["epsilon > 3"], trust_claimed_epsilon=True).gates[0]
    outcomes = {target.arm: target.outcome for target in trusted.targets}
    assert (outcomes["own.plain@2"], outcomes["own.plain@4"]) == ("pass", "fail")
    deterministic = {arm for code, arm in codes_of(report) if code == "trainer_deterministic"}
    assert deterministic >= {"own.plain@2", "own.plain@4", "own.plain-reference"}
    assert "own_trainer_readings" in {limit.code for limit in report.limitations}


@pytest.mark.slow
def test_predictions_are_those_of_the_function_on_the_seeds_encoded_rows(plain):
    import own

    report, plan, results = plain
    dataset = load_dataset(plan.config)
    costs = []
    for seed in (0, 1, 2):
        split = draw_split(dataset, plan.config, seed)
        encoded = encode(dataset, split, plan.config)
        labels = dataset.labels[split.train]
        data = fairaudit.TrainingData(encoded.train[:], labels, None, ("0", "1"))
        right = {}
        for arm, epsilon in (("own.plain-reference", None), ("own.plain@4", 4)):
            privacy = epsilon and fairaudit.Privacy(epsilon, plan.training.delta)
            expected = own.plain(data, privacy, seed).predict_proba(encoded.test[:])
            arrays = results[arm, seed].arrays
            np.testing.assert_allclose(arrays["probabilities"][0], expected, atol=1e-6)
            np.testing.assert_array_equal(arrays["test_rows"], split.test)
            answers = arrays["probabilities"].argmax(-1)
            right[arm] = (answers == dataset.labels[split.test]).mean()
        costs.append(right["own.plain-reference"] - right["own.plain@4"])
    (cost,) = [cost for cost in report.costs if cost.arm == "own.plain@4"]
    assert cost.overall.estimates["privacy_cost"].value == pytest.approx(np.mean(costs), abs=1e-6)


@pytest.mark.slow
def test_beside_a_method_of_ours_it_is_neither_chosen_nor_released(home):
    trainer = {"trainer_groups": True, "trainer_version": "2", "reference": "sgd"}
    (home / "gone.py").write_text(OWN)
    report = audited("gone:plain", method="dpsgd", seeds=1, out="beside", **trainer)
    references = {cost.arm: cost.reference for cost in report.costs}
    assert references == {"dpsgd": "sgd", "gone.plain": "sgd"}
    (home / "gone.py").unlink()
    with pytest.raises(FairauditError, match="yours to release"):
        plan_release(Wish(Path("beside/report.json"), "gone.plain"))
    released = plan_release(Wish(Path("beside/report.json"), "dpsgd", fitted=True))
    assert released.arm.key == "dpsgd"
    wish = {"data": "people.csv", "group": ["sex"], "label": "y", "trainer": ["own:plain"]}
    wish |= {"epsilon": [1.0], "fail_on": ["privacy_cost > 0.5"], "out": "chosen"}
    with pytest.raises(ConfigError, match="--trainer"):
        candidates(resolve_config(wish))


@pytest.mark.slow
def test_raw_rows_and_groups_are_handed_where_they_are_asked_for(home):
    report = audited("own:raw", raw=True, trainer_groups=True, seeds=1, favourable="1")
    assert report.status == "complete"
    assert {arm.key: arm for arm in report.arms}["own.raw"].reads_groups
    assert report.privacy["own.raw"].claim.epsilon is None
    assert ("privacy_not_heeded", "own.raw") in codes_of(report)
    with pytest.raises(FairauditError, match=r"sex.*--trainer-groups"):
        audited("own:asks", raw=True)


@pytest.mark.slow
def test_a_trainer_that_draws_from_the_system_and_claims_too_much_is_named(home):
    report = audited(("own:draws", "own:beyond"), epsilon=2)
    assert ("trainer_not_deterministic", "own.draws") in codes_of(report)
    claim = report.privacy["own.draws"].claim
    assert (claim.epsilon, claim.claiming, claim.trainings) == (None, 1, 2)
    beyond = {arm for code, arm in codes_of(report) if code == "claim_beyond_asked"}
    assert beyond == {"own.beyond"}


@pytest.mark.slow
def test_a_failed_seed_leaves_a_log_and_what_fails_alike_at_two_seeds_ends_the_run(home):
    report = audited("own:fails", out="failed")
    assert report.status == "partial"
    (log,) = (home / "failed/jobs").glob("*.log")
    (message,) = [w.message for w in report.warnings if w.code == "seed_failed"]
    assert f"jobs/{log.name}" in message
    text = log.read_text()
    assert text.startswith("about to fail\nTraceback")
    assert 'own.py", line' in text
    assert "fairaudit/" not in text.replace(str(home), "")
    assert log.stat().st_mode & 0o077 == 0
    (home / "mended").touch()
    assert audited("own:fails", out="failed").status == "complete"
    assert not log.exists()
    with pytest.raises(FairauditError, match="never works"):
        audited("own:never", seeds=6)
    assert len(list(home.glob("seed-*-False"))) == 2


def ids(**options):
    given = asked(trainer="named:plain", method="dpsgd") | options
    plan = fairaudit.plan_audit("people.csv", **given)
    return {(job.arm, job.seed): job.id for job in plan.jobs}


@pytest.mark.slow
def test_what_a_training_depends_on_is_in_its_identity_and_moves_nothing_of_ours(home, monkeypatch):
    (home / "named.py").write_text("import beside\n" + OWN)
    (home / "beside.py").write_text("VALUE = 1\n")
    before = ids()

    def changed(**options):
        after = ids(**options)
        return {arm for (arm, seed), job in after.items() if before.get((arm, seed)) != job}

    own = {"named.plain", "named.plain-reference"}
    limits = {"trainer_timeout": 5.0, "trainer_memory": 100, "trust_claimed_epsilon": True}
    assert changed(trust_module=True, fail_on=["tpr_gap > 0.2"], **limits) == set()
    for option in ({"trainer_version": "2"}, {"trainer_groups": True}, {"raw": True}):
        assert changed(**option) == own
    assert changed(epsilon=2) == {"dpsgd", "named.plain"}
    assert ids(reference="sgd")["named.plain", 1] == before["named.plain", 1]
    with monkeypatch.context() as other:
        other.setattr("fairaudit.trainers.arms.version", lambda name: "0.0")
        assert changed() == own
    (home / "beside.py").write_text("VALUE = 2\n")
    assert changed() == own
    assert ids(trainer=None).items() < before.items()


# --- twins and searches


@pytest.mark.slow
def test_a_twin_without_noise_and_the_noise_add_up_to_the_cost(home):
    report = audited("own:shifted", twins="always", epsilon=[1, 4])
    known = {cost.arm: cost.overall.estimates for cost in report.costs}
    risks = []
    for arm in ("own.shifted@1", "own.shifted@4"):
        for cost in ("privacy_cost", "excess_risk"):
            parts = [known[arm][f"{cost}.{part}"].value for part in ("without_noise", "noise")]
            assert sum(parts) == pytest.approx(known[arm][cost].value)
            assert f"{cost}.step" not in known[arm]
        risks.append(parts)
    (without, noise), (without_at_four, noise_at_four) = risks
    assert without == without_at_four > 0.1  # the twin knows no epsilon
    assert noise > 2 * noise_at_four > 0


@pytest.mark.slow
def test_a_search_repairs_a_default_and_no_epsilon_is_claimed_of_what_it_chose(home):
    report = audited("own:shifted", tune=3, fail_on="epsilon > 100", trust_claimed_epsilon=True)
    searches = {search.arm: search for search in report.studies["tuning"].searches}
    for arm in ("own.shifted", "own.shifted-reference"):
        for seed in searches[arm].seeds:
            assert [tried.is_default for tried in seed.tried] == [True, False, False]
            assert seed.tried[0].settings == {}
            assert all(-0.01 < tried.settings["shift"] < 0.01 for tried in seed.tried[1:])
            best = max(seed.tried, key=lambda tried: tried.released_score)
            assert best.selected
    assert not any(seed.best.is_default for seed in searches["own.shifted"].seeds)  # far off
    claim = report.privacy["own.shifted"].claim
    assert (claim.epsilon, claim.claiming) == (None, 0)
    (gate,) = report.gates
    assert {t.outcome for t in gate.targets if t.arm == "own.shifted"} == {"inconclusive"}
