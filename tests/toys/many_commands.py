"""Command lines one after the other, each in a fork of one process that has imported everything.

Reads a JSON list of [arguments, condition] from stdin; writes a list of [code, stdout, stderr].
"""

import json
import os
import resource
import shutil
import sys
import tempfile
from pathlib import Path

import fairaudit.__main__
import fairaudit.cli.app
import fairaudit.cli.lines_catalog
import fairaudit.cli.lines_compare
import fairaudit.cli.lines_gate
import fairaudit.gate.comparison
from fairaudit.data.spool import Shared
from fairaudit.report.to_json import read_report

FULL = os.open("/dev/full", os.O_WRONLY)


def in_a_fork(arguments, condition, folder):
    answers = [folder / name for name in ("stdout", "stderr")]
    child = os.fork()
    if not child:
        code = 99  # this program itself is wrong
        try:
            os.chdir(folder / "here")
            redirect(condition, answers)
            code = ending(arguments, condition)
            sys.stdout.flush()  # all that Python does at its end and that can fail
            sys.stderr.flush()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    texts = [path.read_bytes().decode(errors="replace") for path in answers]
    return [os.waitstatus_to_exitcode(status), *texts]


def redirect(condition, answers):
    for number, path in zip((1, 2), answers, strict=True):
        os.dup2(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC), number)
    for number, name in ((1, "out"), (2, "err")):
        if condition == f"full {name}":
            os.dup2(FULL, number)
    encoding = "ascii" if condition == "ascii" else "utf-8"
    sys.stdout = open(1, "w", encoding=encoding, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding=encoding, errors="backslashreplace", closefd=False)  # noqa: SIM115
    for number, name in ((0, "in"), (1, "out"), (2, "err")):
        if condition == "closed":
            os.close(number)
            setattr(sys, f"std{name}", None)
    if condition == "no folder":
        shutil.rmtree(os.getcwd())


def ending(arguments, condition):
    sys.argv = ["fairaudit", *arguments]
    if "stand-in" in arguments:
        from handmade import dataset, findings, plan

        from fairaudit import audit

        found = findings()
        prepared = audit.PreparedAudit(
            found.resolved, dataset(), plan(found.resolved.config), {}, Shared(lambda: None)
        )
        audit.warm_up = lambda: None
        audit.prepare = lambda resolved, listener: prepared
        audit.carry_out = carry_out(found)
    if "defect" in arguments:
        if condition == "full disk":
            resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
        else:
            tempfile.tempdir = "/proc/nowhere"
        read_report.__globals__["Report"] = None
    return fairaudit.__main__.main()


def carry_out(found):
    from handmade import metadata

    from fairaudit.analysis.build import build_report

    def made(prepared, listener, *, command):
        options = " ".join(command)
        report = build_report(found, metadata())
        status = "partial" if "partial" in options else "complete"
        return report.model_copy(
            update={"status": status, "verdict": "fail" if "fails" in options else None}
        )

    return made


answers = []
cases = json.load(sys.stdin)
if any("stand-in" in arguments for arguments, _ in cases):  # so that not every fork imports them
    import handmade  # noqa: F401

    import fairaudit.audit
    import fairaudit.score
for number, (arguments, condition) in enumerate(cases):
    folder = Path(sys.argv[1], str(number))
    shutil.copytree(sys.argv[2], folder / "here")
    answers.append(in_a_fork(arguments, condition, folder))
json.dump(answers, sys.stdout)
