"""Numbers that nobody means: every option of a number takes them or says its range, in one line.

Which options there are is read from the options themselves, so that a new one is tried, too.
"""

import re

import pytest
from places import LOANS

from fairaudit.cli.app import main
from fairaudit.config.options import PANELS, AuditConfig
from fairaudit.errors import EXIT_INPUT, EXIT_OK, EXIT_PRIVACY, EXIT_TRAINING

HUGE = ("1e300", "inf", "nan", "9" * 40)
TINY = ("0", "-1", "1e-300")
BASE = ("--data", str(LOANS), "--group", "sex", "--method", "dpsgd")
# An option that another one must stand beside, so that its number is read.
BESIDE = {
    "cpus_per_job": ("--executor", "ray"),
    "gpus_per_job": ("--executor", "ray"),
    "threshold": ("--method", "global"),
    "trainer_memory": ("--trainer", "nowhere:train"),
    "trainer_timeout": ("--trainer", "nowhere:train"),
    "hidden": ("--model", "mlp"),
    "diagnostics_every": ("--diagnostics", "full"),
}
# How a number is written where the option takes more than a number.
WRITTEN = {"keep": "F={}", "resize": "{0}x{0}", "pixels": "{0}x{0}"}


def numeric():
    for options in PANELS.values():
        for option in options:
            kind = str(AuditConfig.model_fields[option.field].annotation)
            if re.search(r"\b(int|float)\b", kind) or option.field in WRITTEN:
                yield option.field


NUMERIC = tuple(numeric())


def flag(field, number):
    return f"--{field.replace('_', '-')}={WRITTEN.get(field, '{}').format(number)}"


def test_the_options_of_numbers_are_found():
    found = set(NUMERIC)
    assert {"epsilon", "hidden", "keep", "seeds", "workers", "trainer_timeout", "delta"} <= found
    assert not {"label", "group", "method", "out"} & found


@pytest.fixture
def real_only_where_asked(request, field):
    """Epsilon takes time and is about these options alone."""
    if field not in {"epsilon", "delta", "noise_multiplier", "epochs", "batch_size", "tune"}:
        request.getfixturevalue("quick_accountant")


accounted = pytest.mark.usefixtures("real_only_where_asked")


@accounted
@pytest.mark.parametrize("field", NUMERIC)
def test_no_option_takes_a_number_without_end(field, capsys):
    for number in HUGE:
        code = main(["plan", *BASE, *BESIDE.get(field, ()), flag(field, number)])
        err = capsys.readouterr().err
        assert code in (EXIT_INPUT, EXIT_PRIVACY), (number, code, err)
        assert err.count("Error:") == 1
        assert "nowhere" not in err  # the number is looked at before code is


@accounted
@pytest.mark.parametrize("field", NUMERIC)
def test_a_tiny_number_is_taken_or_refused_in_one_line(field, capsys):
    for number in TINY:
        code = main(["plan", *BASE, *BESIDE.get(field, ()), flag(field, number)])
        err = capsys.readouterr().err
        assert code in (EXIT_OK, EXIT_INPUT, EXIT_PRIVACY), (number, code, err)
        assert err.count("Error:") == (code != EXIT_OK)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--model", "mlp", "--hidden", "1000000000"), "parameters or more here, more than"),
        (("--model", "mlp", "--hidden", "20000", "--hidden", "20000"), "use narrower layers"),
        (("--epochs", "1000000000"), "use 26,315 epochs or fewer"),
        (("--batch-size", "1000000000"), "use --batch-size"),
        (("--epsilon", "30000"), "less than or equal to 10000"),
        (("--workers", "1000000000"), "less than or equal to 10000"),
        (("--seeds", "1000000000"), "less than or equal to 10000"),
        (("--max-grad-norm", "1e7"), "which is not a number from 1e-06 to 1,000,000"),
        (("--learning-rate", "1e-300"), "which is not a number from 1e-09 to 1,000,000"),
    ],
)
def test_a_number_that_no_machine_carries_out_is_refused_before_anything_starts(
    words, said, capsys, tmp_path
):
    for command in ("plan", "run"):
        out = ("--out", str(tmp_path / "out")) if command == "run" else ()
        assert main([command, *BASE, *words, *out]) == EXIT_INPUT
        assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "words", [("--suppress-below", "1" * 30), ("--suppress-below", "-1"), ("--suppress-below", "x")]
)
def test_score_refuses_them_likewise(words, tmp_path, capsys):
    table = tmp_path / "p.csv"
    table.write_text("y,p,sex\n" + "1,1,F\n0,1,M\n" * 20)
    columns = ["--y-true", "y", "--y-pred", "p", "--group", "sex"]
    assert main(["score", str(table), *columns, *words]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("--merge-rare", "1e-300"),
        ("--test-size", "1e-300"),
        ("--test-size", "0.9999"),
        ("--keep", "F=1e-300"),
        ("--noise-multiplier", "0.001"),
        ("--noise-multiplier", "1000000"),
        ("--max-grad-norm", "1e-6"),
        ("--learning-rate", "1000000"),
        ("--epsilon", "10000"),
        ("--memory", "1"),
        ("--memory", "1000000000"),
        ("--seed", str(2**53)),
        ("--suppress-below", "1000000000"),
        ("--changed-answers", "1e-300"),
        ("--diagnostics", "full", "--diagnostics-every", "1000000000"),
    ],
)
def test_a_run_at_the_end_of_a_range_ends_as_any_other(words, tmp_path, capsys):
    run = ["run", *BASE, "--epochs", "1", "--seeds", "2", "--format", "json", "--quiet"]
    code = main([*run, "--out", str(tmp_path / "out"), *words])
    err = capsys.readouterr().err
    assert code in (EXIT_OK, EXIT_INPUT, EXIT_TRAINING), (code, err)
    assert "Bug" not in err
