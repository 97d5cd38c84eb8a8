import io

import pytest
from rich.console import Console

from fairaudit.cli.console import Screen
from fairaudit.execution.progress import JobFailed, JobFinished, JobsCounted, StageStarted


@pytest.fixture
def screen():
    made = Screen()
    made._console = Console(file=io.StringIO(), highlight=False, soft_wrap=True, width=80)
    return made


def shown(screen):
    return screen._console.file.getvalue()


def test_a_pipe_gets_one_line_per_finished_training_with_what_is_left(screen, monkeypatch):
    """Two trainings took eight seconds, so three take twelve; those of before say nothing."""
    times = iter([100.0, 104.0, 108.0, 111.0])
    monkeypatch.setattr("fairaudit.cli.console.time.monotonic", lambda: next(times))
    screen.listen(StageStarted("training"))
    screen.listen(JobsCounted(total=6, finished=1))
    screen.listen(JobFinished("dpsgd", 0, 1.25, 2, 6))
    screen.listen(JobFinished("dpsgd", 1, 1.25, 3, 6))
    screen.listen(JobFinished("dpsgd", 2, 1.25, 6, 6))
    assert shown(screen).splitlines() == [
        "  resume  1 of 6 trainings were finished before",
        "  2/6 dpsgd, seed 0 · 1.2 s · about 16 s left",
        "  3/6 dpsgd, seed 1 · 1.2 s · about 12 s left",
        "  6/6 dpsgd, seed 2 · 1.2 s",
    ]


@pytest.mark.parametrize("colours", [True, False])
def test_a_verdict_has_its_colour_where_the_terminal_has_colours(colours):
    screen = Screen()
    system = "standard" if colours else None
    screen._console = Console(file=io.StringIO(), force_terminal=colours, color_system=system)
    screen.lines([" dpsgd PASS, global FAIL, FAILURE"], is_result=True)
    said = shown(screen)
    assert ("\x1b[1;32mPASS\x1b[0m" in said) == colours
    assert ("\x1b[1;31mFAIL\x1b[0m" in said) == colours
    assert "FAILURE" in said
    if not colours:
        assert said == " dpsgd PASS, global FAIL, FAILURE\n"


def test_a_terminal_gets_a_bar_and_no_lines():
    screen = Screen()
    screen._console = Console(file=io.StringIO(), force_terminal=True, width=80)
    screen.listen(JobsCounted(total=2, finished=0))
    screen.listen(JobFinished("a[b]", 0, 1.0, 1, 2))
    screen.stop()
    assert "seed 0 ·" not in shown(screen)
    assert "1/2" in shown(screen)
    assert screen._bar is None


def test_a_failed_training_is_said_at_once(screen):
    screen.listen(JobFailed("dpsgd", 3, "diverged\nat step 2"))
    assert "Warning dpsgd, seed 3: diverged" in shown(screen)
    assert len(shown(screen).splitlines()) == 1
