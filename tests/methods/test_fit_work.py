"""What is foreseen of trainings that do not go by steps, beside what they are seen to do."""

from collections import Counter

import pytest
from forms import FORM, make_pool, make_public, make_task
from oracles import model
from plans import config, empty_dataset

from fairaudit.diagnostics import perturbation, votes
from fairaudit.methods import teachers
from fairaudit.methods.catalog import catalog
from fairaudit.methods.spec import FitSizes
from fairaudit.models.convex import LogisticProblems
from fairaudit.planning import effort
from fairaudit.planning.plan import make_plan

METHODS = tuple(catalog().values())  # before a test admits a method from outside


@pytest.fixture
def done(monkeypatch):
    """Counts of what is done from now on, by the names of :class:`FitWork`."""
    counted = Counter()
    descend, newton_step = teachers.descend, LogisticProblems.newton_step

    def counting_descent(network, draw, descent):
        def counting_draw():
            x, targets = draw()
            counted["steps"] += 1
            counted["records"] += targets.shape[0] * targets.shape[1]
            return x, targets

        descend(network, counting_draw, descent)

    def counting_step(problems, theta, gradient):
        counted["newton_steps"] += len(gradient)
        counted["newton_records"] += len(gradient) * problems.targets.shape[1]
        return newton_step(problems, theta, gradient)

    monkeypatch.setattr(teachers, "descend", counting_descent)
    monkeypatch.setattr(LogisticProblems, "newton_step", counting_step)
    return counted


def foreseen(task, spec, *, is_convex):
    return spec.fit_work(
        FitSizes(task.settings, task.n_public, task.epochs, task.repeats, is_convex, True)
    )


@pytest.mark.parametrize("key", ["pate-hard", "pate-soft", "pate-hard-clean"])
def test_networks_of_pate_take_the_steps_that_are_foreseen(key, done):
    form, given = FORM[key], {"teachers": 7, "queries": 45, "noise_draws": 6}
    public = make_public(45, groups=2)
    task = make_task(
        form, make_pool(400), repeats=2, model=model("mlp-relu"), public=public, epochs=3, **given
    )
    trained = form.make().fit(task, [])
    if form.spec.readings:
        votes.read(form.make(), task, trained)
    sizes = FitSizes(task.settings, 400, 3, 2, False, bool(form.spec.readings))
    work = form.spec.fit_work(sizes)
    assert (work.steps, work.records) == (done["steps"], done["records"])
    assert done["newton_steps"] == work.newton_steps == 0


@pytest.mark.parametrize("key", ["pate-hard", "pate-soft"])
def test_convex_problems_of_pate_are_solved_about_as_foreseen(key, done):
    form = FORM[key]
    task = make_task(
        form, make_pool(400), public=make_public(60), teachers=5, queries=60, noise_draws=20
    )
    votes.read(form.make(), task, form.make().fit(task, []))
    work = foreseen(task, form.spec, is_convex=True)
    assert work.newton_steps / 2 < done["newton_steps"] < 2 * work.newton_steps
    assert work.newton_records / 2 < done["newton_records"] < 2 * work.newton_records
    assert done["steps"] == work.steps == 0


def test_the_minimiser_is_solved_about_as_foreseen(done):
    form = FORM["output-perturbation"]
    task = make_task(form, make_pool(400), penalty=0.01, noise_draws=9)
    perturbation.read(form.make(), task, form.make().fit(task, []))
    work = foreseen(task, form.spec, is_convex=True)
    assert work.newton_steps / 2 < done["newton_steps"] < 2 * work.newton_steps
    assert done["newton_records"] == 400 * done["newton_steps"]
    assert work.newton_records == 400 * work.newton_steps
    assert work.answers == 10 * 400  # at the minimiser and at nine draws


def test_every_method_of_this_program_has_its_work_counted():
    for spec in METHODS:
        assert spec.trains_by_steps != (spec.fit_work is not None), spec.name


@pytest.mark.usefixtures("quick_accountant")
def test_a_plan_counts_students_of_readings_and_teachers():
    def work(**given):
        settings = {"pate-hard": {"teachers": 10, "queries": 100, "noise_draws": 100}}
        options = {"method": ("pate-hard",), "model": "mlp", "hidden": (64, 64)}
        made = make_plan(config(settings=settings, **options, **given), empty_dataset(rows=2000))
        return {key: arm.training for key, arm in made.effort.by_arm.items()}

    read, unread = work(diagnostics="basic"), work(diagnostics="off")
    assert read["pate-hard-clean"] == unread["pate-hard-clean"] > 0
    # 101 students more, each of ceil(100 / 32) batches of 32 an epoch: one epoch.
    record = effort.RECORD + effort.INPUTS * 64 + 64 * 64
    added = read["pate-hard"] - unread["pate-hard"]
    students = 2 * 4 * effort.STEP + 101 * 4 * 32 * record
    assert students < added < 1.4 * students
