from dataclasses import replace

import pytest
from plans import plan

from fairaudit.cli.estimate import (
    PER_SEED,
    START_UP,
    estimated_seconds,
    reading_seconds,
    seconds_of_side_plans,
    twin_seconds,
)
from fairaudit.cli.lines import plan_lines
from fairaudit.diagnostics.causes import MOST, PILOT
from fairaudit.planning.effort import BATCHES


def seconds(**given):
    made = plan(epochs=50, n_public=20_000, delta=1e-6, batch_size=256, method=("dpsgd",), **given)
    return estimated_seconds(made, 1), reading_seconds(made, 1), made


def test_the_cost_of_checkpoints_is_told_before_training_and_grows_with_their_number():
    basic, nothing, _ = seconds(diagnostics="basic")
    full, eight, made = seconds(diagnostics="full")
    often, many, _ = seconds(diagnostics="full", diagnostics_every=50)
    assert nothing == 0
    assert full - basic == pytest.approx(eight)
    assert often - basic == pytest.approx(many)
    assert many > 5 * eight > 0
    assert BATCHES == PILOT + MOST  # how many a step needs is known only once it is read
    lines = list(plan_lines(made, seconds=full, cores=1, reading=eight))
    assert any("8 checkpoints of each private training" in line for line in lines)
    assert not any("kept" in line for line in plan_lines(made, seconds=basic, cores=1))


def test_twins_are_told_of_before_training_whether_they_are_sure_or_wait_for_a_cost():
    auto, _, waiting = seconds(diagnostics="basic")
    always, _, sure = seconds(diagnostics="basic", twins="always")
    off, _, none = seconds(diagnostics="basic", twins="off")
    assert auto == off
    assert twin_seconds(waiting, 1) == pytest.approx(always - auto)
    assert twin_seconds(sure, 2) == pytest.approx((always - auto) / 2)
    assert twin_seconds(none, 1) == 0.0
    assert len(sure.twins) == waiting.config.seeds
    assert waiting.twins == none.twins == ()


def test_work_beside_the_plan_is_shared_by_all_cores():
    """Two trainings of its own and eight more beside them keep four cores busy."""
    made = seconds(seeds=1)[2]
    beside = replace(made, study="further", jobs=made.jobs * 4)
    both = replace(made, side_plans={"further": beside})
    (of_study,) = seconds_of_side_plans(both, 1).values()
    assert seconds_of_side_plans(both, 4) == {"further": pytest.approx(of_study / 4)}
    one, four = (estimated_seconds(both, cores) - START_UP for cores in (1, 4))
    assert four == pytest.approx(one / 4)


def test_what_is_trained_already_takes_no_time():
    whole, _, made = seconds(diagnostics="full")
    of_arm = {arm.key: {job.id for job in made.jobs if job.arm == arm.key} for arm in made.arms}
    saved = [whole - estimated_seconds(made, 1, ids) for ids in of_arm.values()]
    assert all(each > 0 for each in saved)
    everything = {job.id for job in made.jobs}
    assert whole - sum(saved) == pytest.approx(START_UP + PER_SEED * made.config.seeds)
    assert reading_seconds(made, 1, everything) == twin_seconds(made, 1, everything) == 0
