"""From a stored report to a folder: what is trained, what is refused, and what is left behind."""

import hashlib
import json
import math
import os
import re
import secrets
from dataclasses import replace

import numpy as np
import pytest
from intoto import STATEMENT
from jsonschema import Draft202012Validator
from people import TOLD, applicants
from safetensors.numpy import load_file
from scipy.stats import binom, t

from fairaudit.errors import (
    ConfigError,
    GateFailed,
    OutputError,
    PrivacyError,
    TrainingError,
    Undecided,
)
from fairaudit.methods.catalog import Guarantee
from fairaudit.privacy.streams import from_operating_system
from fairaudit.release.held_out import accuracies, prediction_interval
from fairaudit.release.lines import plan_lines
from fairaudit.release.model_folder import write_folder
from fairaudit.release.next_command import next_command
from fairaudit.release.planned import ReleaseRequest, plan_release
from fairaudit.release.train import coin_split, release, train_for_release, write_model
from fairaudit.report.load import load_report

FILES = {"model.safetensors", "recipe.json", "privacy.json", "MODEL_CARD.md", "evidence.json"}


def read(folder, name):
    return json.loads((folder / name).read_text(encoding="utf-8"))


def test_two_trainings_differ_in_every_weight_and_in_nothing_that_is_said(trained):
    one, two = trained(name="one"), trained(name="two")
    assert {path.name for path in one.folder.iterdir()} == FILES
    a, b = (load_file(each.folder / "model.safetensors") for each in (one, two))
    assert a.keys() == b.keys()
    assert all((a[name].view(np.uint32) != b[name].view(np.uint32)).all() for name in a)
    for name in FILES - {"model.safetensors", "evidence.json"}:
        assert (one.folder / name).read_bytes() == (two.folder / name).read_bytes()


def test_every_draw_comes_of_the_operating_system_and_leaves_no_trace(
    stored, tmp_path, monkeypatch
):
    """Keys and seeds as they are handed out, then searched in every file.

    As bytes and as digits.
    """
    choice = plan_release(ReleaseRequest(stored(), "dpsgd"))
    given, numbers = [], []
    urandom, randbits = os.urandom, secrets.randbits
    monkeypatch.setattr(os, "urandom", lambda size: given.append(urandom(size)) or given[-1])
    monkeypatch.setattr(
        secrets, "randbits", lambda bits: numbers.append(randbits(bits)) or numbers[-1]
    )
    seeded = []
    pcg = np.random.PCG64
    monkeypatch.setattr(np.random, "PCG64", lambda seed: seeded.append(seed) or pcg(seed))
    release(choice, tmp_path / "model")
    assert not seeded
    assert len([key for key in given if len(key) == 32]) >= 4  # split, sampling, noise, queries
    assert numbers
    for path in (tmp_path / "model").iterdir():
        content = path.read_bytes()
        assert not any(key in content or key.hex().encode() in content for key in given)
        assert not any(str(number).encode() in content for number in numbers)
        assert b"seed" not in content.replace(b"seeds", b"")


def test_the_guarantee_is_the_audits(trained):
    made = trained()
    report = load_report(made.report)
    told, audited = read(made.folder, "privacy.json"), report.privacy["dpsgd"]
    assert told["epsilon"] == pytest.approx(audited.epsilon.pld, rel=1e-5)
    assert told["epsilon_rdp"] == pytest.approx(audited.epsilon.rdp, rel=1e-5)
    assert told["delta"] == audited.delta
    assert told["event"]["steps"] == report.training.steps
    assert told["declared"]["n_public"] == report.training.n_public
    assert told["fitted_without_privacy"] == []
    assert report.data.fitted == ()


def test_the_evidence_is_valid_and_names_every_file_the_report_and_the_data(trained):
    made = trained()
    told = read(made.folder, "evidence.json")
    Draft202012Validator(STATEMENT).validate(told)
    digest = lambda path: hashlib.sha256(path.read_bytes()).hexdigest()  # noqa: E731
    assert {each["name"]: each["digest"]["sha256"] for each in told["subject"]} == {
        name: digest(made.folder / name) for name in FILES - {"evidence.json"}
    }
    report, audited, used = told["predicate"]["configuration"]
    assert report["digest"]["sha256"] == digest(made.report)
    assert report["annotations"]["content_sha256"] == load_report(made.report).content_sha256
    assert audited["digest"]["sha256"] == used["digest"]["sha256"]
    assert used["annotations"]["overrides"] == []
    assert told["predicate"]["result"] == "WARNED"  # nothing was tested


# --- refusals
# ----------------------------------------------------------------------------------------

PASSES, FAILS, OPEN = "epsilon > 1000", "epsilon > 0.001", "privacy_cost_gap > 0.02"


@pytest.mark.parametrize(
    ("rules", "error", "code", "result"),
    [
        ([PASSES], None, 0, "PASSED"),
        ([FAILS, PASSES], GateFailed, 1, "FAILED"),
        ([OPEN, PASSES], Undecided, 3, "WARNED"),
    ],
)
def test_rules_that_do_not_pass_stop_it_unless_they_are_set_aside(
    trained, rules, error, code, result
):
    if error:
        with pytest.raises(error, match=re.escape(rules[0])) as caught:
            trained(fail_on=rules)
        assert caught.value.exit_code == code
    made = trained(fail_on=rules, wish={"set_aside": ("--despite-gates",)})
    told = read(made.folder, "evidence.json")["predicate"]
    assert told["result"] == result
    assert sorted([*told["passedTests"], *told["warnedTests"], *told["failedTests"]]) == sorted(
        rules
    )
    overrides = told["configuration"][2]["annotations"]["overrides"]
    assert overrides == (["--despite-gates"] if error else [])
    assert ("--despite-gates" in (made.folder / "MODEL_CARD.md").read_text()) == bool(error)


def test_changed_data_stop_it_unless_the_evidence_may_say_so(stored, tmp_path):
    changed = applicants()
    changed.loc[0, "age"] += 1.0
    changed.to_parquet(tmp_path / "changed.parquet", index=False)
    wish = {"report": stored(), "method": "dpsgd", "data": tmp_path / "changed.parquet"}
    with pytest.raises(ConfigError, match="is not what was audited") as caught:
        plan_release(ReleaseRequest(**wish))
    assert caught.value.exit_code == 2
    release(
        plan_release(ReleaseRequest(**wish, set_aside=("--despite-change",))), tmp_path / "model"
    )
    _, before, now = read(tmp_path / "model", "evidence.json")["predicate"]["configuration"]
    assert before["digest"] != now["digest"]
    assert now["annotations"]["overrides"] == ["--despite-change"]
    assert "--despite-change" in (tmp_path / "model" / "MODEL_CARD.md").read_text()


def test_rows_that_cannot_be_read_are_left_out_and_told(stored, tmp_path):
    changed = applicants()
    changed.loc[[0, 7], "y"] = "perhaps"
    changed.loc[3, "sex"] = "X"
    changed.to_parquet(tmp_path / "changed.parquet", index=False)
    wish = {"data": tmp_path / "changed.parquet", "set_aside": ("--despite-change",)}
    plan = plan_release(ReleaseRequest(stored(), "dpsgd", **wish))
    assert "  rows    297 of 300 (audit: 300 of 300);" in "\n".join(plan_lines(plan))
    release(plan, tmp_path / "model")
    told = read(tmp_path / "model", "privacy.json")
    assert told["declared"]["n_public"] == load_report(stored()).training.n_public
    assert told["declared"]["classes"] == ["no", "yes"]
    assert "perhaps" not in "".join(
        path.read_text() for path in (tmp_path / "model").glob("*.json")
    )
    assert "  rows " not in "\n".join(plan_lines(plan_release(ReleaseRequest(stored(), "dpsgd"))))


def test_a_report_whose_guarantee_is_not_that_of_its_numbers_is_refused(stored, monkeypatch):
    """As a consistent edit with a new digest, or another version's accountant, would make it."""
    path = stored()
    report = load_report(path)
    reference, arm = report.arms
    privacy, settings = arm.privacy, arm.settings
    found = privacy.epsilon
    edited = [
        {"settings": {**settings, "noise_multiplier": settings["noise_multiplier"] * 1.001}},
        {"settings": {**settings, "max_grad_norm": -1.0}},
        {"settings": {name: settings[name] for name in sorted(settings)[1:]}},
        {"settings": {**settings, "threshold": 1.0}},
        {"privacy": privacy.model_copy(update={"delta": privacy.delta * 1.001})},
        {"privacy": privacy.model_copy(update={"guarantee": Guarantee.CHECKED})},
    ]
    for name in ("pld", "rdp"):
        other = found.model_copy(update={name: getattr(found, name) * 1.001})
        edited.append({"privacy": privacy.model_copy(update={"epsilon": other})})
    lies = [{"arms": (reference, arm.model_copy(update=update))} for update in edited]
    for name in ("steps_per_epoch", "epochs"):
        number = getattr(report.training, name) + 1
        lies.append({"training": report.training.model_copy(update={name: number})})
    assert plan_release(ReleaseRequest(path, "dpsgd")).arm.settings == settings
    for update in lies:
        lying = report.model_copy(update=update)
        monkeypatch.setattr("fairaudit.release.planned.parsed", lambda *_, lying=lying, **__: lying)
        with pytest.raises((ConfigError, PrivacyError)):
            plan_release(ReleaseRequest(path, "dpsgd"))


@pytest.mark.parametrize(
    "update",
    [
        {"epochs": 10**306},  # of so many steps epsilon is infinite
        {"epochs": 10**400},
        {"steps_per_epoch": 10**400},
        {"steps_per_epoch": 0},
        {"epochs": -1},
        {"delta": 0.0},
        {"delta": 1.5},
        {"delta": math.nan},
    ],
)
def test_a_schedule_or_a_delta_that_no_audit_has_is_refused(stored, monkeypatch, update):
    path = stored()
    report = load_report(path)
    reference, arm = report.arms
    lying = report.model_copy(
        update={
            "training": report.training.model_copy(update=update),
            "arms": (
                reference,
                arm.model_copy(update={"settings": {**arm.settings, "noise_multiplier": 0.001}}),
            ),
        }
    )
    monkeypatch.setattr("fairaudit.release.planned.parsed", lambda *_, **__: lying)
    with pytest.raises(ConfigError, match="that no audit has") as caught:
        plan_release(ReleaseRequest(path, "dpsgd"))
    assert "\n" not in str(caught.value)


def test_undeclared_columns_stop_it_unless_the_card_may_say_so(trained):
    with pytest.raises(PrivacyError, match="3 of 3 columns are not declared") as caught:
        trained(columns=None)
    assert caught.value.exit_code == 5
    made = trained(columns=None, wish={"set_aside": ("--accept-fitted-preprocessing",)})
    fitted = read(made.folder, "privacy.json")["fitted_without_privacy"]
    assert "mean and standard deviation of age" in fitted
    assert read(made.folder, "recipe.json")["fitted"] == fitted
    card = (made.folder / "MODEL_CARD.md").read_text()
    assert "exact functions of" in card
    assert "--accept-fitted-preprocessing" in card
    assert "No attack that wrongly accuses" in card


def test_what_has_no_established_guarantee_is_refused(stored):
    path = stored(method=["global-adapt", "dpsgd-matched"], variant=["as-published"])
    for wish, said in (
        (ReleaseRequest(path, "global-adapt", "as-published"), "no established guarantee"),
        (ReleaseRequest(path, "sgd"), "no established guarantee"),
        (ReleaseRequest(path, "dpsgd-matched"), "reads what global-adapt released"),
    ):
        with pytest.raises(PrivacyError, match=said):
            plan_release(wish)
    with pytest.raises(ConfigError, match="dpsgd was not audited"):
        plan_release(ReleaseRequest(path, "dpsgd"))


def test_a_feature_that_was_contrasted_is_refused(stored):
    path = stored(contrast={"job": "cook"}, columns=None)
    with pytest.raises(ConfigError, match="--contrast"):
        plan_release(ReleaseRequest(path, "dpsgd", set_aside=("--accept-fitted-preprocessing",)))
    declared = {"job": {"kind": "category", "categories": ["cook", "not cook"]}}
    path = stored(contrast={"job": "cook"}, columns={"columns": {**TOLD, **declared}})
    assert not next_command(load_report(path), "r.json")


def test_a_model_of_ones_own_that_changed_since_is_refused(stored, own_model):
    given = {"model": "own_release_toy:make"}
    request = ReleaseRequest(stored(**given), "dpsgd", **given)
    assert plan_release(request).overrides == ()
    own_model.write_text(own_model.read_text() + "# changed")
    with pytest.raises(ConfigError, match="not what was audited"):
        plan_release(request)


def test_groups_cut_at_quantiles_of_the_rows_are_told_and_refused(stored):
    sex = {"kind": "category", "categories": ["F", "M"]}
    path = stored(group=["age"], columns={"columns": {**TOLD, "sex": sex}})
    (item,) = (item for item in load_report(path).privacy["dpsgd"].not_covered if "edges" in item)
    assert "groups of age" in item
    assert not load_report(path).data.fitted
    assert not next_command(load_report(path), "r.json")
    with pytest.raises(PrivacyError, match="quantiles") as caught:
        plan_release(ReleaseRequest(path, "dpsgd", set_aside=("--accept-fitted-preprocessing",)))
    assert "--bin age=" in caught.value.hint
    plan_release(
        ReleaseRequest(
            stored(group=["age"], bin={"age": "30,50"}),
            "dpsgd",
            set_aside=("--accept-fitted-preprocessing",),
        )
    )


def test_one_epsilon_of_a_sweep_is_named(stored):
    path = stored(epsilon=[2.0, 4.0], noise_multiplier=None)
    with pytest.raises(ConfigError, match="several epsilons"):
        plan_release(ReleaseRequest(path, "dpsgd"))
    with pytest.raises(ConfigError, match="not in this form and at this epsilon"):
        plan_release(ReleaseRequest(path, "dpsgd", epsilon=3.0))
    choice = plan_release(ReleaseRequest(path, "dpsgd", epsilon=4.0))
    assert choice.arm.key == "dpsgd@4"
    assert 3.99 < choice.arm.privacy.epsilon.pld <= 4.0


def test_an_audit_with_a_failed_seed_is_no_word_for_a_model(stored, monkeypatch):
    partial = load_report(stored()).model_copy(update={"status": "partial"})
    monkeypatch.setattr("fairaudit.release.planned.parsed", lambda *_, **__: partial)
    with pytest.raises(Undecided, match="not complete"):
        plan_release(ReleaseRequest(stored(), "dpsgd"))
    assert plan_release(
        ReleaseRequest(stored(), "dpsgd", set_aside=("--despite-gates",))
    ).overrides == ("--despite-gates",)


# --- the folder
# --------------------------------------------------------------------------------------


@pytest.mark.parametrize("stop", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_a_write_that_is_cut_short_leaves_nothing(tmp_path, monkeypatch, stop):
    synced = []

    def fsync(descriptor):
        synced.append(descriptor)
        if len(synced) == 2:
            raise stop

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises((KeyboardInterrupt, OutputError)):
        write_folder(tmp_path / "model", {"a": b"1", "b": b"2", "c": b"3"})
    assert list(tmp_path.iterdir()) == []


def test_a_diverged_training_is_told_without_its_seed_and_writes_nothing(
    stored, tmp_path, monkeypatch
):
    choice = plan_release(ReleaseRequest(stored(), "dpsgd"))
    monkeypatch.setattr("fairaudit.methods.gradient.LARGEST_PARAMETER", 0.0)
    with pytest.raises(TrainingError, match="diverged") as caught:
        release(choice, tmp_path / "model")
    assert not re.search(r"seed|\d{12}", str(caught.value))
    assert list(tmp_path.iterdir()) == []


# --- the held-out rows
# ----------------------------------------------------------------------------------------


def test_seeds_that_agree_by_luck_have_the_spread_of_the_arms(trained):
    """As a group of few rows has in five seeds: no spread of its own, and 7 points elsewhere."""
    made = trained(method="dpsgd", seeds=3)
    report = load_report(made.report)
    by_arm = accuracies(report, "sex", "F")
    assert by_arm.keys() == {"sgd", "dpsgd"}
    (women,) = (each for each in made.held_out if each.group == "F")
    spread = np.sqrt(np.mean([np.var(seeds, ddof=1) for seeds in by_arm.values()]))
    share = np.mean(by_arm["dpsgd"])
    rows = np.sqrt(share * (1 - share) / women.rows)  # held-out rows are no seed's test rows
    s = max(np.std(by_arm["dpsgd"], ddof=1), spread, rows)
    reach = t.isf(0.05 / 4, 2) * s * np.sqrt(4 / 3)  # two groups share the 5 %
    assert women.expected.low == pytest.approx(max(0.0, share - reach))
    assert women.expected.high == pytest.approx(min(1.0, share + reach))
    alike = prediction_interval([0.8] * 5, least_sd=0.07)
    assert alike.low == pytest.approx(0.8 - t.isf(0.025, 4) * 0.07 * np.sqrt(1.2))
    assert alike.high == 1.0


# --- the split
# ---------------------------------------------------------------------------------------


def test_each_row_is_split_by_a_coin_of_its_own(stored):
    choice = plan_release(ReleaseRequest(stored(), "dpsgd"))
    draws, rows = 400, choice.dataset.n_rows
    member = np.zeros((draws, rows), bool)
    with from_operating_system():
        for draw in range(draws):
            split = coin_split(choice.dataset, choice.config.split)
            member[draw, split.train] = True
            assert len(np.union1d(split.train, split.test)) == rows
            assert not np.intersect1d(split.train, split.test).size
    assert binom.ppf(1e-6, member.size, 0.8) <= member.sum() <= binom.isf(1e-6, member.size, 0.8)
    sizes = member.sum(1)
    # A stratified split has one size; coins have the variance of a binomial.
    assert 0.6 < sizes.var() / (rows * 0.8 * 0.2) < 1.45
    neighbours = ((member[:, 1:] - 0.8) * (member[:, :-1] - 0.8)).sum() / (
        0.16 * np.sqrt(draws * (rows - 1))
    )
    assert abs(neighbours) < 4.9


def test_kept_and_balanced_rows_are_coins_with_the_rates_that_were_asked_for(stored):
    kept = plan_release(ReleaseRequest(stored(keep={"F": 0.25}), "dpsgd"))
    with from_operating_system():
        splits = [coin_split(kept.dataset, kept.config.split) for _ in range(200)]
    groups = kept.dataset.groupings[0].groups
    of_group = [int((groups == k).sum()) for k in (0, 1)]
    for group, rate in ((0, 0.8 * 0.25), (1, 0.8)):
        taken = sum(int((groups[split.train] == group).sum()) for split in splits)
        draws = 200 * of_group[group]
        assert binom.ppf(1e-6, draws, rate) <= taken <= binom.isf(1e-6, draws, rate)
    balanced = kept.config.model_copy(update={"keep": {}, "balance": True})
    with from_operating_system():
        splits = [coin_split(kept.dataset, balanced.split) for _ in range(200)]
    for k in (0, 1):
        taken = sum(int((groups[split.train] == k).sum()) for split in splits)
        assert abs(taken - 200 * 0.8 * min(of_group)) < 5 * np.sqrt(200 * 0.8 * max(of_group))
    is_test = (groups == 0) & (np.arange(len(groups)) % 9 > 0)  # few of F train
    given = replace(kept.dataset, split=is_test.astype(np.int64))
    with from_operating_system():
        rows = coin_split(given, balanced.split).train
    few = int((~is_test & (groups == 0)).sum())
    assert (groups[rows] == 1).sum() < 3 * few == 3 * (groups[rows] == 0).sum()


def test_a_split_that_the_data_bring_stays(stored, tmp_path):
    frame = applicants()
    frame["part"] = np.where(np.arange(len(frame)) % 3, "train", "test")
    frame.to_parquet(tmp_path / "t.parquet", index=False)
    path = stored(data=tmp_path / "t.parquet", split_column="part", columns=None)
    choice = plan_release(
        ReleaseRequest(path, "dpsgd", set_aside=("--accept-fitted-preprocessing",))
    )
    trained = train_for_release(choice)
    assert trained.test.tolist() == list(range(0, 300, 3))


def test_scales_of_a_pool_of_test_rows_are_accepted_by_name_and_stated(stored, tmp_path):
    path = stored(method=["pate-hard"], noise_multiplier=None, epsilon=[8.0], columns=None)
    with pytest.raises(PrivacyError, match="not declared"):
        plan_release(ReleaseRequest(path, "pate-hard"))
    choice = plan_release(
        ReleaseRequest(path, "pate-hard", set_aside=("--accept-fitted-preprocessing",))
    )
    write_model(choice, train_for_release(choice), tmp_path / "model")
    stated = json.loads((tmp_path / "model" / "privacy.json").read_text())
    assert len(stated["fitted_without_privacy"]) >= len(choice.dataset.features.column_names)
    assert "chance puts into the student pool" in " ".join(stated["not_covered"])
    assert "no row of the student pool" in stated["unit"]
    assert "Accepted: " in (tmp_path / "model" / "MODEL_CARD.md").read_text()


def test_a_student_gets_the_records_that_were_planned_whatever_the_coins_say(stored, monkeypatch):
    """Half of the test rows are as many as planned in one release of two.

    The event is the audit's.
    """
    path = stored(method=["pate-hard"], noise_multiplier=None, epsilon=[8.0])
    choice = plan_release(
        ReleaseRequest(path, "pate-hard", set_aside=("--accept-fitted-preprocessing",))
    )
    queries = int(choice.arm.settings["queries"])
    assert len({len(train_for_release(choice).test) for _ in range(6)}) > 1

    def few(dataset, options):
        split = coin_split(dataset, options)
        return replace(split, test=split.test[: queries - 1])

    monkeypatch.setattr("fairaudit.release.train.coin_split", few)
    with pytest.raises(
        TrainingError, match=f"needs {queries} records, and coins left {queries - 1}"
    ):
        train_for_release(choice)


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("DefaultCPUAllocator: not enough memory")]
)
def test_a_training_without_memory_is_refused_as_one(stored, monkeypatch, error):
    choice = plan_release(
        ReleaseRequest(stored(columns=None), "dpsgd", set_aside=("--accept-fitted-preprocessing",))
    )

    class Hungry:
        def fit(self, task, observers):
            raise error

    monkeypatch.setattr("fairaudit.release.train.method_of", lambda arm: Hungry())
    with pytest.raises(TrainingError, match="out of memory"):
        train_for_release(choice)
