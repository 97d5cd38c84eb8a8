"""What becomes of every command where nobody can be told.

Its exit code stays, and no traceback is shown.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fairaudit.io.standard_streams import Stream
from fairaudit.report.to_json import read_report, to_json

HERE = Path(__file__).resolve().parent
STORED = HERE.parent / "golden" / "report.json"
PROGRAM = HERE.parent / "toys" / "many_commands.py"
PASS, FAIL, OPEN = "privacy_cost_gap > 0.05", "privacy_cost_gap > 0.01", "privacy_cost_gap > 0.02"

# Command -> its code where all is well, and whether stdout is where its answer goes.
LIGHT = {
    "--help": (0, True),
    "--version": (0, True),
    "run --help": (0, True),
    "runn": (2, False),
    "schema": (0, True),
    "methods": (0, True),
    "methods --json": (0, True),
    "gate report.json --fail-on PASS": (0, False),
    "gate report.json --fail-on FAIL": (1, False),
    "gate report.json --fail-on OPEN": (3, False),
    "gate report.json --fail-on PASS --json": (0, True),
    "gate report.json --fail-on FAIL --json": (1, True),
    "gate gone.json --fail-on PASS": (2, False),
    "gate - --fail-on PASS": (2, False),
    "gate report.json --fail-on PASS --junit defect": (70, False),
    "report report.json --out -": (0, True),
    "report report.json --out - --format json": (0, True),
    "report report.json --out made --format md,junit": (0, False),
    "compare report.json report.json": (0, True),
}
HEAVY = {
    "inspect people.csv": (0, True),
    "inspect people.csv --group sex --json": (0, True),
    "init people.csv --columns": (0, False),
    "plan --data stand-in --group g": (0, True),
    "plan --data stand-in --group g --json": (0, True),
    "run --data stand-in --group g": (0, False),
    "run --data stand-in --group g --json": (0, True),
    "run --data stand-in --group partial --json": (4, True),
    "run --data people.csv --group gone --out report.json": (2, False),
    "score people.csv --y-true label --y-pred guess --group sex": (0, False),
    "score people.csv --y-true label --y-pred guess --group sex --json": (0, True),
    "clean kept": (0, True),
    "clean": (2, False),
}
COMMANDS = LIGHT | HEAVY
UNTOLD = ("full out", "closed")  # what is written to stdout is lost
TOLD = ("full err", "ascii", "")
LEFT = "no folder"
DEFECT = next(command for command in COMMANDS if "defect" in command)


def people():
    rows = [f"{20 + i % 40},{'F' if i % 3 else 'Mä'},{i % 3 % 2},{i % 2}" for i in range(600)]
    return "age,sex,guess,label\n" + "\n".join(rows) + "\n"


def expected(command, condition):
    code, answers = COMMANDS[command]
    return 2 if code == 0 and answers and condition in UNTOLD else code


@pytest.fixture(scope="module", params=["light", pytest.param("heavy", marks=pytest.mark.slow)])
def endings(request, tmp_path_factory):
    """[command, condition] -> code, stdout, stderr."""
    commands = {"light": LIGHT, "heavy": HEAVY}[request.param]
    place = tmp_path_factory.mktemp("endings")
    made = place / "made"
    (made / "kept" / "jobs").mkdir(parents=True)
    (made / "kept" / "jobs" / "lock").touch()
    (made / "people.csv").write_text(people(), encoding="utf-8")
    report = read_report(STORED.read_text(encoding="utf-8"), name=STORED.name)
    named = report.data.model_copy(update={"name": "anträge.parquet"})  # a letter that is not ASCII
    (made / STORED.name).write_text(
        to_json(report.model_copy(update={"data": named})), encoding="utf-8"
    )
    cases = [(command, condition) for command in commands for condition in (*UNTOLD, *TOLD, LEFT)]
    cases += [(DEFECT, "full disk")] * (DEFECT in commands)
    rules = {"PASS": PASS, "FAIL": FAIL, "OPEN": OPEN}
    words = [
        ([rules.get(word, word) for word in command.split()], condition)
        for command, condition in cases
    ]
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(place / "cases"), str(made)],
        input=json.dumps(words),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**os.environ, "PYTHONPATH": str(HERE.parent / "support"), "GITHUB_ACTIONS": "true"},
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(cases, json.loads(done.stdout), strict=True))


def test_the_code_is_that_of_the_command_whoever_can_be_told(endings):
    judged = {case: ending[0] for case, ending in endings.items() if case[1] != LEFT}
    assert judged == {case: expected(*case) for case in judged}


def test_nobody_is_shown_a_traceback_and_a_line_is_a_line(endings):
    for case, (code, _, errors) in endings.items():
        assert "Traceback" not in errors, case
        assert "Exception ignored" not in errors, case
        if code in (2, 70) and code == COMMANDS[case[0]][0]:
            assert len(errors.splitlines()) <= 1, (case, errors)


def test_a_lost_answer_is_told_where_somebody_listens(endings):
    for case, (code, _, errors) in endings.items():
        if case[1] == "full out" and code == 2 and COMMANDS[case[0]][0] == 0:
            assert "Error: standard output cannot be written: " in errors, case


def test_what_was_to_be_written_to_files_is_written_all_the_same(endings, tmp_path_factory):
    wanted = {
        "report report.json --out made --format md,junit": "made",
        "init people.csv --columns": "columns.toml",
    }
    place = sorted(Path(tmp_path_factory.getbasetemp()).glob("endings*"), key=os.path.getmtime)[-1]
    cases = [case for case in endings if case[0] in wanted and case[1] != LEFT]
    assert len(cases) == 5
    for case in cases:
        assert (
            place / "cases" / str(list(endings).index(case)) / "here" / wanted[case[0]]
        ).exists(), case


def test_what_a_narrow_encoding_has_no_letter_for_is_escaped_and_json_stays_json(endings):
    commands = [
        command for command in endings if command[0].endswith("json") and command[1] == "ascii"
    ]
    narrow, wide = zip(*((endings[c][1], endings[c[0], ""][1]) for c in commands), strict=True)
    assert all(text.isascii() for text in narrow)
    assert not all(text.isascii() for text in wide)
    read = [
        (json.loads(a), json.loads(b)) for a, b in zip(narrow, wide, strict=True) if a[:1] == "{"
    ]
    assert read
    assert all(
        {**a, "timing": 0, "created_utc": 0} == {**b, "timing": 0, "created_utc": 0}
        for a, b in read
    )


def test_in_a_folder_that_was_deleted_nothing_ends_in_a_traceback(endings):
    for (command, condition), (code, _, errors) in endings.items():
        if condition == LEFT:
            assert code in (0, 2), (command, errors)
            assert "--data" not in command or errors.startswith(
                "Error: the current folder was deleted"
            ), command


def test_a_defect_whose_log_cannot_be_written_says_so(endings):
    if (DEFECT, "") in endings:
        assert "; its log cannot be written: no such file or directory" in endings[DEFECT, ""][2]


@pytest.mark.parametrize(
    ("redirection", "code"),
    [(">/dev/full", 2), ("2>/dev/full", 0), (">&-", 2), ("2>&-", 0), (">&- 2>&- <&-", 2)],
)
def test_a_whole_process_ends_the_same(redirection, code):
    """What a fork cannot show: how Python begins without a stream, and how it ends."""
    words = f"{sys.executable} -m fairaudit schema {redirection}"
    done = subprocess.run(["sh", "-c", words], capture_output=True, timeout=600, check=False)
    assert done.returncode == code
    assert b"Traceback" not in done.stderr


def test_no_file_takes_the_number_of_a_closed_stream(tmp_path):
    """What a library prints to it would go into the file."""
    program = (
        "import os, sys\nfrom fairaudit.io.standard_streams import secure\nsecure()\n"
        f"file = open({str(tmp_path / 'kept')!r}, 'w')\nos.write(2, b'noise')\n"
        "try:\n    os.write(1, b'noise')\nexcept OSError:\n    pass\n"
        "print('more noise'); print('and more', file=sys.stderr)\nfile.write('kept')\n"
    )
    words = f'{sys.executable} -c "$1" <&- >&- 2>&-'
    done = subprocess.run(["sh", "-c", words, "sh", program], timeout=600, check=False)
    assert done.returncode == 0
    assert (tmp_path / "kept").read_text() == "kept"


def test_a_stream_remembers_what_it_lost_and_goes_on():
    stream = Stream(open("/dev/full", "wb"), "utf-8")  # noqa: SIM115
    assert stream.write("x" * 100_000) == 100_000
    stream.write("y")
    stream.flush()
    assert stream.lost.errno == 28
    stream.close()


def test_a_worker_that_cannot_print_goes_on():
    program = (
        "from fairaudit.execution.local import Pool\n"
        "def main():\n"
        "    with Pool(print, 1, preload=()) as pool:\n"
        "        pool.give(0, 'x' * 100_000)\n"
        "        (_, answer), = pool.wait()\n"
        "        assert answer is None, answer\n"
        "main()\n"
    )
    done = subprocess.run(
        ["sh", "-c", f'{sys.executable} -c "$1" 2>/dev/full', "sh", program],
        timeout=600,
        check=False,
    )
    assert done.returncode == 0


def test_a_stream_that_was_a_file_and_became_a_pipe_is_written_to(tmp_path):
    """As in a worker whose standard output is a file and standard error a pipe."""
    code = (
        "import os, sys; sys.stdout.write('first'); sys.stdout.flush(); os.dup2(2, 1);"
        "from fairaudit.io.standard_streams import secure; secure(); print('second'); "
        "sys.stdout.flush()"
    )
    with (tmp_path / "out").open("w") as out:
        done = subprocess.run(
            [sys.executable, "-c", code], stdout=out, stderr=subprocess.PIPE, text=True
        )
    assert (done.returncode, done.stderr) == (0, "second\n")
    assert (tmp_path / "out").read_text() == "first"
