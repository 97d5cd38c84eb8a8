import io

import pytest
from rich.console import Console

from fairaudit.cli.console import Screen
from fairaudit.execution.progress import JobFailed, JobFinished, JobsFound, StageStarted


@pytest.fixture
def screen():
    made = Screen()
    made._console = Console(file=io.StringIO(), highlight=False, soft_wrap=True, width=80)
    return made


def shown(screen):
    return screen._console.file.getvalue()


def test_a_pipe_gets_one_line_per_finished_training(screen):
    screen.listen(StageStarted("training"))
    screen.listen(JobsFound(total=3, finished=1))
    screen.listen(JobFinished("dpsgd", 0, 1.25, 2, 3))
    screen.listen(JobFinished("dpsgd", 1, 1.25, 3, 3))
    assert shown(screen).splitlines() == [
        "  resume  1 of 3 trainings were finished before",
        "  2/3 dpsgd, seed 0 · 1.2 s",
        "  3/3 dpsgd, seed 1 · 1.2 s",
    ]


def test_a_terminal_gets_a_bar_and_no_lines():
    screen = Screen()
    screen._console = Console(file=io.StringIO(), force_terminal=True, width=80)
    screen.listen(JobsFound(total=2, finished=0))
    screen.listen(JobFinished("a[b]", 0, 1.0, 1, 2))
    screen.stop()
    assert "seed 0 ·" not in shown(screen)
    assert "1/2" in shown(screen)
    assert screen._bar is None


def test_a_failed_training_is_said_at_once(screen):
    screen.listen(JobFailed("dpsgd", 3, "diverged\nat step 2"))
    assert "Warning dpsgd, seed 3: diverged" in shown(screen)
    assert len(shown(screen).splitlines()) == 1
