"""What lies in the folder where a command is run is not imported, unless an option names it.

The folder holds a *shadow* of every module of Python, of every package that is installed, and of
whatever else anything asks for: a file of that name that says so when it is imported.
"""

import json
import shlex
import sys
from importlib.util import find_spec
from pkgutil import iter_modules

import pytest
import torch
from people import people
from places import ROOT, TOYS
from processes import ended

from fairaudit.cli.app import app, main

# What an installer writes as the command `fairaudit`.
COMMAND = "import sys\nfrom fairaudit.__main__ import main\nsys.exit(main())\n"
AUDIT = (
    "--data people.csv --group sex --label y --seeds 2 --epochs 1 --batch-size 60 --twins off "
    "--diagnostics off --workers 1"
)
LIGHT = {
    "doctor": 0,
    "explain misalignment": 0,
    "schema": 0,
    "init people.csv --columns --group sex --label y": 0,
    "inspect people.csv --group sex": 0,
    "methods": 0,
    f"plan {AUDIT} --method dpsgd --method global-adapt --epsilon 3 --json": 0,
    "score people.csv --y-true y --y-pred guess --group sex --out scored": 0,
    "gate report.json --fail-on 'privacy_cost > 90pt'": 0,
    "compare report.json report.json": 0,
    "report report.json --out again": 0,
    "clean nothing": 2,
}
TRAINING = {
    f"run {AUDIT} --method dpsgd  --method output-perturbation --epsilon 3 --out audit": 0,
    "train --from audit/report.json --method dpsgd --accept-fitted-preprocessing --out model": 0,
    "predict model --data people.csv --out predicted.csv": 0,
    "clean audit": 0,
}
LONG = {
    f"choose {AUDIT} --seeds 5 --seeds-max 5 --epsilon 3 --fail-on 'accuracy < 1%' --out chosen": 0,
    "methods --check dpsgd": 0,
    f"run {AUDIT} --method dpsgd --epsilon 3 --out tuned --tune 2": 0,
    f"run {AUDIT} --method dpsgd --epsilon 3 --out attacked --leakage": 0,
}
OWN = {  # code that options name, and what it imports from beside it
    "my_models": """
import layers_of_mine

def net(shape, classes):
    import later_of_mine  # not when the module is imported, but when it is used
    return layers_of_mine.chain(shape[0], classes)
""",
    "layers_of_mine": """
from torch import nn

def chain(width, classes):
    return nn.Sequential(nn.Linear(width, 3), nn.Tanh(), nn.Linear(3, classes))
""",
    "later_of_mine": "",
    "my_method": """
import later_of_mine
from fairaudit import extend

SPEC = extend.MethodSpec(
    name="mine",
    summary="clipping",
    source="an example",
    guarantee=extend.Guarantee.ESTABLISHED,
    trainer="trainer_of_mine:Mine",
    settings=extend.FLAT,
)
""",
    "trainer_of_mine": """
from fairaudit.methods.dpsgd import DpSgd as Mine
""",
    "my_pipeline": """
import subprocess
import sys

import numpy as np

class Constant:
    def predict_proba(self, features):
        import later_of_mine
        return np.full((len(features), 2), 0.5)

def train(data, privacy, seed):
    subprocess.run([sys.executable, "program_of_mine.py"], check=True)
    return Constant()
""",
    "program_of_mine": "import later_of_mine",
}
PLUGIN = """
[fairaudit.methods]
planted = planted_plugin:SPEC
[torch.backends]
planted = planted_plugin:start
[pydantic]
planted = planted_plugin:plugin
"""


class Folder:
    """A folder with shadows, in which commands are run.

    Args:
        home: Folder to make it in.
        shadows: Names of the modules.
    """

    def __init__(self, home, shadows):
        self.place = home / "here"
        self.place.mkdir(parents=True)
        self.imported, self.asked, self.cache = home / "imported", home / "asked", home / "cache"
        self.command = home / "bin" / "command"
        self.command.parent.mkdir()
        self.command.write_text(COMMAND)
        self.shadowed = set()
        self.shadow(shadows)
        people().assign(guess=0).to_csv(self.place / "people.csv", index=False)
        golden = ROOT / "tests" / "golden" / "report.json"
        (self.place / "report.json").write_bytes(golden.read_bytes())

    def shadow(self, names):
        for name in set(names) - self.shadowed:
            says = f"open({str(self.imported)!r}, 'a').write(__name__ + chr(10))\n"
            (self.place / f"{name}.py").write_text(says)
        self.shadowed |= set(names)

    def plant(self):
        """A plugin as an installer leaves it, of a module that lies here."""
        info = self.place / "planted-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: planted\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(PLUGIN)
        self.shadow({"planted_plugin"})

    def add(self, modules):
        for name, code in modules.items():
            (self.place / f"{name}.py").write_text(code)

    def run(self, words, *python):
        """A command that has ended, by the program or by ``python``, and imported no shadow."""
        done = ended(
            [sys.executable, *(python or [self.command]), *shlex.split(words)],
            self.place,
            PYTHONPATH=str(TOYS / "asked"),
            ASKED_LOG=str(self.asked),
            XDG_CACHE_HOME=str(self.cache),
        )
        assert (words, names(self.imported), done.stderr) == (words, set(), done.stderr)
        return done


def names(log):
    return set(log.read_text().split()) if log.exists() else set()


def known():
    """The modules that Python finds: its own, and all that is installed."""
    return {*sys.stdlib_module_names, *(module.name for module in iter_modules())}


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    made = Folder(tmp_path_factory.mktemp("shadows"), known())
    made.plant()
    return made


def answers(planted, commands):
    """What each prints, one after another; what one asks for in vain is shadowed for the next."""
    printed = {}
    for words, code in commands.items():
        done = planted.run(words)
        assert (words, done.returncode, done.stderr) == (words, code, done.stderr)
        planted.shadow(names(planted.asked))
        printed[words.split()[0]] = done.stdout
    missed = {name for name in names(planted.asked) - known() if find_spec(name) is not None}
    # Whatever was imported had its shadow from the beginning, but for what starts Python and what
    # setuptools has in a folder of its own, which older versions of PyTorch import.
    assert missed <= {"sitecustomize", "jaraco"}
    return printed


def test_what_reads_a_table_imports_nothing_that_lies_in_the_folder(
    planted, tmp_path, monkeypatch, capsys
):
    often = ("inspect", "plan", "score")
    printed = answers(planted, {words: 0 for words in LIGHT if words.split()[0] in often})
    assert len(printed) == len(often)
    assert {"pandas", "numpy", "dp_accounting", "scipy"} <= names(planted.asked)
    # And a plan is the same as elsewhere, to the last digit of sigma and epsilon.
    (words,) = (words for words in LIGHT if words.startswith("plan"))
    monkeypatch.chdir(Folder(tmp_path, ()).place)
    assert main(shlex.split(words)) == 0
    elsewhere = capsys.readouterr().out
    assert printed["plan"] == elsewhere
    assert elsewhere.count('"noise_multiplier": ') >= 2
    assert elsewhere.count('"epsilon": ') >= 2


def test_no_training_imports_what_lies_in_the_folder(planted):
    answers(planted, dict([*TRAINING.items()][:1]))
    asked = names(planted.asked)
    assert {"torch", "sklearn", "multiprocessing"} <= asked
    # PyTorch takes it in for tensors without numbers: a third of a second in every worker. Older
    # versions always do.
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    assert "sympy" not in asked or version < (2, 13)


@pytest.mark.slow
def test_no_command_imports_what_lies_in_the_folder(planted):
    answers(planted, {**LIGHT, **TRAINING, **LONG})


def test_every_command_is_among_them():
    tried = {words.split()[0] for words in [*LIGHT, *TRAINING, *LONG]}
    assert tried == {command.name for command in app.registered_commands}


@pytest.mark.slow
def test_python_m_imports_nothing_of_the_folder_once_it_has_found_the_program(tmp_path):
    # Python itself imports these from the folder, before any program that -m names.
    (tmp_path / "empty.py").write_text("import sys\nprint(*sys.modules)\n")
    by_python = ended([sys.executable, "-m", "empty"], tmp_path).stdout.split()
    made = Folder(tmp_path / "home", known() - {*by_python, "fairaudit"})
    made.plant()
    made.add(OWN)
    # A plan with a network of one's own reads the table, accounts, and imports PyTorch.
    words = f"plan {AUDIT} --noise-multiplier 1 --method my_method:SPEC --model my_models:net"
    done = made.run(words, "-m", "fairaudit")
    assert (done.returncode, done.stderr) == (0, done.stderr)
    assert {"torch", "pandas", "dp_accounting"} <= names(made.asked)


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """A folder with code that options name; the rest of it must not stand in for what is found."""
    made = Folder(tmp_path_factory.mktemp("own"), known())
    made.plant()
    made.add(OWN)
    return made


def test_code_that_an_option_names_finds_what_lies_beside_it_and_replaces_nothing(own):
    words = f"plan {AUDIT} --epsilon 3 --model my_models:net --trainer my_pipeline:train"
    done = own.run(f"{words} --method my_method:SPEC --json")
    assert (done.returncode, done.stderr) == (0, done.stderr)
    assert {"mine", "my_pipeline.train"} <= {arm["key"] for arm in json.loads(done.stdout)["arms"]}


@pytest.mark.slow
def test_code_that_an_option_names_trains_in_workers_and_is_released(own):
    words = f"{AUDIT} --epsilon 3 --format json"
    methods = "--method my_method:SPEC --method dpsgd"
    for more in (
        f"run {words} {methods} --model my_models:net --out audit",
        f"run {words} --trainer my_pipeline:train --out trained",
        "train --from audit/report.json --method dpsgd --model my_models:net --out model "
        "--accept-fitted-preprocessing",
        "predict model --model my_models:net --data people.csv --out predicted.csv",
        "methods --check my_method:SPEC",
    ):
        done = own.run(more)
        assert (more, done.returncode, done.stderr) == (more, 0, done.stderr)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed (the extra `ray`)")
def test_workers_on_ray_import_nothing_else_of_the_folder_either(own):
    words = f"run {AUDIT} --epsilon 3 --executor ray --format json"
    for out, named in {
        "by_ray": "--method dpsgd",
        "mine_by_ray": "--method my_method:SPEC --model my_models:net",
        "trained_by_ray": "--trainer my_pipeline:train",
    }.items():
        done = own.run(f"{words} {named} --out {out}")
        assert (named, done.returncode, done.stderr) == (named, 0, done.stderr)
