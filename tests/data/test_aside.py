import os
import signal
import subprocess
import sys
import threading

import pytest

from fairaudit.data.aside import aside

# Timed so that some signals arrive at a reading's last moment.
SIGNALS = """
import os, signal, sys, threading, time
import pyarrow.csv as pacsv
from fairaudit.data.aside import aside
heard = 0
def hear(number, frame):
    global heard
    heard += 1
signal.signal(signal.SIGTERM, hear)
for turn in range(200):
    sender = threading.Timer(turn % 20 * 3e-4, os.kill, (os.getpid(), signal.SIGTERM))
    sender.start()
    for _ in range(3):
        aside(lambda: pacsv.read_csv({path!r}))
    sender.join()
time.sleep(0.1)
sys.stdout.write(str(heard))
"""


def test_a_signal_at_any_moment_of_a_reading_is_heard(tmp_path):
    table = tmp_path / "table.csv"
    table.write_text("a,b,c\n" + "1,2.5,word\n" * 20_000)
    code = SIGNALS.format(path=str(table))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert (done.stdout, done.stderr) == ("200", "")


def test_the_result_and_the_error_of_a_reading_come_back():
    assert aside(threading.current_thread) is not threading.current_thread()
    with pytest.raises(ZeroDivisionError):
        aside(lambda: 1 / 0)
    with pytest.raises(SystemExit):
        aside(lambda: sys.exit(3))


def test_a_process_that_ignores_ctrl_c_starts_no_thread():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert aside(threading.current_thread) is threading.current_thread()
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_signal_does_not_wait_for_the_end_of_a_reading():
    class Stopped(Exception):
        pass

    def stop(number, frame):
        raise Stopped

    before = signal.signal(signal.SIGUSR1, stop)
    held = threading.Event()
    sender = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1))
    sender.start()
    with pytest.raises(Stopped):
        aside(lambda: held.wait(60))
    signal.signal(signal.SIGUSR1, before)
    held.set()
