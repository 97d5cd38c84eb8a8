"""What a released model says of rows: the same as training's own evaluation, whatever the method."""

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from people import people
from safetensors.numpy import load_file, save_file

import fairaudit
from fairaudit.errors import ConfigError, DataError
from fairaudit.release.choice import Wish, choose
from fairaudit.release.loaded import load_model
from fairaudit.release.made import write_model
from fairaudit.release.model_folder import MOST_BYTES
from fairaudit.release.train import train_for_release


@pytest.fixture
def made(audited, tmp_path):
    """A folder, and what training itself predicts of the rows that it held out."""

    def _made(method="dpsgd", **options):
        wish = {"fitted": True, **options.pop("wish", {})}
        choice = choose(Wish(audited(**{"method": [method], **options}), method, **wish))
        trained = train_for_release(choice)
        write_model(choice, trained, tmp_path / "model")
        return tmp_path / "model", choice, trained

    return _made


EVERY = [
    ("dpsgd", {}),
    ("dpsgd", {"model": "mlp", "hidden": [5, 3], "activation": "relu"}),
    ("dpsgd", {"columns": None}),
    ("dpsgd", {"columns": None, "merge_rare": 0}),
    ("dpsgd", {"columns": None, "merge_rare": 0.25}),
    ("dpsgd", {"group_as_feature": True, "columns": None}),
    ("global-adapt", {}),
    ("dpsgd-f", {}),
    ("fairlens", {}),
    ("output-perturbation", {"noise_multiplier": None, "epsilon": [3.0]}),
    ("pate-hard", {"noise_multiplier": None, "epsilon": [8.0]}),
    ("pate-soft", {"noise_multiplier": None, "epsilon": [8.0], "model": "mlp", "hidden": [4]}),
]


@pytest.mark.parametrize(("method", "options"), EVERY)
def test_predictions_equal_trainings_own_on_the_rows_that_it_held_out(made, method, options):
    folder, choice, trained = made(method, **options)
    found = fairaudit.load_model(folder).predict_proba(people())
    assert len(trained.test) > 10
    assert np.abs(found[trained.test] - trained.probabilities).max() <= 1e-6
    assert list(fairaudit.load_model(folder).classes_) == ["no", "yes"]
    assert choice.arm.privacy.epsilon_pld > 0


def test_every_method_with_an_established_guarantee_is_among_them():
    """By the kind of model that it trains: networks by the loop, a convex solution, a student."""
    from fairaudit.methods.catalog import Guarantee, catalog

    def kind(spec):
        return "steps" if spec.trains_by_steps else spec.trainer.partition(":")[0]

    kinds = {
        kind(spec)
        for spec in catalog().values()
        if spec.guarantee is Guarantee.ESTABLISHED and not spec.control_of
    }
    assert len(kinds) == 3
    assert kinds == {kind(catalog()[method]) for method, _ in EVERY}


def test_rows_may_come_as_frame_parquet_or_csv_with_columns_in_any_order(made, tmp_path):
    folder, _, _ = made()
    model, frame = load_model(folder), people()
    frame["debt"] = frame["debt"].round(3)
    frame["age"] = frame["age"].round(3)
    wanted = model.predict_proba(frame)
    shuffled = frame[["y", "job", "sex", "debt", "age"]].assign(more=1)
    shuffled.to_parquet(tmp_path / "rows.parquet", index=False)
    shuffled.to_csv(tmp_path / "rows.csv", index=False)
    for path in ("rows.parquet", "rows.csv"):
        assert (model.predict_file(tmp_path / path).probabilities == wanted).all()
    assert (model.predict(shuffled) == np.where(wanted[:, 1] > 0.5, "yes", "no")).all()


def test_what_is_not_as_declared_is_clipped_or_missing_and_counted(made):
    folder, _, _ = made()
    model = load_model(folder)
    rows = pd.DataFrame({
        "age": [80.0, 1000.0, -1000.0, 18.0, 30.0], "debt": [0.0, 0.0, np.nan, 10.0, np.inf],
        "job": ["cook", "cook", "pirate", None, "nurse"],
    })  # fmt: skip
    found = model.predict_table(pa.Table.from_pandas(rows))
    assert found.outside == {"age": 2, "job": 1}
    assert found.missing == {"debt": 2, "job": 1}
    p = found.probabilities
    assert (p[0] == p[1]).all()
    rows.loc[2, ["age", "job"]] = [18.0, None]
    assert (model.predict_proba(rows)[2] == p[2]).all()


def test_a_text_that_training_did_not_see_is_what_an_unseen_one_was_in_the_audit(made):
    """Fitted columns: with the merged levels where there are some, else nowhere."""
    for merge_rare in (0.25, 0.002):
        folder, _, _ = made(columns=None, merge_rare=merge_rare)
        told = json.loads((folder / "recipe.json").read_text())
        job = next(column for column in told["columns"] if column["name"] == "job")
        merged = "job=(other)" in job["inputs"]
        assert merged == (merge_rare == 0.25)
        assert job["values"][-2] == float(merged)
        if merged:
            assert job["inputs"][job["places"][-2]] == "job=(other)"
        found = load_model(folder).predict_table(
            pa.table({"age": [30.0], "debt": [1.0], "job": ["never seen"]})
        )
        assert found.outside == {"job": 1}
        shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t.drop(columns="age"), "lack 1 columns.*'age'"),
        (lambda t: t.assign(age="old"), "holds text, and the model reads numbers"),
        (lambda t: t.assign(age=pd.Timestamp("2020-01-01")), "holds times, and the model reads numbers"),
    ],
)
def test_rows_of_another_kind_are_refused(made, change, said):
    with pytest.raises(DataError, match=said):
        load_model(made()[0]).predict_proba(change(people()))


# --- folders that somebody touched ---------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(MOST_BYTES))
def test_a_changed_missing_or_huge_file_is_refused(made, monkeypatch, name):
    folder, _, _ = made()
    content = (folder / name).read_bytes()
    place = content.rindex(b"sha256") + 12 if name == "evidence.json" else len(content) // 2
    (folder / name).write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    with pytest.raises(DataError):
        load_model(folder)
    (folder / name).unlink()
    with pytest.raises(DataError, match=name):
        load_model(folder)
    (folder / name).write_bytes(content)
    load_model(folder)
    monkeypatch.setitem(MOST_BYTES, name, len(content) - 1)
    with pytest.raises(DataError, match="larger than"):
        load_model(folder)


def reseal(folder: Path):
    """What somebody would do who can write the evidence, too."""
    told = json.loads((folder / "evidence.json").read_text())
    for each in told["subject"]:
        each["digest"]["sha256"] = hashlib.sha256((folder / each["name"]).read_bytes()).hexdigest()
    (folder / "evidence.json").write_text(json.dumps(told))


@pytest.mark.parametrize(
    "change",
    [
        lambda told: told["model"].update(hidden=[10**9, 10**9], model="mlp"),
        lambda told: told["model"].update(hidden=[4], model="mlp"),
        lambda told: told["columns"][0].update(name="sex"),
        lambda told: told["columns"].pop(),
        lambda told: told["columns"][2]["places"].pop(),
        lambda told: told["columns"][2].update(places=[10**9] * 5),
        lambda told: told.update(classes=["a", "b", "c"]),
        lambda told: told.update(code="import os"),
        lambda told: told.update(format=2),
    ],
)
def test_a_recipe_that_was_changed_with_its_digest_takes_no_memory_and_runs_nothing(made, change):
    folder, _, _ = made()
    told = json.loads((folder / "recipe.json").read_text())
    change(told)
    (folder / "recipe.json").write_text(json.dumps(told))
    reseal(folder)
    with pytest.raises((DataError, ConfigError)):
        load_model(folder).predict_proba(people()[["age", "debt", "job"]])


@pytest.mark.parametrize("content", [b"", b"\x80\x04K\x01.", b"\xff" * 8 + b"{}", b"8\0\0\0\0\0\0\0{}"])
def test_weights_that_are_no_safetensors_are_refused(made, content):
    folder, _, _ = made()
    (folder / "model.safetensors").write_bytes(content)
    reseal(folder)
    with pytest.raises(DataError, match="holds no model"):
        load_model(folder)


def test_weights_of_another_shape_are_refused(made):
    folder, _, _ = made()
    tensors = load_file(folder / "model.safetensors")
    save_file(
        {name: values[..., :1].copy() for name, values in tensors.items()}, folder / "model.safetensors"
    )
    reseal(folder)
    with pytest.raises(DataError, match="does not hold what"):
        load_model(folder)


# --- models and data of other kinds ----------------------------------------------------------------------


OWN = """
import torch
from torch import nn

class Own(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.register_buffer("turn", torch.randn(width, width))  # of the start: it must travel, too
        self.scale = nn.Parameter(torch.ones(width))
        self.out = nn.Linear(width, classes)

    def forward(self, x):
        return self.out((x @ self.turn) * self.scale)

def make(shape, classes):
    return Own(shape[0], classes)
"""


def test_a_model_of_ones_own_travels_as_weights_and_the_name_of_its_code(made, tmp_path, monkeypatch):
    (tmp_path / "own_release_toy.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    name = "own_release_toy:make"
    folder, _, trained = made(model=name)
    assert set(load_file(folder / "model.safetensors")) == {"turn", "scale", "out.weight", "out.bias"}
    with pytest.raises(ConfigError, match="code that is not in the folder"):
        load_model(folder)
    with pytest.raises(ConfigError, match="not of 'other:make'"):
        load_model(folder, model="other:make")
    found = load_model(folder, model=name).predict_proba(people())
    assert np.abs(found[trained.test] - trained.probabilities).max() <= 1e-6
    (tmp_path / "own_release_toy.py").write_text(OWN + "# changed\n")
    with pytest.raises(ConfigError, match="is not what was trained"):
        load_model(folder, model=name)


@pytest.mark.parametrize("model", ["cnn", "logistic"])
def test_images_are_predicted_as_they_were_evaluated(made, tmp_path, model):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 80)
    pixels = rng.integers(0, 256, (80, 7, 7), dtype=np.uint8) // (1 + labels)[:, None, None].astype(np.uint8)
    np.savez(tmp_path / "images.npz", x=pixels, y=labels, sex=rng.integers(0, 2, 80))
    folder, _, trained = made(
        data=tmp_path / "images.npz", label="y", columns=None, model=model, batch_size=20,
    )  # fmt: skip
    found = load_model(folder).predict_file(tmp_path / "images.npz").probabilities
    assert np.abs(found[trained.test] - trained.probabilities).max() <= 1e-6
    with pytest.raises(DataError, match="reads images"):
        load_model(folder).predict_proba(people())
    assert json.loads((folder / "privacy.json").read_text())["fitted_without_privacy"] == []
