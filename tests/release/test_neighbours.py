"""Two files that differ in one record, whatever it holds, differ in a release by noise alone.

First the stronger law: every other record enters training as the same numbers, label and groups.
Then whole folders, byte by byte.
"""

import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from audits import audited
from neighbours import (
    TOLD,
    images_of,
    neighbour_rows,
    neighbours_in_parts,
    neighbours_of_csv,
    neighbours_of_images,
    neighbours_of_parquet,
    write,
)
from pictures import metadata_folder

from fairaudit.data.codebook import read_by
from fairaudit.data.dataset import Split
from fairaudit.data.inputs.shared import share_inputs
from fairaudit.release.planned import ReleaseRequest, codebook_of, plan_release
from fairaudit.release.train import release

OPTIONS = {
    "group": ["sex"],
    "label": "y",
    "drop": ["sex", "part", "height"],
    "columns": {"columns": TOLD},
    "seeds": 1,
    "epochs": 1,
    "batch_size": 60,
    "noise_multiplier": 1.0,
    "delta": 1e-5,
    "twins": "off",
}
BY_EPSILON = {"noise_multiplier": None, "epsilon": [8.0]}
PUBLIC = {**BY_EPSILON, "public_data": "public", "columns": None}
# Seventeen ways to train: (method, options). "public" stands for a table of public records.
SETS = {
    "numbers, texts, truth values": ("dpsgd", {}),
    "a network, a bound": ("dpsgd", {"model": "mlp", "hidden": [4], "max_grad_norm": 0.5}),
    "two groupings": ("global-adapt", {"group": ["sex", "owner"], "intersect": True}),
    "groups in training": ("dpsgd-f", {"favourable": "yes", "group": ["job"]}),
    "group as feature": ("fairlens", {"group": ["owner"], "group_as_feature": True}),
    "weights of groups": ("reweight", {"keep": {"F": 0.5}, "n_public": 150}),
    "a threshold": ("global", {"threshold": 2.0, "merge_rare": 0.0}),
    "output": ("output-perturbation", {**BY_EPSILON, "missing": "drop"}),
    "votes": ("pate-hard", BY_EPSILON),
    "votes on public rows": ("pate-hard", PUBLIC),
    "scores on public rows": ("pate-soft", {**PUBLIC, "columns": {"columns": TOLD}}),
    "a given split": ("dpsgd", {"drop": ["sex", "height"], "split_column": "part"}),
    "edges": (
        "dpsgd",
        {"drop": ["sex", "part"], "group": ["height"], "bin": {"height": "160,170"}},
    ),
    "contrast": (
        "dpsgd",
        {"group": ["job"], "contrast": {"job": "cook"}, "drop": ["sex", "part", "height", "job"]},
    ),
    "classes as groups": ("dpsgd", {"group_by_label": True, "positive": "yes"}),
    "numbers as classes": (
        "dpsgd-f",
        {"labels": (0, 1, 2), "epsilon": [2.0], "noise_multiplier": None},
    ),
    "images": (
        "dpsgd",
        {"images": True, "group": ["style"], "label": "label", "columns": None, "drop": ["split"]},
    ),
}


@pytest.fixture(scope="session")
def reports(tmp_path_factory):
    """Name of a set -> (method, report of other data than the neighbours', frame), made once."""
    made = {}

    def _reports(name):
        if name in made:
            return made[name]
        folder = tmp_path_factory.mktemp("neighbours")
        method, options = SETS[name]
        options = {**OPTIONS, **options}
        frame = neighbour_rows(label=options.pop("labels", ("no", "yes")))
        if options.pop("images", False):
            data = metadata_folder(folder / "audited", images_of(90, seed=1))
        else:
            data = folder / "audited.csv"
            frame.iloc[::-1].to_csv(data, index=False)
        if options.get("public_data"):
            public = neighbour_rows(seed=3, rows=40)
            public.loc[:, "job"] = public["job"].replace("pirate", "cook")
            public.drop(columns="y").to_csv(folder / "public.csv", index=False)
            options["public_data"] = folder / "public.csv"
        given = {key: value for key, value in options.items() if value is not None}
        report = audited(folder / "audit", data=data, method=[method], **given).path
        made[name] = method, report, frame
        return made[name]

    return _reports


def planned(method, report, path):
    return plan_release(ReleaseRequest(report, method, data=path, set_aside=("--despite-change",)))


def entering(plan):
    """What each record brings into training, as bytes; and what is the same for all of them."""
    dataset = plan.dataset
    inputs = share_inputs(dataset, plan.config, by_pool=plan.by_pool).value
    rows = np.arange(dataset.n_rows)
    everything = Split(0, rows, rows[:0])
    public = b""
    if plan.by_pool and plan.config.public_data is not None:
        found = inputs.pool_encoder.encode(everything)
        encoded, public = found.encoded, found.pool[:].tobytes()
    else:
        encoded = inputs.encoder.encode(everything)
    of_record = [dataset.labels, *(grouping.groups for grouping in dataset.groupings)]
    if dataset.split is not None:
        of_record.append(dataset.split)
    of_record = np.stack(of_record, axis=1)
    records = [x.tobytes() + y.tobytes() for x, y in zip(encoded.train[:], of_record, strict=True)]
    names = [(grouping.name, grouping.names, grouping.missing) for grouping in dataset.groupings]
    kinds = dataset.classes, dataset.favourable_class, dataset.features.schema, names
    return records, (kinds, encoded.columns, encoded.names, public)


def paths_of(found, folder):
    """Name and path of each neighbour, written into the folder unless it is a path already."""
    for number, (kind, content) in enumerate(found.items()):
        suffix = {bytes: "csv", pa.Table: "parquet"}.get(type(content))
        yield kind, write(content, folder / f"{number}.{suffix}") if suffix else content


def alike(ours, theirs):
    """How many records are equal from the first on."""
    differs = (place for place, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b)
    return next(differs, min(len(ours), len(theirs)))


def differ_in_one_record_at_most(ours, theirs):
    before = alike(ours, theirs)
    after = alike(ours[before:][::-1], theirs[before:][::-1])
    return max(len(ours), len(theirs)) - before - after <= 1


def check_all(name, reports, found, folder):
    """Each of the neighbours enters training as the first one does, but for one record."""
    method, report, _ = reports(name)
    base, unlike = None, []
    for kind, path in paths_of(found, folder):
        if base is None:
            plan = planned(method, report, path)
            by_public = plan.by_pool and plan.config.public_data is not None
            codebook = codebook_of(plan.report, plan.config, by_public=by_public)
            base = entering(plan)
        config = plan.config.model_copy(update={"data": path})
        records, known = entering(replace(plan, dataset=read_by(codebook, config)))
        if known != base[1] or not differ_in_one_record_at_most(base[0], records):
            unlike.append(kind)
    assert not unlike
    assert len(base[0]) > 50


def test_the_check_sees_a_second_record():
    assert differ_in_one_record_at_most([b"a", b"b", b"c"], [b"a", b"x", b"c"])
    assert differ_in_one_record_at_most([b"a", b"b", b"c"], [b"a", b"c"])
    assert not differ_in_one_record_at_most([b"a", b"b", b"c"], [b"a", b"c", b"b"])
    assert not differ_in_one_record_at_most([b"a", b"b", b"c"], [b"x", b"b", b"d"])
    assert not differ_in_one_record_at_most([b"a", b"b", b"c"], [b"c"])


TABLES = [name for name, (_, options) in SETS.items() if "images" not in options]
# One set of options for tables in the fast suite; others give the same columns other parts.
READ = [
    pytest.param(name, marks=[pytest.mark.slow] if name not in TABLES[:1] else [])
    for name in TABLES
]


@pytest.mark.parametrize("name", READ)
def test_no_line_of_a_csv_changes_how_another_is_read(name, reports, tmp_path):
    _, _, frame = reports(name)
    check_all(name, reports, neighbours_of_csv(frame), tmp_path)


@pytest.mark.parametrize("name", READ)
def test_no_row_of_a_parquet_file_changes_how_another_is_read(name, reports, tmp_path):
    _, _, frame = reports(name)
    check_all(name, reports, neighbours_of_parquet(frame), tmp_path)


@pytest.mark.parametrize("name", READ)
def test_no_part_changes_how_another_is_read(name, reports, tmp_path):
    _, _, frame = reports(name)
    whole = {"itself": neighbours_of_parquet(frame)["itself"]}
    whole |= neighbours_in_parts(frame, tmp_path / "parts")
    check_all(name, reports, whole, tmp_path)


def test_no_image_changes_how_another_is_read(reports, tmp_path):
    check_all("images", reports, neighbours_of_images(90, tmp_path), tmp_path)


# --- whole folders
# --------------------------------------------------------------------------------------

DIGEST = re.compile(rb'"sha256": "[0-9a-f]{64}"')


def said(folder):
    """File -> its bytes, without values of weights and without digests in the evidence."""
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    length = int.from_bytes(files["model.safetensors"][:8], "little")
    header, values = (
        files["model.safetensors"][: 8 + length],
        files["model.safetensors"][8 + length :],
    )
    files["model.safetensors"] = header + str(len(values)).encode()
    files["evidence.json"], found = DIGEST.subn(b"", files["evidence.json"])
    assert found in (7, 8)  # four files, report, data then and now, public data
    return files, values


def some_of(frame):
    """Neighbours of a table, one of each kind and column, as files of both formats."""
    lines, rows = neighbours_of_csv(frame), neighbours_of_parquet(frame)
    wanted = ["itself", "one less", "one more", "line quote", "line long", "line not UTF-8"]
    odd = {"age": "unknown", "code": "unknown", "y": "maybe", "sex": "X", "part": "banana"}
    wanted += [f"{column} {value!r} added" for column, value in odd.items()]
    found = {name: lines[name] for name in wanted}
    return found | {name: rows[name] for name in ("code missing", "age as text", "y not UTF-8")}


TRAINED = [
    pytest.param(name, marks=[] if name in (TABLES[0], "images") else [pytest.mark.slow])
    for name in SETS
]


@pytest.mark.parametrize("name", TRAINED)
def test_folders_of_neighbours_differ_in_weights_and_digests_alone(name, reports, tmp_path):
    method, report, frame = reports(name)
    found = neighbours_of_images(90, tmp_path) if name == "images" else some_of(frame)
    base, weights = None, set()
    for number, (_, path) in enumerate(paths_of(found, tmp_path)):
        plan = planned(method, report, path)
        release(plan, tmp_path / f"model {number}")
        files, values = said(tmp_path / f"model {number}")
        base = base or files
        assert files == base
        weights.add(values)
    assert len(weights) == len(found) > 12
