"""What a job's id stands for.

Whatever moves a result changes it, and nothing else makes anybody wait.
"""

import shutil
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from jobs import run_here

import fairaudit
from fairaudit.config.options import EXECUTION, JUDGED, OPTIONS, AuditConfig, marked
from fairaudit.data.tabular import load_dataset
from fairaudit.io.code_digest import code_digest
from fairaudit.methods.catalog import catalog
from fairaudit.planning.plan import make_plan

pytestmark = pytest.mark.usefixtures("quick_accountant")  # no array depends on an arm's own epsilon


# --- options
# -----------------------------------------------------------------------------------------

IMAGES = ("resize", "channels", "pixel_range", "pixels")

# Another value of every option; names of files are those of the folder below.
OTHER = {
    "data": "moved.csv",
    "group": ("region",),
    "intersect": True,
    "label": "job",
    "positive": "no",
    "drop": ("age",),
    "columns": {"columns": {"age": {"kind": "number", "range": (0, 90)}}},
    "names": ("age", "debt", "work", "sex", "region", "part", "approved"),
    "group_as_feature": True,
    "bin": {"debt": "q2"},
    "contrast": {"sex": "F"},
    "missing": "drop",
    "missing_values": ("c",),
    "number_format": ("age=text",),
    "merge_rare": 0.3,
    "zero": {"sex": "M"},
    "favourable": "no",
    "group_by_label": True,
    "resize": "6x6",
    "channels": "rgb",
    "pixels": "6x6",
    "pixel_range": "unit",
    "n_public": 210,
    "public_data": "public.csv",
    "split_column": "part",
    "test_size": 0.4,
    "balance": True,
    "keep": {"F": 0.5},
    "model": "mlp",
    "hidden": (3,),
    "activation": "relu",
    "epochs": 2,
    "batch_size": 60,
    "learning_rate": 0.03,
    "optimizer": "adam",
    "method": ("dpsgd-f", "pate-hard", "dpsgd"),
    "variant": ("author-code",),
    "epsilon": (2.0,),
    "noise_multiplier": 2.0,
    "delta": 1e-5,
    "max_grad_norm": 0.2,
    "threshold": 7.0,
    "settings": {"dpsgd-f": {"largest_bound_ratio": 1.5}},
    "preset": "esipova-mnist",
    "seeds": 2,
    "repeats": 2,
    "seed": 3,
    "self_check": True,
    "twins": "off",
    "compare": ("F,M",),
    "diagnostics": "basic",
    "diagnostics_every": 2,
    "suppress_below": 5,
    "out": "elsewhere",
    "format": ("json",),
    "note": "ticket 12",
    "fail_on": ("privacy_cost_gap > 0.02",),
    "baseline": "report.json",
    "inconclusive": "pass",
    "changed_answers": 0.1,
    "device": "cpu",
    "workers": 2,
    "executor": "ray",
    "ray_address": "auto",
    "cpus_per_job": 2.0,
    "gpus_per_job": 1.0,
    "memory": 1,
    "resume": False,
    "trainer": ("safetensors.numpy:save_file",),
    "synthesizer": ("safetensors.numpy:save_file",),
    "synthetic": "people.csv",
    "reference": "sgd",
    "raw": True,
    "trainer_groups": True,
    "trainer_version": "2",
    "trainer_timeout": 9.0,
    "trainer_memory": 900,
    "trust_claimed_epsilon": True,
    "trust_module": True,
    "leakage": True,
    "leakage_seeds": 9,
    "again": 3,
    "tune": 2,
    "tune_for": "worst-group",
    "tune_privacy": "uncharged",
}

# Nobody should pay for a training again who asks for another gate, machine or page.
KEEPS = {
    *(
        "data",
        "favourable",
        "method",
        "variant",
        "threshold",
        "preset",
        "seeds",
        "self_check",
        "twins",
        "compare",
    ),
    *("suppress_below", "leakage", "leakage_seeds", "again"),
    *marked(AuditConfig, JUDGED, EXECUTION),
}


# Of a trainer, whose jobs come on top: test_trainers.py asks what those depend on.
OF_TRAINERS = {"trainer", "reference", "raw", "trainer_groups", "trainer_version"}
OF_TRAINERS |= {"synthesizer", "synthetic"}
KEEPS |= OF_TRAINERS
NEEDS = {option.field: option.needs for option in OPTIONS if option.needs}


def test_every_option_is_here():
    assert set(OTHER) == set(AuditConfig.model_fields)


def rows_of_two_groupings(rows=400):
    draw = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "age": draw.integers(18, 80, rows).astype(float),
            "debt": draw.normal(size=rows),
            "job": draw.choice(["a", "b", "c"], rows, p=[0.6, 0.3, 0.1]),
            "sex": np.where(np.arange(rows) % 3 == 0, "F", "M"),
            "region": np.where(np.arange(rows) % 4 < 2, "N", "S"),
            "part": np.where(np.arange(rows) % 5 < 4, "train", "test"),
            "approved": draw.choice(["no", "yes"], rows),
        }
    )


@pytest.fixture(scope="module")
def inputs_folder(tmp_path_factory):
    """A table, the same elsewhere, a student pool and a few images."""
    made = tmp_path_factory.mktemp("identity")
    table = rows_of_two_groupings()
    table.loc[[4, 9], "age"] = np.nan
    for name in ("people.csv", "moved.csv"):
        table.to_csv(made / name, index=False)
    table.to_csv(made / "nameless.csv", index=False, header=False)
    rows_of_two_groupings(50).drop(columns="approved").to_csv(made / "public.csv", index=False)
    draw = np.random.default_rng(2)
    np.savez(
        made / "images.npz",
        x=draw.integers(0, 256, (40, 8, 8), dtype=np.uint8),
        y=np.arange(40) % 2,
        sex=np.arange(40) // 2 % 2,
    )
    return made


@pytest.fixture(scope="module")
def planned(inputs_folder):
    """A plan on the folder's files, made once for the same options."""

    @cache
    def plan(images, name=None):
        few = {} if images else {"pate-hard": {"teachers": 3.0, "queries": 6.0}}
        method = ("dpsgd",) if images else ("dpsgd-f", "pate-hard")
        fields = {
            "data": "images.npz" if images else "people.csv",
            "group": ("sex",),
            "seeds": 1,
            "epochs": 1,
            "batch_size": 30 if images else 120,
            "noise_multiplier": 1.0,
            "delta": 1e-4,
            "method": method,
            "settings": few,
            "label": "y" if images else "approved",
            "diagnostics": "off",
            **({} if name is None else {name: OTHER[name]}),
        }
        if name == "names":  # the first line of a file whose columns are named is a row
            fields["data"] = "nameless.csv"
        if name == "bin":
            fields["group"] = ("sex", "debt")
        if name == "intersect":
            fields["group"] = ("sex", "region")
        if name in NEEDS:
            fields[NEEDS[name]] = OTHER[NEEDS[name]]
        if (
            name == "tune_for"
        ):  # by exact scores: noised ones are refused for groups as small as these
            fields["tune_privacy"] = "uncharged"
        if name in OF_TRAINERS:  # is asked for an epsilon; the others keep their noise
            fields["settings"] = {
                **few,
                "dpsgd-f": {"noise_multiplier": fields.pop("noise_multiplier")},
            }
        if name == "settings":
            fields["settings"] = {**few, **OTHER[name]}
        for path in ("data", "public_data", "synthetic"):
            if fields.get(path):
                fields[path] = inputs_folder / fields[path]
        config = AuditConfig(**fields)
        return make_plan(config, load_dataset(config))

    return plan


@pytest.fixture(scope="module")
def trained(planned):
    """The arrays of an arm at the first seed without any other option."""

    @cache
    def train(images, arm):
        plan = planned(images)
        return run_here(plan, next(job for job in plan.jobs if job.arm == arm)).arrays

    return train


@pytest.mark.parametrize("name", OTHER)
def test_an_option_changes_the_id_of_a_job_or_no_bit_of_its_result(planned, trained, name):
    images = name in IMAGES
    before = {(job.arm, job.seed): job for job in planned(images).jobs}
    plan = planned(images, name)
    after = {(job.arm, job.seed): job for job in plan.jobs}
    kept = [job for key, job in after.items() if key in before and before[key].id == job.id]
    assert (len(kept) == len(before)) == (name in KEEPS)
    for job in kept:
        if job.arm not in ("dpsgd", "dpsgd-f", "pate-hard"):
            continue
        found, expected = run_here(plan, job).arrays, trained(images, job.arm)
        assert found.keys() == expected.keys()
        for array in found:
            assert found[array].tobytes() == expected[array].tobytes(), (job.arm, array)


NUMBERS = {
    "learning_rate": 0.03,
    "max_grad_norm": 0.2,
    "noise_multiplier": 2.0,
    "test_size": 0.4,
    "merge_rare": 0.3,
    "keep": {"F": 0.5},
    "settings": {"dpsgd-f": {"largest_bound_ratio": 1.5}},
}


def more(value):
    """A number, or each number of a table, and a thousandth."""
    if isinstance(value, dict):
        return {name: more(inner) for name, inner in value.items()}
    return value * 1.001


def test_one_number_that_moves_by_a_thousandth_is_another_job(inputs_folder):
    given = {
        "data": inputs_folder / "people.csv",
        "group": ("sex",),
        "label": "approved",
        "seeds": 1,
    }

    def id_of(**numbers):
        config = AuditConfig(**given, method=("dpsgd-f",), **{**NUMBERS, **numbers})
        plan = make_plan(config, load_dataset(config))
        return next(job.id for job in plan.jobs if job.arm == "dpsgd-f")

    moved = {name: id_of(**{name: more(value)}) for name, value in NUMBERS.items()}
    assert len({id_of(), *moved.values()}) == 1 + len(NUMBERS)
    assert id_of(model="mlp", hidden=(3,)) != id_of(model="mlp", hidden=(4,))


# --- code
# --------------------------------------------------------------------------------------------

PLUGIN = {
    "plugged/__init__.py": """
        from fairaudit.methods.defaults import FLAT
        from fairaudit.methods.spec import Guarantee, MethodSpec
        SPEC = MethodSpec("plugged", "a method", "here", Guarantee.ESTABLISHED,
                          "plugged.train:Plugged",
                          FLAT, readings="plugged.read:read")
    """,
    "plugged/train.py": """
        from fairaudit.methods.dpsgd import DpSgd
        class Plugged(DpSgd):
            def rule(self, task):
                from . import parts
                return parts.rule(task.settings["max_grad_norm"])
    """,
    "plugged/parts/__init__.py": "from .bounds import rule\n",
    "plugged/parts/bounds.py": """
        from fairaudit.engine.rules import FlatClip
        import beside_plugged, library
        def rule(bound): return FlatClip(bound * beside_plugged.FACTOR)
    """,
    "plugged/read.py": "def read(method, task, trained): return {}\n",
    "plugged/unused.py": "VALUE = 1\n",
    "library/__init__.py": "VALUE = 1\n",
    "library-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: library\nVersion: 1.0\n",
    "beside_plugged.py": "FACTOR = 1.0\n",
    "plugged-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: plugged\nVersion: 1.0\n",
    "plugged-1.0.dist-info/entry_points.txt": "[fairaudit.methods]\nplugged = plugged:SPEC\n",
}

NOT_BUILT_FROM = {"plugged/unused.py", "library/__init__.py"}  # a library is what its version says


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """A method of somebody else, found as an installed one is."""
    home = tmp_path / "plugins"
    for name, text in PLUGIN.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(
            "\n".join(line[8:] if text[0] == "\n" else line for line in text.split("\n"))
        )
    monkeypatch.syspath_prepend(str(home))
    catalog.cache_clear()
    yield home
    catalog.cache_clear()
    sys.modules.pop("plugged", None)


def ids(inputs_folder):
    config = AuditConfig(
        data=inputs_folder / "people.csv",
        group=("sex",),
        label="approved",
        seeds=1,
        noise_multiplier=1.0,
        method=("dpsgd", "plugged", "pate-hard"),
        settings={"pate-hard": {"teachers": 3.0, "queries": 6.0}},
    )
    return {job.arm: job.id for job in make_plan(config, load_dataset(config)).jobs}


@pytest.mark.parametrize("name", [name for name in PLUGIN if name.endswith(".py")])
def test_an_edit_of_what_a_method_is_built_from_is_another_job_and_of_that_method_alone(
    plugin, inputs_folder, name
):
    before = ids(inputs_folder)
    with (plugin / name).open("a") as file:
        file.write("\nEDITED = True\n")
    after = ids(inputs_folder)
    changed = {arm for arm in before if before[arm] != after[arm]}
    assert changed == (set() if name in NOT_BUILT_FROM else {"plugged"})


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("methods/dpsgd_f.py", {"methods.dpsgd_f", "papers.fairlens"}),
        ("papers/clipping.py", {"papers.fairlens"}),
        ("methods/teachers.py", {"methods.teachers"}),
        ("methods/base.py", {"methods.dpsgd_f", "papers.fairlens", "methods.teachers"}),
        ("methods/catalog.py", set()),  # what it says of a method stands in the id by itself
        ("engine/loop.py", set()),  # the numerics version speaks for it
    ],
)
def test_an_edited_rule_of_our_own_is_another_job(tmp_path, monkeypatch, name, changed):
    copy = tmp_path / "fairaudit"
    shutil.copytree(
        Path(fairaudit.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__")
    )
    kinds = ("methods.dpsgd_f", "papers.fairlens", "methods.teachers")
    before = {kind: code_digest([f"fairaudit.{kind}"]) for kind in kinds}
    monkeypatch.setattr(fairaudit.__spec__, "submodule_search_locations", [str(copy)])
    assert {kind: code_digest([f"fairaudit.{kind}"]) for kind in kinds} == before
    with (copy / name).open("a") as file:
        file.write("\nEDITED = True\n")
    after = {kind: code_digest([f"fairaudit.{kind}"]) for kind in kinds}
    assert {kind for kind in kinds if before[kind] != after[kind]} == changed
