import operator
import os
import signal
import subprocess
import sys
import threading
import time
from importlib.util import find_spec
from multiprocessing import forkserver
from pathlib import Path

import pytest

from fairaudit.errors import TrainingError
from fairaudit.execution import local as pool_module
from fairaudit.execution.local import PRELOAD, Died, Pool, Raised, available_cores, warm_up

TOYS = Path(__file__).parent / "toys"
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


@pytest.mark.parametrize("way", ["file", "-c", "stdin"])
def test_a_script_without_main_guard_runs_once(tmp_path, way):
    script = SCRIPT.format(toys=str(TOYS), scratch=str(tmp_path / "scratch"))
    file = tmp_path / "script.py"
    file.write_text(script)
    arguments = {"file": [str(file)], "-c": ["-c", script], "stdin": ["-"]}[way]
    done = subprocess.run(
        [sys.executable, *arguments],
        input=script if way == "stdin" else "",
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stderr == ""
    assert done.stdout == "started [0, 0, 1, 1]"


def test_without_the_stand_in_a_script_would_run_in_every_worker(tmp_path):
    script = "import contextlib, fairaudit.execution.local as p\np._no_main_module = contextlib.nullcontext\n"
    file = tmp_path / "script.py"
    file.write_text(script + SCRIPT.format(toys=str(TOYS), scratch=str(tmp_path / "scratch")))
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=120)
    assert "another run" in done.stderr  # a worker's copy of the script, at the directory of the first


def test_workers_answer_task_after_task():
    assert ask(operator.neg, 1, 2, 3) == [-1, -2, -3]


def test_answers_name_the_worker_they_came_from():
    with Pool(operator.neg, 2, preload=LIGHT) as pool:
        assert pool.idle == (0, 1)
        pool.give(0, 10)
        pool.give(1, 11)
        assert pool.idle == ()
        answers = pool.wait()
        while len(answers) < 2:
            answers += pool.wait()
    assert sorted(answers) == [(0, -10), (1, -11)]


def test_an_exception_comes_back_with_the_workers_traceback():
    (answer,) = ask(operator.neg, "text")
    assert isinstance(answer, Raised)
    assert answer.error is None
    assert "TypeError: bad operand type for unary -" in answer.report


def test_sys_exit_in_a_task_is_an_answer_too():
    first, second = ask(sys.exit, 3, 4)
    assert isinstance(first, Raised)
    assert "SystemExit: 4" in second.report


@pytest.mark.faults
def test_a_killed_worker_is_reported_and_replaced():
    with Pool(eval, 1, preload=LIGHT) as pool:
        pool.give(0, "__import__('os').kill(__import__('os').getpid(), 9)")
        assert pool.wait() == [(0, Died("signal 9"))]
        pool.give(0, "1 + 1")
        assert pool.wait() == [(0, 2)]


@pytest.mark.faults
def test_a_worker_that_died_while_idle_is_reported():
    with Pool(eval, 1, preload=LIGHT) as pool:
        pool.give(0, "__import__('os').getpid()")
        ((_, pid),) = pool.wait()
        os.kill(pid, signal.SIGKILL)
        wait_until_gone(pid)
        pool.give(0, "1")
        assert pool.wait() == [(0, Died("signal 9"))]


@pytest.mark.faults
def test_a_killed_worker_costs_its_neighbour_nothing():
    with Pool(eval, 2, preload=LIGHT) as pool:
        pool.give(0, "__import__('time').sleep(0.5) or 'survived'")
        pool.give(1, "__import__('os').abort()")
        assert pool.wait() == [(1, Died("signal 6"))]
        assert pool.wait() == [(0, "survived")]


FULL = "type('Full', (), {'__reduce__': lambda self: (_ for _ in ()).throw(MemoryError())})()"


@pytest.mark.faults
def test_a_worker_without_memory_for_its_answer_dies_and_is_replaced():
    assert ask(eval, FULL, "1 + 1") == [Died("exit code 4"), 2]


def test_no_room_for_a_thread_is_no_memory(monkeypatch):
    def full(*arguments):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(pool_module._thread, "start_new_thread", full)
    with pytest.raises(MemoryError):
        pool_module._watch_over(None)


@pytest.mark.faults
def test_leaving_the_pool_ends_a_busy_worker_at_once(tmp_path):
    pid_file = tmp_path / "pid"
    with Pool(eval, 1, preload=LIGHT) as pool:
        write_pid = f"open({str(pid_file)!r}, 'w').write(str(__import__('os').getpid()))"
        pool.give(0, f"[{write_pid}, __import__('time').sleep(60)]")
        while not (pid_file.exists() and pid_file.read_text()):
            time.sleep(0.01)
        start = time.monotonic()
    assert time.monotonic() - start < 5
    wait_until_gone(int(pid_file.read_text()))


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


def test_two_threads_starting_workers_keep_the_main_module():
    main = sys.modules["__main__"]
    threads = [threading.Thread(target=ask, args=(operator.neg, 1, 2)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sys.modules["__main__"] is main


def test_threads_that_start_servers_at_once_leave_the_variables_as_they_were(monkeypatch):
    warm_up(LIGHT)
    before = dict(os.environ)
    monkeypatch.setattr(pool_module.resource_tracker, "ensure_running", lambda: time.sleep(0.2))
    threads = [threading.Thread(target=warm_up, args=(LIGHT,)) for _ in range(2)]
    for thread in threads:
        thread.start()
        time.sleep(0.1)  # the second comes in the middle of the first
    for thread in threads:
        thread.join(60)
    assert dict(os.environ) == before


def test_workers_do_not_import_what_lies_in_the_current_folder(tmp_path):
    (tmp_path / "numpy.py").write_text("open('was-run', 'w')")
    script = tmp_path / "elsewhere" / "script.py"
    script.parent.mkdir()
    script.write_text(
        "import operator\nfrom fairaudit.execution.local import Pool\n\n"
        f"with Pool(operator.neg, 1, preload={LIGHT!r}) as pool:\n"
        "    pool.give(0, 3)\n    print(pool.wait())\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert (done.stdout, done.stderr) == ("[(0, -3)]\n", "")
    assert not (tmp_path / "was-run").exists()


def test_a_fork_server_that_dies_while_it_is_asked_for_a_worker_is_replaced():
    warm_up(LIGHT)
    server = forkserver._forkserver._forkserver_pid
    os.kill(server, signal.SIGSTOP)  # so that the worker is asked for, and does not come
    killer = threading.Timer(0.5, os.kill, (server, signal.SIGKILL))
    killer.start()
    assert ask(operator.neg, 1, 2) == [-1, -2]
    killer.join()
    assert forkserver._forkserver._forkserver_pid != server


CUT_SHORT = """
import os, sys
from multiprocessing import forkserver, popen_forkserver
from fairaudit.execution import local as pool
connect = forkserver.connect_to_new_process
def interrupted(descriptors):
    sentinel, pipe = connect(descriptors)
    os.write(pipe, {message!r})
    os.close(pipe)
    forkserver.read_signed(sentinel)
    sys.stdout.write(f"{{forkserver.read_signed(sentinel)}} ")  # so it is over
    raise KeyboardInterrupt
forkserver.connect_to_new_process = interrupted
with pool.Pool(abs, 1, preload=("numpy",)) as workers:
    try:
        workers.give(0, -1)
    except KeyboardInterrupt:
        sys.stdout.write("interrupted")
"""


@pytest.mark.parametrize("message", [b"", b"\x80\x04\x95\x10\x00"])
def test_a_worker_whose_parent_is_cut_short_before_it_says_what_to_do_ends_in_silence(message):
    script = CUT_SHORT.format(message=message)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("1 interrupted", "")


UNHEARD = """
from multiprocessing import Pipe
from fairaudit.execution import local as pool
parent, tasks = Pipe()
watched, parent_pipe = Pipe(duplex=False)  # open to the end, so that it is not what ends the worker
parent.send(1)
pool._work(lambda task: parent.close(), tasks, watched)
"""


def test_a_worker_whose_answer_nobody_hears_ends_in_silence():
    done = subprocess.run([sys.executable, "-c", UNHEARD], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_worker_that_cannot_start_for_another_reason_says_so():
    script = CUT_SHORT.format(message=b"cno_module_of_this_name\nf\n.")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert "No module named 'no_module_of_this_name'" in done.stderr


HUNG_UP = """
import os, socket, sys
from multiprocessing import forkserver
from fairaudit.execution import local as pool
with pool.Pool(eval, 1, preload=("numpy",)) as workers:
    first = forkserver._forkserver._forkserver_pid
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(forkserver._forkserver._forkserver_address)
    os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
    workers.give(0, "2 in __import__('signal').pthread_sigmask(0, [])")
    sys.stdout.write(f"{workers.wait()} {first == forkserver._forkserver._forkserver_pid}")
"""


def test_a_fork_server_whose_client_hangs_up_ends_in_silence_and_is_replaced():
    done = subprocess.run([sys.executable, "-c", HUNG_UP], capture_output=True, text=True, timeout=60)
    # Ctrl-C is blocked in the new one too.
    assert (done.stdout, done.stderr) == ("[(0, True)] False", "")


def test_a_worker_that_cannot_be_started_is_an_error_of_one_line(monkeypatch):
    asked = []

    def dies(serve):
        asked.append(serve)
        raise EOFError

    monkeypatch.setattr(pool_module, "_fork", dies)
    monkeypatch.setattr(pool_module.time, "sleep", lambda seconds: None)
    with pytest.raises(TrainingError, match="no worker could be started in 5 attempts"):
        ask(operator.neg, 1)
    assert len(asked) == 5


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


@pytest.mark.parametrize("tuned", [True, False])
def test_only_tuned_memory_stays_with_a_worker(tuned):
    code = f"""
import ctypes, sys
from fairaudit.execution import local as pool
libc = ctypes.CDLL("libc.so.6")
class Info(ctypes.Structure):
    _fields_ = [(n, ctypes.c_size_t) for n in "arena ordblks smblks hblks hblkhd a b c d keepcost".split()]
if not hasattr(libc, "mallinfo2"):
    sys.exit(77)
libc.mallinfo2.restype, libc.malloc.restype = Info, ctypes.c_void_p
if {tuned}:
    pool.keep_freed_memory()
before = libc.mallinfo2().hblks
libc.malloc(ctypes.c_size_t(64 * 2**20))
sys.exit(libc.mallinfo2().hblks - before)
"""
    done = subprocess.run([sys.executable, "-c", code], timeout=60)
    if done.returncode == 77:
        pytest.skip("glibc 2.33 is needed to see where memory comes from")
    assert done.returncode == (0 if tuned else 1)  # blocks that go back to the kernel when freed


def test_what_is_preloaded_exists():
    assert [name for name in PRELOAD if find_spec(name) is None] == []


def wait_until_gone(pid, seconds=20):
    end = time.monotonic() + seconds
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < end, f"process {pid} is still there"
        time.sleep(0.01)
