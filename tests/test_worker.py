"""One job through the process that trains it: what it leaves behind for the report."""

import pickle
from dataclasses import replace
from pathlib import Path

import own_models
import pyarrow.parquet as pq
import pytest
from jobs import inputs_of, run_here
from places import LOANS

from fairaudit.config.options import AuditConfig
from fairaudit.data.inputs.encode import DecodedRows, TableEncoder
from fairaudit.data.inputs.shared import share_inputs
from fairaudit.data.tabular import load_dataset
from fairaudit.errors import TrainingError
from fairaudit.execution import outcomes as outcomes
from fairaudit.execution import worker as worker
from fairaudit.execution.seed_data import prepare_seed
from fairaudit.execution.worker import run_job
from fairaudit.planning.plan import make_plan


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    """Options -> a plan on the first rows of the sample."""
    data = tmp_path_factory.mktemp("worker") / "loans.parquet"
    pq.write_table(pq.read_table(LOANS).slice(0, 800), data)
    fields = {"data": data, "group": ("sex",), "seeds": 1, "epochs": 2, "noise_multiplier": 1.0}

    def _planned(**given):
        config = AuditConfig(**{**fields, **given})
        return make_plan(config, load_dataset(config))

    return _planned


def result_of(plan, arm):
    return run_here(plan, next(job for job in plan.jobs if job.arm == arm))


@pytest.mark.parametrize(
    ("arm", "given"),
    [
        ("dpsgd-f:author-code", {"method": ("dpsgd-f",), "variant": ("author-code",)}),
        ("dpsgd-f", {"method": ("dpsgd-f",), "noise_multiplier": 0.0}),
    ],
)
def test_noise_next_to_a_group_is_read_where_a_guarantee_treats_groups_unlike(planned, arm, given):
    assert "reading.group_noise_multiplier" not in result_of(planned(**given), arm).arrays


@pytest.mark.parametrize(
    ("data", "model", "is_fair"),
    [
        ("table", "mlp", True),
        ("table", "logistic", True),
        pytest.param("images", "cnn", False, marks=pytest.mark.slow),
    ],
)
def test_a_reference_is_held_beside_a_linear_model_but_for_a_network_on_images(
    planned, data, model, is_fair
):
    given = {"model": model, "hidden": (4,), "method": ("dpsgd",), "epochs": 1}
    if data == "images":
        given |= {"data": LOANS.with_name("images"), "group": ("style",)}
    plan = planned(**given)
    assert ("sklearn_baseline" in result_of(plan, "sgd").facts) is is_fair
    assert "sklearn_baseline" not in result_of(plan, "dpsgd").facts


def test_data_that_are_carried_give_what_mapped_data_give_and_no_file_is_read(planned):
    plan = planned(
        method=("pate-hard",), public_data=LOANS, settings={"pate-hard": {"teachers": 5}}, epochs=1
    )
    inputs = inputs_of(plan)
    carried = pickle.loads(pickle.dumps(inputs))  # as Ray does
    assert carried._spool is None
    absent = {"data": Path("absent.parquet"), "public_data": Path("absent.parquet")}
    elsewhere = replace(plan, config=plan.config.model_copy(update=absent))
    for job in plan.jobs[::2]:
        mapped, brought = run_job(plan, job, None, inputs), run_job(elsewhere, job, None, carried)
        assert mapped.arrays.keys() == brought.arrays.keys()
        for name, array in mapped.arrays.items():
            assert array.tobytes() == brought.arrays[name].tobytes(), name


@pytest.mark.parametrize(("model", "arm"), [("logistic", "pate-hard-clean"), ("cnn", "pate-soft")])
def test_teachers_and_students_of_images_see_what_their_model_takes(planned, model, arm):
    few = {"teachers": 2.0, "queries": 20.0}
    plan = planned(
        data=LOANS.with_name("images"),
        group=("style",),
        method=("pate-hard", "pate-soft"),
        model=model,
        hidden=(4,),
        settings={"pate-hard": few, "pate-soft": {**few, "noise_draws": 1.0}},
        epochs=1,
    )
    found = result_of(plan, arm).arrays["probabilities"]
    assert found.shape == (1, 200, 4)  # half of the test images are the student's
    assert found.sum(-1) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("arm", ["global-adapt", "output-perturbation", "pate-hard"])
def test_a_training_on_rows_that_are_made_is_the_training_in_memory(
    planned, monkeypatch, tmp_path, arm
):
    """Parameters agree to the bit where products do not depend on where rows lie."""
    by_pool = arm.startswith("pate")
    few = {"pate-hard": {"teachers": 20.0}}
    plan = planned(method=(arm,), out=tmp_path, settings=few)
    kept = result_of(plan, arm)
    monkeypatch.setattr(outcomes, "ROWS_AT_ONCE", 50)
    monkeypatch.setattr(TableEncoder.__init__, "__kwdefaults__", {"in_memory": 0})
    inputs = share_inputs(load_dataset(plan.config), plan.config, by_pool=by_pool)
    made = run_job(plan, next(job for job in plan.jobs if job.arm == arm), None, inputs)
    data = prepare_seed(plan, 0, inputs, by_pool=by_pool)
    assert isinstance(data.encoded.train, DecodedRows)
    assert isinstance(data.encoded.test, DecodedRows)
    assert isinstance(data.pool._apart, DecodedRows)
    assert set(made.arrays) == set(kept.arrays)
    for name, values in kept.arrays.items():
        assert made.arrays[name] == pytest.approx(values, rel=1e-5, abs=1e-5, nan_ok=True), name
    same = ("n_train", "inputs", "fitted", "merged", "event", "duplicates_across_split")
    assert {key: made.facts[key] for key in same} == {key: kept.facts[key] for key in same}


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("fails_later", "raised RuntimeError: not today"),
        ("widens_later", r"puts out \(1, 3\) for 1 records of 2 classes"),
        ("remembering", "largest"),
        ("leaves", "raised SystemExit: 3"),
    ],
)
def test_a_users_model_that_fails_at_one_seed_costs_that_training_alone(
    planned, model, message, monkeypatch
):
    """Whatever it is, the job ends as a training that failed.

    The others and a report are still to come.
    """
    monkeypatch.setattr(own_models, "made", 0)
    plan = planned(method=("dpsgd",), model=f"own_models:{model}", epochs=1)
    run = lambda: run_here(plan, plan.jobs[1])  # noqa: E731
    if model.endswith("later"):
        assert run().arrays["probabilities"].shape[-1] == 2
    with pytest.raises(TrainingError, match=message):
        run()
