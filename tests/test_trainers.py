"""Trainers of the user's own.

What they are handed, what is checked of answers, what is said of them.
"""

import itertools
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import fairaudit
from fairaudit.data.tabular import load_dataset
from fairaudit.errors import ConfigError, FairauditError, TrainerError
from fairaudit.trainers.claims import _claim
from fairaudit.trainers.process import Given, train_once

COMMON = """
import os, sys, time
import numpy as np
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
"""
PLAIN = """
def train(data, privacy, seed):
    model = fitted(data, privacy, seed)
    if privacy is not None:
        epsilon = privacy.epsilon - 0.5 * (seed % 2)
        model.claimed = fairaudit.Privacy(epsilon, privacy.delta, "a row", "add or remove", "none")
    return model
"""


def people(rows=300):
    draw = np.random.default_rng(5)
    frame = pd.DataFrame(
        {"x": draw.normal(size=rows), "sex": draw.choice(["F", "M"], rows), "job": "a"}
    )
    frame.loc[::3, "job"] = "b"
    return frame.assign(y=(frame["x"] + draw.normal(size=rows) > 0).astype(int))


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder with a table, in which trainers are written and commands are given."""
    people().to_csv(tmp_path / "people.csv", index=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name, module in list(
        sys.modules.items()
    ):  # of another test, it would be found in its folder
        if str(getattr(module, "__file__", "") or "").startswith(str(tmp_path)):
            del sys.modules[name]


def write(home, name, body):
    (home / f"{name}.py").write_text(COMMON + textwrap.dedent(body))
    return f"{name}:train"


def audited(trainer, **options):
    quick = {
        "group": "sex",
        "label": "y",
        "seeds": 2,
        "epochs": 1,
        "workers": 1,
        "out": "out",
        "format": "json",
    }
    return fairaudit.run_audit(
        "people.csv", trainer=trainer, **{**quick, "diagnostics": "off", **options}
    )


def given(trainer, *, rows=40, timeout=None, **asked):
    """What a training is handed, made by hand: features [n, 2], two classes."""
    from safetensors.numpy import save

    draw = np.random.default_rng(1)
    tensors = {"train": draw.normal(size=(rows, 2)), "test": draw.normal(size=(9, 2))}
    tensors = {name: values.astype(np.float32) for name, values in tensors.items()}
    tensors["labels"] = (tensors["train"][:, 0] > 0).astype(np.int64)
    whole = {
        "privacy": [1.0, 1e-5],
        "classes": ["no", "yes"],
        "names": ["a", "b"],
        "group_names": [],
    }
    whole |= {"trainer": trainer, "tables": 0, "synthesizes": False, "settings": {}, "memory": None}
    whole |= asked
    return Given(whole, save(tensors), (), timeout), tensors


# --- what is handed over, and what comes back
# ----------------------------------------------------------


def test_a_trainer_gets_its_seeds_records_and_predicts_the_test_rows(home):
    name = write(
        home,
        "seen",
        """
        def train(data, privacy, seed):
            assert isinstance(data, fairaudit.TrainingData)
            assert data.groups is None and data.group_names == ()
            assert (data.classes, data.names) == (("no", "yes"), ("a", "b"))
            assert (data.features.dtype, data.labels.dtype) == (np.float32, np.int64)
            print(privacy, seed)
            data.features[:] = 0  # its own copy: what is predicted later is whole
            data.labels[:] = 0
            np.random.seed(0)
            model = Shares(np.array([2.0, 0.0, privacy.epsilon * seed]))
            model.claimed = fairaudit.Privacy(2, 1e-6, "a row", "add or remove one", "by hand")
            return model
    """,
    )
    asked, tensors = given(name)
    found = train_once(asked, 3)
    for part, rows in (("test", found.test), ("train", found.train)):
        upper = 1 / (1 + np.exp(-(2.0 * tensors[part][:, 0].astype(float) + 3.0)))
        np.testing.assert_allclose(rows, np.stack([1 - upper, upper], 1), atol=1e-6)
        assert rows.dtype == np.float32
    assert found.claimed == {
        "epsilon": 2.0,
        "delta": 1e-6,
        "unit": "a row",
        "neighbouring": "add or remove one",
        "accountant": "by hand",
    }


RETURNS = {
    "three classes": (
        "lambda f: np.full((len(f), 3), 1/3)",
        "predict_proba gave [9, 3] for 9 rows of 2 classes",
    ),
    "nan": ("lambda f: np.full((len(f), 2), np.nan)", "not finite in 9 of 9 rows"),
    "sums": ("lambda f: np.full((len(f), 2), .7)", "9 of 9 rows that do not add up to 1"),
    "negative": (
        "lambda f: np.tile([1.5, -.5], (len(f), 1))",
        "9 of 9 rows that do not add up to 1 or are neg",
    ),
    "text": ("lambda f: 'no idea'", "predict_proba gave a str that is no array"),
    "raises": (
        "lambda f: 1 / 0",
        "predict_proba of returns:train raised ZeroDivisionError: division by zero",
    ),
}


@pytest.mark.parametrize("case", RETURNS)
def test_what_is_no_probability_is_refused_in_one_line(home, case):
    predict, said = RETURNS[case]
    name = write(
        home,
        "returns",
        f"""
        class Model:
            predict_proba = staticmethod({predict})
        def train(data, privacy, seed):
            return Model()
    """,
    )
    with pytest.raises(TrainerError) as error:
        train_once(given(name)[0], 0)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    assert "trainers/child" not in error.value.log  # the traceback is theirs, never ours


BODIES = {
    "raises": ("raise ValueError('no\\nsecond line')", "raised ValueError: no (bodies.py, line"),
    "sys.exit": ("sys.exit('bye')", "called sys.exit('bye')"),
    "os._exit": ("os._exit(0)", "ended with exit code 0 and no answer"),
    "none": ("return None", "returned a NoneType without predict_proba"),
    "claims text": (
        "m = fitted(data, None, 0); m.claimed = 'eps 1'; return m",
        "claimed is no fairaudit.Privacy",
    ),
    "wrong order": (
        "m = fitted(data, None, 0); m.classes_ = [1, 0]; return m",
        "its classes_ are 1, 0; expected",
    ),
    "an absurd length": (
        "os.write(int(sys.argv[2]), b'\\xff' * 2**20); return fitted(data, None, 0)",
        "ended with exit code 0 and no answer",
    ),
    "no json": (
        "os.write(int(sys.argv[2]), (b'\\1' + bytes(7) + b'x') * 2); return fitted(data, None, 0)",
        "its answer cannot be read",
    ),
}


@pytest.mark.parametrize("case", BODIES)
@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_code_that_fails_is_told_in_one_line(home, case):
    body, said = BODIES[case]
    (home / "bodies.py").write_text(f"{COMMON}\ndef train(data, privacy, seed):\n    {body}\n")
    with pytest.raises(TrainerError) as error:
        train_once(given("bodies:train")[0], 0)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    assert "fairaudit/execution" not in error.value.log
    assert ("bodies.py" in error.value.log) == (case in ("raises", "sys.exit"))


def test_a_training_that_hangs_is_ended_with_all_that_it_forked(home, monkeypatch):
    name = write(
        home,
        "hangs",
        """
        def train(data, privacy, seed):
            for _ in range(2):
                os.fork()
            print("still here", flush=True)
            open(f"alive-{os.getpid()}", "w").close()
            time.sleep(6000)
    """,
    )
    wait = subprocess.Popen.wait

    def from_when_it_hangs(self, timeout=None):
        while timeout and len(list(home.glob("alive-*"))) < 4:
            time.sleep(0.05)
        return wait(self, timeout)

    monkeypatch.setattr(subprocess.Popen, "wait", from_when_it_hangs)
    with pytest.raises(TrainerError, match=r"within 0.5 s .*--trainer-timeout") as error:
        train_once(given(name, timeout=0.5)[0], 0)
    assert "still here" in error.value.log
    started = [int(path.name.partition("-")[2]) for path in home.glob("alive-*")]
    while any(map(is_alive, started)):  # what is killed is buried by and by
        time.sleep(0.05)


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False


def test_memory_beyond_the_limit_ends_the_training_alone(home):
    name = write(
        home,
        "eats",
        """
        def train(data, privacy, seed):
            np.ones((400, 2**20)).sum()
    """,
    )
    with pytest.raises(TrainerError, match=r"eats:train ran out of memory .*--trainer-memory"):
        train_once(given(name, memory=600)[0], 0)


def test_what_is_printed_is_kept_to_its_end(home):
    name = write(
        home,
        "prints",
        """
        def train(data, privacy, seed):
            for _ in range(200):
                print("x" * 10_000)
            raise RuntimeError("after all that")
    """,
    )
    with pytest.raises(TrainerError, match="after all that") as error:
        train_once(given(name)[0], 0)
    assert len(error.value.log) < 70_000
    assert error.value.log.startswith("[only the last")
    assert "RuntimeError: after all that" in error.value.log


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("train = 3", "is not a function"),
        ("def fit(data, privacy, seed): ...", "nothing:train is not there"),
        ("def train(data): ...", "does not take three arguments"),
        ("import no_such_library", "raised ModuleNotFoundError: No module named 'no_such_library'"),
    ],
)
def test_a_trainer_that_cannot_be_called_ends_the_run_before_anything_is_trained(home, body, said):
    (home / "nothing.py").write_text(body + "\n")
    with pytest.raises(ConfigError) as error:
        audited("nothing:train")
    assert said in str(error.value)
    assert not list((home / "out" / "jobs").glob("*.safetensors"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"trainer": "no_such_module:train"}, "no module 'no_such_module' of no_such_module:train"),
        ({"trainer": "plain"}, "names no function"),
        ({"trainer": "plain:train", "tune": 2}, "plain:train declares no settings"),
        ({"trainer": "plain:train", "noise_multiplier": 1.0}, "is asked for an epsilon"),
        ({"trainer": None, "raw": True}, "--raw is about --trainer"),
        ({"trainer": lambda data, privacy, seed: None}, "is held by no module"),
    ],
)
def test_options_that_cannot_go_together_are_refused(home, options, said):
    write(home, "plain", PLAIN)
    with pytest.raises(ConfigError) as error:
        audited(**options)
    assert said in str(error.value)


def test_an_option_file_that_was_only_found_may_not_name_a_trainer(home):
    from fairaudit.config.value_sources import resolve_config

    (home / "fairaudit.toml").write_text('data = "people.csv"\ntrainer = ["plain:train"]\n')
    with pytest.raises(ConfigError, match="runs code"):
        resolve_config({}, folder=home)


# --- an audit
# ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_audit_pairs_the_trainer_with_its_own_reference_and_believes_nothing(home):
    write(home, "plain", PLAIN)
    import plain

    rules = ["epsilon > 4", "privacy_cost > 0.9"]
    report = audited(plain.train, epsilon=[2, 4], fail_on=rules, self_check=True, repeats=2)
    keys = [arm.key for arm in report.arms]
    assert keys == [
        "sgd",
        "plain.train-reference",
        *(f"plain.train@{e}{c}" for e in (2, 4) for c in ("", "#self-check")),
    ]
    assert {c.arm: c.reference for c in report.costs}["plain.train@2"] == "plain.train-reference"
    facts = report.privacy["plain.train@2"]
    assert (facts.guarantee.value, facts.epsilon, facts.delta) == (
        "claimed by the trainer, not checked",
        None,
        None,
    )
    assert (facts.claim.epsilon, facts.claim.unit, facts.claim.trainings) == (2.0, "a row", 4)
    assert report.sweep[0].method == "plain.train"
    epsilon = report.gates[0]
    assert {t.outcome for t in epsilon.targets} == {"inconclusive"}
    assert epsilon.reason == "guarantee: claimed by the trainer, not checked"
    trusted = fairaudit.check_gates(report, ["epsilon > 3"], trust_claimed_epsilon=True).gates[0]
    assert {(t.arm, t.outcome) for t in trusted.targets if "#" not in t.arm} == {
        ("plain.train@2", "pass"),
        ("plain.train@4", "fail"),
    }
    told = [w for w in report.warnings if w.code == "trainer_deterministic"]
    assert {w.arm for w in told} >= {"plain.train@2", "plain.train-reference"}
    assert "own_trainer_readings" in {limit.code for limit in report.limitations}
    # By hand: the reference at seed 0 is what the same function gives here.
    assert report.arms[1].trainer == "plain:train"


@pytest.mark.parametrize("epsilons", list(itertools.permutations((1.0, 4.0, 2.0))))
def test_the_largest_of_several_claims_is_the_arms(monkeypatch, epsilons):
    said = {"delta": 1e-6, "unit": "", "neighbouring": "", "accountant": ""}
    seeds = [{"claimed": [{**said, "epsilon": e}]} for e in epsilons]
    results = {seed: SimpleNamespace(facts=facts) for seed, facts in enumerate(seeds)}
    monkeypatch.setattr("fairaudit.trainers.claims.finished", lambda *_: results)
    claim = _claim(
        SimpleNamespace(key="own"), SimpleNamespace(training=SimpleNamespace(delta=1e-5)), results
    )
    assert (claim.epsilon, claim.trainings, claim.claiming) == (4.0, 3, 3)


def arrays_of(home, **options):
    from fairaudit.results.jobs import read_result

    plan = fairaudit.plan_audit("people.csv", **options)
    return plan, {(j.arm, j.seed): read_result(home / "out" / "jobs", j.id) for j in plan.jobs}


@pytest.mark.slow
def test_predictions_are_those_of_the_function_on_the_seeds_encoded_rows(home):
    from fairaudit.config.value_sources import resolve_config
    from fairaudit.data.encode import encode
    from fairaudit.data.split import draw_split

    write(home, "plain", PLAIN)
    import plain

    options = {
        "group": "sex",
        "label": "y",
        "seeds": 2,
        "epochs": 1,
        "trainer": "plain:train",
        "epsilon": 2,
    }
    quiet = {"diagnostics": "off", "out": "out", "format": "json", "workers": 1}
    report = fairaudit.run_audit("people.csv", **options, **quiet)
    plan, found = arrays_of(home, **options, **quiet)
    config = resolve_config({**options, **quiet, "data": "people.csv"}).config
    dataset = load_dataset(config)
    for seed in (0, 1):
        split = draw_split(dataset, config, seed)
        encoded = encode(dataset, split, config)
        data = fairaudit.TrainingData(
            encoded.train[:], dataset.labels[split.train], None, ("0", "1")
        )
        for arm, privacy in (
            ("plain.train-reference", None),
            ("plain.train", fairaudit.Privacy(2, plan.training.delta)),
        ):
            expected = plain.train(data, privacy, seed).predict_proba(encoded.test[:])
            result = found[arm, seed]
            np.testing.assert_allclose(result.arrays["probabilities"][0], expected, atol=1e-6)
            np.testing.assert_array_equal(result.arrays["test_rows"], split.test)
    costs = [
        (
            found["plain.train-reference", s].arrays["probabilities"][0].argmax(1)
            == labels(dataset, found, s)
        ).mean()
        - (
            found["plain.train", s].arrays["probabilities"][0].argmax(1)
            == labels(dataset, found, s)
        ).mean()
        for s in (0, 1)
    ]
    assert report.costs[0].overall.estimates["privacy_cost"].value == pytest.approx(
        np.mean(costs), abs=1e-6
    )


def labels(dataset, found, seed):
    return dataset.labels[found["sgd", seed].arrays["test_rows"]]


@pytest.mark.slow
def test_ours_is_the_reference_where_that_is_asked(home):
    write(home, "plain", PLAIN)
    report = audited("plain:train", reference="sgd", method="dpsgd", seeds=1)
    assert [arm.key for arm in report.arms] == ["sgd", "dpsgd", "plain.train"]
    assert {c.arm: c.reference for c in report.costs} == {"dpsgd": "sgd", "plain.train": "sgd"}


@pytest.mark.slow
def test_raw_rows_and_groups_are_handed_where_they_are_asked_for(home):
    write(
        home,
        "raw",
        """
        import pandas as pd
        class Constant:
            def predict_proba(self, features):
                assert list(features.columns) == ["x", "job", "sex"]
                return np.full((len(features), 2), 0.5)
        def train(data, privacy, seed):
            assert isinstance(data.features, pd.DataFrame)
            assert list(data.features.columns) == ["x", "job", "sex"]
            assert set(data.features["job"]) == {"a", "b"}
            assert data.group_names == ("F", "M") and set(data.groups) == {0, 1}
            assert [data.group_names[g] for g in data.groups] == list(data.features["sex"])
            assert len(data.groups) == len(data.features) == len(data.labels)
            data.features["x"] = 0
            return Constant()
    """,
    )
    report = audited("raw:train", raw=True, trainer_groups=True, seeds=1, favourable="1")
    assert report.status == "complete"
    own = {arm.key: arm for arm in report.arms}["raw.train"]
    assert own.reads_groups
    assert report.privacy["raw.train"].claim.epsilon is None
    assert "claimed nothing" in report.privacy["raw.train"].reason
    assert "privacy_not_heeded" in {w.code for w in report.warnings}


@pytest.mark.slow
def test_a_trainer_that_draws_from_the_system_and_claims_too_much_is_told(home):
    write(
        home,
        "draws",
        """
        def train(data, privacy, seed):
            model = fitted(data, None, seed)
            noise = np.random.default_rng().normal(size=len(model.weights))
            model.weights = model.weights + noise / 10
            model.claimed = fairaudit.Privacy(9, 0) if seed else None
            return model
    """,
    )
    report = audited("draws:train")
    codes = {(w.code, w.arm) for w in report.warnings}
    assert ("trainer_not_deterministic", "draws.train") in codes
    assert (
        report.privacy["draws.train"].claim.epsilon is None
    )  # one of two trainings claims nothing
    assert "1 of 2 trainings claimed nothing" in report.privacy["draws.train"].reason
    write(
        home,
        "draws",
        """
        def train(data, privacy, seed):
            model = fitted(data, None, seed)
            model.claimed = fairaudit.Privacy(9, 0)
            return model
    """,
    )
    report = audited("draws:train", epsilon=2)
    told = next(w for w in report.warnings if w.code == "claim_beyond_asked")
    assert told.message == "draws.train claims epsilon 9, asked was 2"


@pytest.mark.slow
def test_a_failed_seed_is_told_with_a_log_of_theirs_that_clean_removes(home):
    from fairaudit.execution.run_directory import clean

    write(
        home,
        "fails",
        """
        def train(data, privacy, seed):
            if seed == 1 and privacy is not None:
                print("about to fail")
                raise ValueError("never at seed 1")
            return fitted(data, privacy, seed)
    """,
    )
    report = audited("fails:train")
    assert report.status == "partial"
    told = next(w for w in report.warnings if w.code == "seed_failed")
    (log,) = (home / "out" / "jobs").glob("*.log")
    assert f"log: jobs/{log.name} in the output folder" in told.message
    text = log.read_text()
    assert text.startswith("about to fail\nTraceback")
    assert 'fails.py", line' in text
    assert "fairaudit/" not in text.replace(str(home), "")
    assert log.stat().st_mode & 0o077 == 0
    (home / "fails.py").write_text(COMMON + PLAIN)
    assert audited("fails:train").status == "complete"
    clean(home / "out")
    assert not list((home / "out" / "jobs").glob("*.log"))


# --- identity
# ------------------------------------------------------------------------------------------


def ids(home, **options):
    given = {
        "group": "sex",
        "label": "y",
        "seeds": 2,
        "trainer": "plain:train",
        "method": "dpsgd",
        **options,
    }
    return {(job.arm, job.seed): job.id for job in fairaudit.plan_audit("people.csv", **given).jobs}


def test_what_a_training_depends_on_is_in_its_identity_and_nothing_else_of_ours_moves(
    home, monkeypatch
):
    write(home, "plain", "import beside\nimport sklearn\n" + PLAIN)
    (home / "beside.py").write_text("VALUE = 1\n")
    before = ids(home)

    def changed(**options):
        after = ids(home, **options)
        return {arm for (arm, seed), job in after.items() if before.get((arm, seed)) != job}

    own = {"plain.train", "plain.train-reference"}
    assert changed() == set()
    assert (
        changed(
            trainer_timeout=5.0,
            trainer_memory=100,
            trust_claimed_epsilon=True,
            trust_module=True,
            fail_on=["tpr_gap > 0.2"],
        )
        == set()
    )
    assert changed(trainer_version="2") == own
    assert changed(trainer_groups=True) == own
    assert changed(raw=True) == own
    assert changed(epsilon=2) == {"dpsgd", "plain.train"}
    assert ids(home, reference="sgd")["plain.train", 1] == before["plain.train", 1]
    with monkeypatch.context() as other:
        other.setattr("fairaudit.trainers.arms.version", lambda name: "0.0")
        assert changed() == own
    (home / "beside.py").write_text("VALUE = 2\n")
    assert changed() == own
    alone = {
        key for key in ids(home, trainer=None) if before.get(key) == ids(home, trainer=None)[key]
    }
    assert alone == {(arm, seed) for arm in ("sgd", "dpsgd") for seed in (0, 1)}


@pytest.mark.slow
def test_finished_trainings_are_kept_and_further_seeds_appended(home):
    write(home, "plain", PLAIN)
    audited("plain:train")
    files = {
        path.name: path.stat().st_mtime_ns for path in (home / "out" / "jobs").glob("*.safetensors")
    }
    report = audited("plain:train", seeds=3)
    again = {
        path.name: path.stat().st_mtime_ns for path in (home / "out" / "jobs").glob("*.safetensors")
    }
    assert files.items() < again.items()
    assert len(again) == 9
    assert report.status == "complete"


# --- elsewhere in the program
# --------------------------------------------------------------------------


@pytest.mark.slow
def test_train_and_choose_refuse_with_the_reason(home):
    from fairaudit.choosing.choose import candidates
    from fairaudit.config.value_sources import resolve_config
    from fairaudit.release.planned import Request, plan_release

    write(home, "plain", PLAIN)
    audited("plain:train", seeds=1)
    wish = Request(Path("out/report.json"), "plain.train")
    with pytest.raises(FairauditError, match="yours to release"):
        plan_release(wish)
    resolved = resolve_config(
        {
            "data": "people.csv",
            "group": ["sex"],
            "label": "y",
            "trainer": ["plain:train"],
            "epsilon": [1.0],
            "fail_on": ["privacy_cost > 0.5"],
            "out": "chosen",
        }
    )
    with pytest.raises(ConfigError, match="--trainer"):
        candidates(resolved)


@pytest.mark.slow
def test_a_method_of_ours_is_trained_without_the_trainer_that_was_audited_beside_it(home):
    from fairaudit.release.planned import Request, plan_release

    module = home / f"{write(home, 'plain', PLAIN).partition(':')[0]}.py"
    options = {"seeds": 1, "method": "dpsgd", "trainer_groups": True, "trainer_version": "2"}
    audited("plain:train", **options)
    module.unlink()
    sys.modules.pop("plain", None)
    choice = plan_release(Request(Path("out/report.json"), "dpsgd", fitted=True))
    assert choice.arm.key == "dpsgd"


# --- twins, searches, failures
# --------------------------------------------------------------------------

SHIFTED = """
import math

def train(data, privacy, seed, settings):
    shift = settings.get("shift", 2.0)
    model = fitted(data, None, seed)
    if privacy is not None:
        noise = 0.0 if math.isinf(privacy.epsilon) else 1.0 / privacy.epsilon
        model.weights[-1] += shift + noise
        model.claimed = fairaudit.Privacy(privacy.epsilon, privacy.delta)
    return model.predict_proba

train.supports_no_noise = True
train.settings = {"shift": fairaudit.Range(-0.01, 0.01)}
"""


@pytest.mark.slow
def test_a_twin_without_noise_and_the_noise_add_up_to_the_cost(home):
    report = audited(f"{write(home, 'shifted', SHIFTED)}", twins="always", epsilon=[1, 4])
    comparisons = {c.arm: c.overall.estimates for c in report.costs}
    parts = {arm: known for arm, known in comparisons.items() if arm.startswith("shifted")}
    assert len(parts) == 2
    for known in parts.values():
        for cost in ("privacy_cost", "excess_risk"):
            without, noise = (known[f"{cost}.{part}"].value for part in ("without_noise", "noise"))
            assert without + noise == pytest.approx(known[cost].value)
            assert f"{cost}.step" not in known
    both = [known["excess_risk.without_noise"].value for known in parts.values()]
    assert both[0] == both[1] > 0.1  # the twin knows no epsilon
    noises = [known["excess_risk.noise"].value for known in parts.values()]
    assert noises[0] > 2 * noises[1] > 0


@pytest.mark.slow
def test_a_search_repairs_a_default_and_no_epsilon_is_claimed_of_what_it_chose(home):
    name = write(home, "shifted", SHIFTED)
    report = audited(name, tune=3, fail_on="epsilon > 100", trust_claimed_epsilon=True)
    tuned = report.studies["tuning"]
    for search in tuned.searches:
        if search.arm == "sgd":
            continue
        assert search.searched["shift"].default is None
        for seed in search.seeds:
            assert [tried.is_default for tried in seed.tried] == [True, False, False]
            assert seed.tried[0].settings == {}
            assert all(-0.01 < tried.settings["shift"] < 0.01 for tried in seed.tried[1:])
            scores = [tried.released_score for tried in seed.tried]
            assert seed.tried[scores.index(max(scores))].selected
    (private,) = [search for search in tuned.searches if search.arm == "shifted.train"]
    assert not any(seed.best.is_default for seed in private.seeds)  # 2.0 is far off
    claim = report.privacy["shifted.train"].claim
    assert (claim.epsilon, claim.claiming) == (None, 0)
    (gate,) = report.gates
    assert {t.outcome for t in gate.targets if t.arm == "shifted.train"} == {"inconclusive"}


def test_settings_are_asked_for_where_something_is_searched_and_are_ranges(home):
    plain = write(home, "plain", PLAIN)
    with pytest.raises(ConfigError, match="declares no settings"):
        fairaudit.plan_audit("people.csv", group="sex", label="y", trainer=plain, tune=2)
    three = write(home, "three", PLAIN + "\ntrain.settings = {'a': fairaudit.Range(0, 1)}\n")
    with pytest.raises(ConfigError, match="does not take four arguments"):
        fairaudit.plan_audit("people.csv", group="sex", label="y", trainer=three)
    for low, high, log in ((1, 1, False), (0, 1, True), (0, float("inf"), False)):
        with pytest.raises(ValueError, match="is no range"):
            fairaudit.Range(low, high, log=log)


def test_a_missing_group_column_says_how_it_is_handed_over(home):
    body = "def train(data, privacy, seed):\n    return data.features[['x', 'sex']]\n"
    with pytest.raises(FairauditError, match=r"sex.*--trainer-groups"):
        audited(write(home, "asks", body), raw=True, seeds=2)


@pytest.mark.slow
def test_what_fails_alike_at_two_seeds_ends_the_run(home):
    body = """
        def train(data, privacy, seed):
            open(f"seed-{seed}-{privacy is None}", "w").close()
            if privacy is not None:
                raise ValueError("never works")
            return fitted(data, None, seed)
    """
    with pytest.raises(FairauditError, match=r"fails alike at every seed: .*never works"):
        audited(write(home, "never", body), seeds=6)
    assert len(list(home.glob("seed-*-False"))) == 2


@pytest.mark.slow
def test_an_ignored_epsilon_and_swapped_classes_are_named(home):
    write(
        home,
        "wrong",
        """
        def ignores(data, privacy, seed):
            return fitted(data, privacy and fairaudit.Privacy(5, 0), seed)
        def swaps(data, privacy, seed):
            model = fitted(data, None, seed)
            return lambda rows: model.predict_proba(rows)[:, :: 1 if privacy is None else -1]
        def sound(data, privacy, seed):
            return fitted(data, privacy and fairaudit.Privacy(5 * privacy.epsilon, 0), seed)
    """,
    )
    names = ("wrong:ignores", "wrong:swaps", "wrong:sound")
    report = audited(names, epsilon=[2, 8], epochs=5)
    told = {(w.code, w.arm) for w in report.warnings}
    codes = {"privacy_not_heeded", "classes_reordered"}
    swapped = {("classes_reordered", f"wrong.swaps@{e}") for e in (2, 8)}
    same = {("privacy_not_heeded", f"wrong.{f}@{e}") for f in ("ignores", "swaps") for e in (2, 8)}
    assert {each for each in told if each[0] in codes} == swapped | same
