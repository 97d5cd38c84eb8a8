import operator
import os
import signal
import sys
import time
from multiprocessing import forkserver
from pathlib import Path

import pytest
from places import TOYS
from processes import ended

from fairaudit.execution import local as pool_module
from fairaudit.execution.local import Died, Pool, available_cores, warm_up

LIGHT = ("numpy", "safetensors.numpy", "fairaudit.execution.scheduler")


@pytest.fixture(autouse=True, scope="module")
def own_fork_server():
    """The next tests may want one that has torch imported."""
    yield
    forkserver._forkserver._stop()


SCRIPT = """
import sys
sys.stdout.write("started ")
sys.path.insert(0, {toys!r})
import toy_training
sys.stdout.write(str(toy_training.no_main_guard_result({scratch!r})))
"""


def ask(serve, *tasks, size=1):
    """The answers of a fresh pool, in the order of the tasks."""
    answers = []
    with Pool(serve, size, preload=LIGHT) as pool:
        for task in tasks:
            pool.give(pool.idle[0], task)
            answers += [answer for _, answer in pool.wait()]
    return answers


def test_a_script_without_main_guard_runs_once(tmp_path):
    script = SCRIPT.format(toys=str(TOYS), scratch=str(tmp_path / "scratch"))
    file = tmp_path / "script.py"
    file.write_text(script)
    done = ended([sys.executable, file])
    assert (done.stdout, done.stderr) == ("started [0, 0, 1, 1]", "")


FULL = "type('Full', (), {'__reduce__': lambda self: (_ for _ in ()).throw(MemoryError())})()"


@pytest.mark.faults
def test_a_worker_without_memory_for_its_answer_dies_and_is_replaced():
    assert ask(eval, FULL, "1 + 1") == [Died("exit code 4"), 2]


@pytest.mark.faults
def test_leaving_the_pool_ends_a_busy_worker_at_once(tmp_path):
    pid_file = tmp_path / "pid"
    with Pool(eval, 1, preload=LIGHT) as pool:
        write_pid = f"open({str(pid_file)!r}, 'w').write(str(__import__('os').getpid()))"
        end = f"open({str(tmp_path / 'end')!r}, 'w')"
        pool.give(0, f"[{write_pid}, __import__('time').sleep(6000), {end}]")
        while not (pid_file.exists() and pid_file.read_text()):
            time.sleep(0.01)
    wait_until_gone(int(pid_file.read_text()))
    assert not (tmp_path / "end").exists()


def test_a_worker_has_one_thread_ignores_ctrl_c_and_leaves_standard_output_alone():
    threads, sigint, blocked, same_file = ask(
        eval,
        "[__import__('os').environ[n] for n in ('OMP_NUM_THREADS', 'MKL_NUM_THREADS')]",
        "__import__('signal').getsignal(2).name",
        "__import__('signal').pthread_sigmask(0, [])",
        "__import__('os').path.samestat(*map(__import__('os').fstat, (1, 2)))",
    )
    assert threads == ["1", "1"]
    assert sigint == "SIG_IGN"
    assert signal.SIGINT in blocked  # from its first instruction, before it can ignore anything
    assert same_file is True


def test_the_parent_keeps_its_environment_main_module_and_signals(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    main, handler = sys.modules["__main__"], signal.getsignal(signal.SIGINT)
    warm_up(LIGHT)
    assert ask(operator.neg, 1) == [-1]
    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert "MKL_NUM_THREADS" not in os.environ
    assert sys.modules["__main__"] is main
    assert signal.getsignal(signal.SIGINT) is handler
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, set())


def test_workers_do_not_import_what_lies_in_the_current_folder(tmp_path):
    (tmp_path / "numpy.py").write_text("open('was-run', 'w')")
    script = tmp_path / "elsewhere" / "script.py"
    script.parent.mkdir()
    script.write_text(
        "import operator\nfrom fairaudit.execution.local import Pool\n\n"
        f"with Pool(operator.neg, 1, preload={LIGHT!r}) as pool:\n"
        "    pool.give(0, 3)\n    print(pool.wait())\n"
    )
    done = ended([sys.executable, str(script)], tmp_path)
    assert (done.stdout, done.stderr) == ("[(0, -3)]\n", "")
    assert not (tmp_path / "was-run").exists()


def test_no_more_cores_than_the_process_may_use(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 3, 5}, raising=False)
    quota = tmp_path / "cpu.max"
    monkeypatch.setattr(pool_module, "_CPU_QUOTA", quota)
    assert available_cores() == 3  # no container
    for content, cores in {
        "max 100000": 3,
        "200000 100000": 2,
        "250000 100000": 2,
        "50000 100000": 1,
        "900000 100000": 3,
        "garbage": 3,
    }.items():
        quota.write_text(content + "\n")
        assert available_cores() == cores, content


def wait_until_gone(pid, seconds=400):
    end = time.monotonic() + seconds
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < end, f"process {pid} is still there"
        time.sleep(0.01)
