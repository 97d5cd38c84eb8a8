"""Trainers and synthesizers of the user's own.

What they are handed, what is checked of answers, what is said of them; docs/examples.
"""

import itertools
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from cases import every_third
from places import ROOT
from refusals import refused_in_one_line

import fairaudit
from fairaudit.cli import app
from fairaudit.config.value_sources import resolve_config
from fairaudit.data.inputs.encode import encode
from fairaudit.data.inputs.split import draw_split
from fairaudit.data.tabular import load_dataset
from fairaudit.errors import ConfigError, DataError, FairauditError, OwnCodeError
from fairaudit.execution.run_directory import clean
from fairaudit.release.planned import FITTED, plan_release
from fairaudit.release.planned import ReleaseRequest as Wish
from fairaudit.results.jobs import JobResult, read_result
from fairaudit.trainers import process, synthetic
from fairaudit.trainers.answers import Synthesised, TrainerAnswer
from fairaudit.trainers.child import TrainerRequest
from fairaudit.trainers.claims import privacy as claimed_of
from fairaudit.trainers.process import answer_of

OUT = map("out-{}".format, itertools.count())
OWN = """
import math, os, sys, time
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

def raw(data, privacy, seed):
    assert list(data.features.columns) == ["age", "job", "sex"]
    assert set(data.features["job"]) == {"cook", "smith"}
    assert data.group_names == ("F", "M", "X") and set(data.groups) == {0, 1, 2}
    assert [data.group_names[g] for g in data.groups] == list(data.features["sex"])
    assert len(data.groups) == len(data.features) == len(data.labels)
    data.features["age"] = 0
    def predict(features):
        assert list(features.columns) == ["age", "job", "sex"] and features["age"].any()
        return np.full((len(features), 2), 0.5)
    return predict

def broken(table, privacy, seed):
    return CHANGE(table)

def same(table, privacy, seed):
    assert list(table.columns) == ["age", "job", "sex", "y"] and len(table) == 480
    table.attrs["claimed"] = privacy
    return table

def mens(table, privacy, seed):
    return table[(table.sex == "M") | (table.y == "no")]

def asks(data, privacy, seed):
    return data.features[["age", "sex"]]

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

PLANTED = """
import math
import numpy as np
import fairaudit

def logistic(z):
    return 1 / (1 + np.exp(-np.clip(z, -30, 30)))

def trained(data, privacy, seed, *, bound=2.0, rate=1.0, rounds=60, rows=None, seen=None, at=None):
    draw = np.random.default_rng([seed, privacy is None])
    x = np.hstack([data.features, np.ones((len(data.labels), 1))]).astype(float)
    sigma = 0.0
    if privacy is None:
        bound, rate, rounds, rows = 1e9, 1.0, 60, seen
    elif privacy.epsilon < math.inf:  # rounds of the Gaussian mechanism, by zCDP
        log, epsilon = -math.log(privacy.delta), at or privacy.epsilon
        sigma = math.sqrt(rounds / 2) / (math.sqrt(log + epsilon) - math.sqrt(log))
    kept = draw.permutation(len(x))[: rows or seen]
    x, y = x[kept], data.labels[kept]
    w = np.zeros(x.shape[1])
    for _ in range(rounds):
        gradients = (logistic(x @ w) - y)[:, None] * x
        norms = np.linalg.norm(gradients, axis=1, keepdims=True)
        total = (gradients * np.minimum(1, bound / np.maximum(norms, 1e-9))).sum(0)
        w -= rate * (total + sigma * bound * draw.normal(size=len(w))) / len(x)
    def predict(features):
        upper = logistic(features @ w[:-1] + w[-1])
        return np.stack([1 - upper, upper], 1)
    return predict

def low_bound(*given): return trained(*given, bound=0.01)
def low_rate(*given): return trained(*given, rate=0.01)
def few_rounds(*given): return trained(*given, rounds=1, rate=0.2)
def few_rows(*given): return trained(*given, rows=30)
def few_in_both(*given): return trained(*given, seen=25)
def ignores(*given): return trained(*given, at=3.0)
def swaps(data, privacy, seed):
    model = trained(data, privacy, seed)
    return lambda features: model(features)[:, :: 1 if privacy is None else -1]
def sound(*given): return trained(*given)
def sound_too(*given): return trained(*given, bound=4.0, rounds=100)

for made in (low_bound, low_rate, few_rounds, few_rows, few_in_both, ignores, swaps, sound):
    made.supports_no_noise = True
sound_too.supports_no_noise = True
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with a table, trainers and the examples, in which commands are given."""
    folder = tmp_path_factory.mktemp("home")
    draw = np.random.default_rng(5)
    latent = draw.normal(size=600)
    people = pd.DataFrame({"age": (45 + 12 * latent).round(), "sex": draw.choice([*"FMX"], 600)})
    people["job"] = np.where(latent > draw.normal(size=600), "cook", "smith")
    people["y"] = np.where(latent > 0.4 * draw.normal(size=600), "yes", "no")
    people.to_csv(folder / "people.csv", index=False)
    for path in (ROOT / "docs" / "examples").glob("*.py"):
        (folder / path.name).write_text(path.read_text().replace("TIONS = 1000", "TIONS = 20"))
    (folder / "own.py").write_text(OWN)
    (folder / "planted.py").write_text(PLANTED)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        patched.syspath_prepend(str(folder))
        yield folder
    sys.modules.pop("own", None)


def asked(**options):
    quick = {"group": "sex", "label": "y", "positive": "yes", "seeds": 2, "epochs": 1}
    quick |= {"workers": 1, "out": next(OUT), "format": "json", "diagnostics": "off"}
    return quick | options


def report_by(trainer=None, data="people.csv", **options):
    return fairaudit.run_audit(data, trainer=trainer, **asked(**options))


def request(trainer, **given):
    """What a training is handed, made by hand: features [n, 2], two classes."""
    draw = np.random.default_rng(1)
    features = draw.normal(size=(40, 2)).astype(np.float32)
    labels = (features[:, 0] > 0).astype(np.int64)
    data = fairaudit.TrainingData(features, labels, None, ("no", "yes"), names=("a", "b"))
    test = draw.normal(size=(9, 2)).astype(np.float32)
    return replace(TrainerRequest(trainer, data, fairaudit.Privacy(1, 1e-5), test=test), **given)


def codes_of(report):
    return {(warning.code, warning.arm) for warning in report.warnings}


def test_a_trainer_gets_its_seeds_records_and_predicts_the_test_rows(home):
    given = request("own:seen", seed=3)
    answer = answer_of(given, TrainerAnswer)
    upper = 1 / (1 + np.exp(-(2.0 * given.test[:, 0] + 3.0)))
    np.testing.assert_allclose(answer.test[:, 1], upper, rtol=1e-6)
    claim = fairaudit.Privacy(**answer.claimed)
    assert claim == fairaudit.Privacy(2.0, 1e-6, "a row", "add or remove one", "by hand")


FAILS = {
    "raise ValueError('no\\nsecond line')": "ValueError (fails.py, line",
    "os.kill(os.getpid(), 9)": "signal 9",
    "np.ones((400, 2**20)).sum()": "--trainer-memory",
    "return None": "NoneType",
    "m = fitted(data, None, 0); m.classes_ = [1, 0]; return m": "classes_ are 1, 0",
    "return lambda f: np.full((len(f), 3), 1/3)": "[9, 3] for 9 rows of 2 classes",
    "return lambda f: np.full((len(f), 2), np.nan)": "not finite in 9 of 9 rows",
    "return lambda f: np.tile([1.5, -.5], (len(f), 1))": "are negative in 9 of 9 rows",
    "return lambda f: 'no idea'": "a str that is no array",
    "print('x' * 90_000); raise RuntimeError('after it')": "RuntimeError (fails.py, line",
    "return lambda f: 1 / 0": "predict_proba of fails:train raised ZeroDivisionError",
}


@pytest.mark.parametrize("body", FAILS)
def test_what_cannot_be_used_is_told_in_one_line(home, body):
    # A file of its own: Python takes one of the same size and second for the one that it knows.
    name = f"fails{list(FAILS).index(body)}"
    (home / f"{name}.py").write_text(f"{OWN}\ndef train(data, privacy, seed):\n    {body}\n")
    with refused_in_one_line(OwnCodeError, FAILS[body].replace("fails", name)) as error:
        answer_of(request(f"{name}:train", memory=600), TrainerAnswer)
    assert "fairaudit/" not in error.value.log  # the traceback is theirs, never ours
    assert len(error.value.log) < 70_000  # the end of what was printed
    raises = "raise" in body or "1 / 0" in body or "ones" in body
    assert (f"{name}.py" in error.value.log) == raises


SECRET = "Ada Lovelace, 36"  # of a row, as errors of libraries quote them
ODD = {
    "raise ValueError('SECRET')": "ValueError (odd",
    "return float('SECRET')": "ValueError (odd",
    "import json; return json.loads('SECRET')": "JSONDecodeError (odd",
    "raise type('Odd', (Exception,), {'__str__': lambda self: 1 / 0})()": "raised Odd",
    "raise ValueError('x' * 2**24)": "ValueError",
    "raise ValueError(chr(0xD800) + chr(27))": "ValueError",
    "raise SystemExit(0)": "SystemExit",
    "raise KeyboardInterrupt": "KeyboardInterrupt",
    "return claiming(data, lambda c: changed(c, 'epsilon', float('nan')))": "its claimed",
    "return claiming(data, lambda c: changed(c, 'delta', 2.0))": "its claimed",
    "return claiming(data, lambda c: changed(c, 'unit', 'two' + chr(10) + 'lines'))": "its claimed",
    "return claiming(data, lambda c: changed(c, 'accountant', np.zeros(3)))": "its claimed",
    "return claiming(data, lambda c: c.epsilon)": "its claimed is a float",
    "return lambda f: Lazy(RuntimeError('SECRET'))": "raised RuntimeError",
    "return lambda f: Lazy(MemoryError())": "raised MemoryError",
    "return Lazy(AttributeError('SECRET'))": "without predict_proba",
    "return Lazy(OSError('SECRET'))": "raised OSError",
    "os._exit(0)": "no answer",
    "written(b''); os._exit(0)": "no answer",
    "written(b'no JSON' + bytes(99)); os._exit(0)": "cannot be used (JSONDecodeError)",
    "written(b'{'); os._exit(0)": "cannot be used (JSONDecodeError)",
    "written(b'[' * 10**6); os._exit(0)": "cannot be used (RecursionError)",
    "written(b'[]'); os._exit(0)": "cannot be used (TypeError)",
    "written(b'{}'); os._exit(0)": "cannot be used (KeyError)",
    "written(answer(kind='Declared')); os._exit(0)": "cannot be used (ValueError)",
    "written(answer()); os._exit(0)": "cannot be used (ValueError)",
    "written(answer(shape=[3, 9])); os._exit(0)": "cannot be used (ValueError)",
    "written(answer(shape=[10**9, 2])); os._exit(0)": "cannot be used (ValueError)",
    "written(answer(shape=None)); os._exit(0)": "cannot be used (TypeError)",
    "written(answer() + bytes(4 * 18)); os._exit(0)": "do not add up to 1",
    "written(answer() + bytes([255]) * 72); os._exit(0)": "are not finite",
    "written(answer(claimed={'epsilon': 0, 'delta': 0}) + HALVES); os._exit(0)": "cannot be used",
    "written(answer(claimed={'epsilon': 'nan'}) + HALVES); os._exit(0)": "cannot be used",
    "written(answer(claimed=[1]) + HALVES); os._exit(0)": "cannot be used (TypeError)",
    "written((answer() + HALVES)[:-1]); os._exit(0)": "cannot be used (ValueError)",
    "os.closerange(3, 99); return fitted(data, None, 0)": "no answer",
    "import fairaudit.trainers.child as c; c._predicted = lambda *a: np.ones((2, 3, 1), 'f4'); "
    "return fitted(data, None, 0)": "cannot be used",
    "import fairaudit.trainers.child as c; c._claim = lambda a: {'epsilon': math.inf - math.inf}; "
    "return fitted(data, None, 0)": "raised ValueError",
    "import shutil, glob; [shutil.rmtree(p) for p in glob.glob(os.environ['TMP'] + '/*')]; "
    "os._exit(0)": "no answer",
}
BY_HAND = """
import json, struct
HALVES = struct.pack("<18f", *[0.5] * 18)
def answer(**changed):
    head = {"kind": "TrainerAnswer", "shape": [9, 2], "claimed": None} | changed
    return json.dumps(head).encode() + b"\\n"
def written(content):
    for name in os.listdir("/proc/self/fd"):
        try:
            os.pwrite(int(name), content, 0) if int(name) > 2 else None
        except OSError:
            pass
class Lazy:
    def __init__(self, error): self.error = error
    def __array__(self, dtype=None, copy=None): raise self.error
    @property
    def predict_proba(self): raise self.error
def changed(claim, name, value):
    object.__setattr__(claim, name, value)
    return claim
def claiming(data, change):
    model = fitted(data, None, 0)
    model.claimed = change(fairaudit.Privacy(1.0, 1e-5))
    return model
"""


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="it finds files by /proc")
@pytest.mark.parametrize("body", every_third(ODD))
def test_an_answer_of_whatever_kind_is_a_failed_seed_in_one_line_without_a_row(
    home, body, monkeypatch, tmp_path
):
    name = f"odd{list(ODD).index(body)}"
    made = f"{OWN}{BY_HAND}\ndef train(data, privacy, seed):\n    {body}\n"
    (home / f"{name}.py").write_text(made.replace("SECRET", SECRET))
    # One of these answers removes what lies beside it; this process's own folder holds more.
    beside = tmp_path / "beside"
    (beside / "folder").mkdir(parents=True)
    monkeypatch.setattr(process, "scratch", lambda: beside)
    monkeypatch.setenv("TMP", str(beside))
    with refused_in_one_line(OwnCodeError, ODD[body]) as error:
        answer_of(request(f"{name}:train"), TrainerAnswer)
    assert error.value.exit_code == 4
    assert SECRET not in str(error.value)
    assert len(error.value.log) < 150_000
    assert len(error.value.detail) <= 200
    assert "\n" not in error.value.detail
    str(error.value).encode()
    error.value.log.encode()


def test_a_right_answer_that_was_written_by_hand_is_one(home):
    body = "written(answer(claimed=dict(epsilon=2, delta=0)) + HALVES); os._exit(0)"
    made = f"{OWN}{BY_HAND}\ndef train(data, privacy, seed):\n    {body}\n"
    (home / "by_hand.py").write_text(made)
    answer = answer_of(request("by_hand:train"), TrainerAnswer)
    assert answer.test.tolist() == [[0.5, 0.5]] * 9
    assert answer.claimed["epsilon"] == 2.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table.assign(age=[*"ab"] * 20), ""),
        (lambda table: table.assign(age=[1, "Ada"] * 20), "raised Arrow"),
        (lambda table: table.assign(age=[{1: 2}, {3}] * 20), "raised Arrow"),
        (lambda table: "Ada", "no DataFrame"),
    ],
)
def test_a_synthetic_table_that_cannot_be_read_is_told_without_its_values(home, change, message):
    name = f"tables{abs(hash(message)) % 97}"
    table = pd.DataFrame({"age": np.arange(40.0), "sex": [*"FM"] * 20})
    (home / f"{name}.py").write_text("def made(table, privacy, seed): return table\n")
    given = TrainerRequest(f"{name}:made", change(table))
    if not isinstance(given.data, pd.DataFrame):
        (home / f"{name}.py").write_text("def made(table, privacy, seed): return 'Ada'\n")
        given = TrainerRequest(f"{name}:made", table)
    if not message:
        assert answer_of(given, Synthesised).table.num_rows == 40
        return
    with refused_in_one_line(OwnCodeError, message) as error:
        answer_of(given, Synthesised)
    assert "Ada" not in str(error.value)


def test_what_an_error_said_is_shown_where_it_is_asked_for_and_stands_in_no_report(home, capfd):
    (home / "quotes.py").write_text(
        f"{OWN}\ndef train(data, privacy, seed):\n"
        f"    if privacy is not None and seed == 1: raise ValueError('{SECRET}')\n"
        f"    return fitted(data, privacy, seed)\n"
    )
    command = ["run", "--data", "people.csv", "--group", "sex", "--label", "y", "--positive", "yes"]
    command += ["--seeds", "3", "--epochs", "1", "--trainer", "quotes:train", "--workers", "1"]
    command += ["--diagnostics", "off", "--epsilon", "1"]
    for out, more in (("still", []), ("told", ["--verbose"])):
        assert app.main([*command, "--out", out, *more]) == 4
        shown = "".join(capfd.readouterr())
        assert "train raised ValueError (quotes.py, line" in shown
        assert (SECRET in shown) == bool(more)
        written = [path for path in Path(out).rglob("*") if path.is_file()]
        holding = [path.suffix for path in written if SECRET.encode() in path.read_bytes()]
        assert holding == [".log"]


def forked(home):
    return [int(path.name.partition("-")[2]) for path in home.glob("alive-*")]


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False


def test_a_training_that_hangs_is_ended(home):
    with pytest.raises(OwnCodeError, match="--trainer-timeout"):
        answer_of(request("own:hangs", timeout=0.01), TrainerAnswer)


ASKS = """
from fairaudit.trainers.child import TrainerAnswer, TrainerRequest, TrainingData
from fairaudit.trainers.process import answer_of
answer_of(TrainerRequest("own:hangs", TrainingData(None, None, None, ())), TrainerAnswer)
"""


def test_a_training_and_all_that_it_forked_end_with_whoever_asked_for_it(home):
    asking = subprocess.Popen([sys.executable, "-c", ASKS], cwd=home)
    while len(forked(home)) < 4:
        assert asking.poll() is None  # else nothing will be forked
        time.sleep(0.05)
    asking.kill()
    asking.wait()
    while any(map(is_alive, forked(home))):
        time.sleep(0.05)


REFUSED = [
    ("train = 3", {}, "is not a function"),
    ("def train(data): ...", {}, "does not take three arguments"),
    ("import no_such_library", {}, "ModuleNotFoundError: No module named 'no_such_library'"),
    ("train.settings = {'a': fairaudit.Range(0, 1)}", {}, "does not take four arguments"),
    ("train.settings = {'a': fairaudit.Range(0, 1, log=True)}", {}, "is no range"),
    ("", {"trainer": "no_such_module:train"}, "no module 'no_such_module'"),
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
        report_by(**{"trainer": "nothing:train", **options})
    assert said in str(error.value)
    assert not (home / "trained").exists()


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
    report = report_by("own:plain", fail_on="epsilon > 1.5", **OPTIONS)
    plan = fairaudit.plan_audit("people.csv", trainer="own:plain", **asked(**OPTIONS))
    results = {(job.arm, job.seed): read_result(home / "out/jobs", job.id) for job in plan.jobs}
    return report, plan, results


def test_the_largest_claim_of_several_trainings_counts_and_a_silent_one_voids_all(home):
    plan = fairaudit.plan_audit("people.csv", trainer="own:plain", **asked(seeds=3, epsilon=4))
    (arm,) = (arm for arm in plan.arms if arm.key == "own.plain")
    jobs = [job for job in plan.jobs if job.arm == arm.key]
    words = {"unit": "a row", "neighbouring": "", "accountant": ""}
    for epsilons, deltas, expected in (
        ((1.0, 4.0, 2.0), (1e-6, 1e-7, 1e-5), (4.0, 1e-5)),
        ((1.0, None, 2.0), (1e-6, None, 1e-5), (None, None)),
    ):
        results = {}
        for job, epsilon, delta in zip(jobs, epsilons, deltas, strict=True):
            claimed = {"epsilon": epsilon, "delta": delta, **words} if epsilon else None
            results[job.id] = JobResult(job.id, {}, {"claimed": [claimed]})
        claim = claimed_of(arm, plan, results).claim
        assert (claim.epsilon, claim.delta) == expected


@pytest.mark.slow
def test_an_audit_pairs_the_trainer_with_its_own_reference_and_believes_nothing(plain):
    report = plain[0]
    references = {cost.arm: cost.reference for cost in report.costs}
    assert references == {
        "own.plain@2": "own.plain-reference",
        "own.plain@2#self-check": "own.plain@2",
        "own.plain@4": "own.plain-reference",
        "own.plain@4#self-check": "own.plain@4",
    }
    facts = report.privacy["own.plain@4"]
    assert (facts.guarantee.name, facts.epsilon, facts.delta) == ("CLAIMED", None, None)
    assert (facts.claim.epsilon, facts.claim.unit, facts.claim.trainings) == (4.0, "a row", 6)
    assert report.sweep[0].method == "own.plain"
    assert {target.outcome for target in report.gates[0].targets} == {"inconclusive"}
    trusted = fairaudit.check_gates(report, ["epsilon > 3"], trust_claimed_epsilon=True).gates[0]
    outcomes = {target.arm: target.outcome for target in trusted.targets}
    assert (outcomes["own.plain@2"], outcomes["own.plain@4"]) == ("pass", "fail")
    assert ("trainer_deterministic", "own.plain@4") in codes_of(report)


@pytest.mark.slow
def test_predictions_are_those_of_the_function_on_the_seeds_encoded_rows(plain):
    import own

    _, plan, results = plain
    dataset = load_dataset(plan.config)
    four = fairaudit.Privacy(4, plan.training.delta)
    for seed in range(3):
        split = draw_split(dataset, plan.config.split, seed)
        encoded = encode(dataset, split, plan.config.encoding)
        labels = dataset.labels[split.train]
        data = fairaudit.TrainingData(encoded.train[:], labels, None, ("no", "yes"))
        for arm, privacy in (("own.plain-reference", None), ("own.plain@4", four)):
            expected = own.plain(data, privacy, seed).predict_proba(encoded.test[:])
            arrays = results[arm, seed].arrays
            np.testing.assert_allclose(arrays["probabilities"][0], expected, atol=1e-6)
            np.testing.assert_array_equal(arrays["test_rows"], split.test)


@pytest.mark.slow
def test_beside_a_method_of_ours_it_is_not_released(home):
    trainer = {"trainer_groups": True, "trainer_version": "2", "reference": "sgd"}
    (home / "gone.py").write_text(OWN)
    report = report_by("gone:plain", method="dpsgd", seeds=1, out="beside", **trainer)
    references = {cost.arm: cost.reference for cost in report.costs}
    assert references == {"dpsgd": "sgd", "gone.plain": "sgd"}
    (home / "gone.py").unlink()
    with pytest.raises(FairauditError, match="yours to release"):
        plan_release(Wish(Path("beside/report.json"), "gone.plain"))
    released = plan_release(Wish(Path("beside/report.json"), "dpsgd", set_aside=(FITTED,)))
    assert released.arm.key == "dpsgd"


@pytest.mark.slow
def test_raw_rows_and_groups_are_handed_where_they_are_asked_for(home):
    report = report_by("own:raw", raw=True, trainer_groups=True, seeds=1, favourable="yes")
    assert report.status == "complete"
    assert {arm.key: arm for arm in report.arms}["own.raw"].reads_groups
    assert report.privacy["own.raw"].claim.epsilon is None
    assert ("privacy_not_heeded", "own.raw") in codes_of(report)
    with pytest.raises(FairauditError, match=r"sex.*--trainer-groups"):
        report_by("own:asks", raw=True)


@pytest.mark.slow
def test_a_trainer_that_draws_from_the_system_and_claims_too_much_is_named(home):
    report = report_by(("own:draws", "own:beyond"), epsilon=2)
    assert ("trainer_not_deterministic", "own.draws") in codes_of(report)
    claim = report.privacy["own.draws"].claim
    assert (claim.epsilon, claim.claiming, claim.trainings) == (None, 1, 2)
    beyond = {arm for code, arm in codes_of(report) if code == "claim_beyond_asked"}
    assert beyond == {"own.beyond"}


@pytest.mark.slow
def test_a_failed_seed_leaves_a_log_and_what_fails_alike_at_two_seeds_ends_the_run(home):
    report = report_by("own:fails", out="failed")
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
    assert report_by("own:fails", out="failed").status == "complete"
    assert not log.exists()
    with pytest.raises(FairauditError, match="at every seed"):
        report_by("own:never", seeds=6)
    assert len(list(home.glob("seed-*-False"))) == 2


@pytest.mark.slow
def test_what_a_training_depends_on_is_in_its_identity_and_moves_nothing_of_ours(home, monkeypatch):
    (home / "named.py").write_text("import beside\n" + OWN)
    (home / "beside.py").write_text("VALUE = 1\n")

    def ids(**options):
        given = asked(trainer="named:plain", method="dpsgd") | options
        jobs = fairaudit.plan_audit("people.csv", **given).jobs
        return {(job.id, job.arm, job.seed) for job in jobs}

    before = ids()

    def changed(**options):
        return {arm for _, arm, _ in ids(**options) - before}

    own = {"named.plain", "named.plain-reference"}
    for option in ({"trainer_version": "2"}, {"trainer_groups": True}, {"raw": True}):
        assert changed(**option) == own
    assert changed(epsilon=2) == {"dpsgd", "named.plain"}
    assert changed(reference="sgd") == set()
    with monkeypatch.context() as other:
        other.setattr("fairaudit.trainers.arms.version", lambda name: "0.0")
        assert changed() == own
    (home / "beside.py").write_text("VALUE = 2\n")
    assert changed() == own
    assert ids(trainer=None) < before


# --- searches


@pytest.mark.slow
def test_a_search_repairs_a_default_and_no_epsilon_is_claimed_of_what_it_chose(home):
    report = report_by("own:shifted", tune=3, fail_on="epsilon > 100", trust_claimed_epsilon=True)
    searches = {search.arm: search for search in report.studies["tuning"].searches}
    for seed in (*searches["own.shifted"].seeds, *searches["own.shifted-reference"].seeds):
        default, *others = seed.tried
        assert (default.is_default, default.settings) == (True, {})
        assert all(-0.01 < tried.settings["shift"] < 0.01 for tried in others)
        assert max(seed.tried, key=lambda tried: tried.released_score).selected
    assert not any(seed.best.is_default for seed in searches["own.shifted"].seeds)  # far off
    assert report.privacy["own.shifted"].claim.claiming == 0
    outcomes = {target.arm: target.outcome for target in report.gates[0].targets}
    assert outcomes["own.shifted"] == "inconclusive"


# --- what is wrong is named


@pytest.mark.slow
def test_planted_mistakes_are_named_and_sound_learners_are_not(home):
    draw = np.random.default_rng(3)
    x = draw.normal(size=(1500, 6))
    people = pd.DataFrame(x, columns=[*"abcdef"]).assign(sex=draw.choice([*"FM"], 1500))
    drawn = draw.logistic(size=1500)
    people["y"] = np.where(x @ [1.5, -1, 0.7, 0.5, 0, 0] + drawn > 0.5, "yes", "no")
    people.to_csv("many.csv", index=False)
    names = "low_bound", "low_rate", "few_rounds", "few_rows", "few_in_both", "sound", "sound_too"
    trainers = [f"planted:{name}" for name in names]
    report = report_by(trainers, "many.csv", epsilon=3, seeds=5, out="many")
    clean(Path("many"))  # twins that were trained last, too
    assert [path.name for path in (home / "many/jobs").iterdir()] == ["lock"]
    knobs = [(one.advice.knob, one.arm) for one in report.findings if one.advice]
    settings = {arm.partition(".")[2] for knob, arm in knobs if knob == "own settings"}
    assert settings == {"low_bound", "low_rate", "few_rounds"}
    assert ("own noise", "planted.few_rows") in knobs
    codes = {"privacy_not_heeded", "classes_reordered", "reference_behind"}
    told = {warning for warning in codes_of(report) if warning[0] in codes}
    assert told == {("reference_behind", "planted.few_in_both-reference")}
    trainers = [f"planted:{name}" for name in ("ignores", "swaps", "sound")]
    report = report_by(trainers, "many.csv", epsilon=[2, 8])
    swapped = {("classes_reordered", f"planted.swaps@{epsilon}") for epsilon in (2, 8)}
    same = {("privacy_not_heeded", f"planted.ignores@{epsilon}") for epsilon in (2, 8)}
    assert {one for one in codes_of(report) if one[0] in codes} == swapped | same


# --- synthetic tables


@pytest.mark.slow
def test_tables_are_described_beside_the_real_rows_and_lacking_groups_are_named(home):
    report = report_by(synthesizer=["own:same", "own:mens"], epsilon=2, epochs=2)
    groups = {(g.arm, g.group): g for g in report.studies["trainers"].groups}
    for name in "FMX":
        same, mens = groups["own.same", name], groups["own.mens", name]
        assert (same.share, same.rate) == (same.real_share, same.real_rate)
        assert mens.missing_classes == (() if name == "M" else ("yes",))
        assert (mens.rate == 0.0) == (name != "M")
    assert sum(groups["own.mens", name].share for name in "FMX") == pytest.approx(1.0)
    lacking = {arm for code, arm in codes_of(report) if code == "synthetic_lacks"}
    assert lacking == {"own.mens"}
    claims = [report.privacy[key].claim.epsilon for key in ("own.same", "own.mens")]
    assert claims == [2.0, None]
    costs = {c.arm: c.overall.estimates["privacy_cost"].value for c in report.costs}
    assert costs["own.same"] < costs["own.mens"]


BROKEN = {
    "lambda t: t.drop(columns='job')": "lacks the column 'job'",
    "lambda t: t.assign(age='a')": "column 'age' holds",
    "lambda t: t.assign(job='pilot')": "'job' has levels that no real row has: 'pilot'",
    "lambda t: t.assign(y='maybe')": "'y' has levels that no real row has: 'maybe'",
    "lambda t: t.assign(sex=None)": "'sex'",
    "lambda t: t.assign(age=t.age.where(t.age > 45))": "'age' has missing values",
    "lambda t: t[:0]": "no rows",
    "lambda t: t.to_dict()": "returned a dict, no DataFrame",
}


@pytest.mark.slow
@pytest.mark.parametrize("change", BROKEN)
def test_a_table_that_cannot_be_used_is_named_in_one_line(home, change):
    (home / "makes.py").write_text(OWN.replace("CHANGE", f"({change})"))
    with refused_in_one_line(FairauditError, BROKEN[change]) as error:
        report_by(synthesizer="makes:broken")
    assert "fails alike" in str(error.value)


def test_whole_numbers_beyond_those_of_float64_are_numbers_as_others(home):
    big = [2**53 + 1, 2**53 + 3, -(2**60)]
    real, made = pa.table({"x": big}), pa.table({"x": [1, 2**62 + 1]})
    read = synthetic._features(real=real, table=made).column("x").to_pylist()
    assert read == [float(number) for number in (*big, 1, 2**62 + 1)]
    with refused_in_one_line(DataError, "column 'x' holds string, not int64"):
        synthetic._features(real=real, table=pa.table({"x": ["1"]}))


@pytest.mark.slow
def test_a_given_table_is_trained_on_by_several_seeds_and_told_to_be_one_draw(home):
    real = pd.read_csv("people.csv")
    real.assign(more=1)[real.sex != "X"].to_csv("made.csv", index=False)
    words = "score --synthetic made.csv --data people.csv --group sex --y-true y --out scored"
    assert app.main(words.split()) == 0
    for unread in ("made.csv", "--y-pred=age", "--baseline-pred=age", "--seed-column=age"):
        assert app.main([*words.split(), unread]) == 2
    report = fairaudit.load_report("scored/report.json")
    (cost,) = report.costs
    assert (cost.arm, cost.reference) == ("synthetic", "sgd")
    assert cost.overall.estimates["privacy_cost"].low is not None
    assert cost.estimand.startswith("the expected gap of models trained on this synthetic table")
    assert len(list(Path("scored/jobs").glob("*.safetensors"))) == 10
    once = report_by(synthetic="made.csv", seeds=1, out="once")
    (alone,) = once.costs
    assert "these models" in alone.estimand
    assert "one_model" in {limit.code for limit in report.limitations}
    missing = {g.group: g.missing_at for g in report.studies["trainers"].groups}
    assert missing == {"F": 0, "M": 0, "X": 5}
    real.drop(columns="age").to_csv("made.csv", index=False)
    with pytest.raises(DataError, match="lacks the column 'age'"):
        report_by(synthetic="made.csv", seeds=1)
    assert app.main(["score", "--group", "sex"]) == 2


# --- docs/examples


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "package"),
    [("opacus_loop:train", "opacus"), ("dp_ebm:train", "interpret"), ("mst:sampled", "mbi")],
)
def test_an_example_is_audited_as_its_first_lines_say(home, code, package):
    pytest.importorskip(package, reason=f"{code} runs where {package} is installed")
    named = {"synthesizer" if package == "mbi" else "trainer": code, "raw": package == "interpret"}
    report = report_by(**named, epsilon=8, seeds=1, twins="always", epochs=None)
    assert report.status == "complete", report.warnings
    arm = code.replace(":", ".")
    claim = report.privacy[arm].claim
    assert 7.9 < claim.epsilon <= 8.0
    assert claim.claiming == claim.trainings == 1
    (cost,) = [cost for cost in report.costs if cost.arm == arm]
    known = cost.overall.estimates
    assert known["reference.accuracy"].value > 0.75  # it learns: half is chance
    # Noise and rows of mbi's are drawn without a seed, so that any accuracy may come of them.
    assert known["accuracy"].value > (0.0 if package == "mbi" else 0.7)
    assert ("privacy_cost.without_noise" in known) == (package != "opacus")
