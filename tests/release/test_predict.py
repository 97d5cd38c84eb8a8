"""What a released model says of rows.

The same as training's own evaluation, whatever the method.
"""

import hashlib
import json
import shutil
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from disks import files_of_at_most
from people import TOLD, applicants
from safetensors.numpy import load_file, save_file

import fairaudit
from fairaudit.errors import ConfigError, DataError, OutputError
from fairaudit.methods.catalog import Guarantee, catalog
from fairaudit.release.loaded import load_model, write_predictions
from fairaudit.release.model_folder import MOST_BYTES
from fairaudit.release.planned import ReleaseRequest, plan_release
from fairaudit.release.train import train_for_release, write_model


@pytest.fixture
def released(stored, tmp_path):
    """A folder, and what training itself predicts of the rows that it held out."""

    def _made(method="dpsgd", **options):
        wish = {"set_aside": ("--accept-fitted-preprocessing",), **options.pop("wish", {})}
        choice = plan_release(
            ReleaseRequest(stored(**{"method": [method], **options}), method, **wish)
        )
        trained = train_for_release(choice)
        write_model(choice, trained, tmp_path / "model")
        return tmp_path / "model", choice, trained

    return _made


EVERY = [
    ("dpsgd", {}),
    ("dpsgd", {"model": "mlp", "hidden": [5, 3], "activation": "relu"}),
    ("dpsgd", {"columns": None, "merge_rare": 0}),
    ("dpsgd", {"columns": None, "merge_rare": 0.25}),
    ("dpsgd", {"group_as_feature": True, "columns": None}),
    ("dpsgd", {"tune": 3}),
    ("global", {}),
    ("global-adapt", {}),
    ("reweight", {}),
    ("dpsgd-f", {}),
    ("fairlens", {}),
    ("output-perturbation", {"noise_multiplier": None, "epsilon": [3.0]}),
    ("pate-hard", {"noise_multiplier": None, "epsilon": [8.0]}),
    ("pate-soft", {"noise_multiplier": None, "epsilon": [8.0], "model": "mlp", "hidden": [4]}),
]


@pytest.mark.parametrize(("method", "options"), EVERY)
def test_predictions_equal_trainings_own_on_the_rows_that_it_held_out(released, method, options):
    folder, choice, trained = released(method, **options)
    found = fairaudit.load_model(folder).predict_proba(applicants())
    assert len(trained.test) > 10
    assert np.abs(found[trained.test] - trained.probabilities).max() <= 1e-6
    assert list(fairaudit.load_model(folder).classes_) == ["no", "yes"]
    assert choice.arm.privacy.headline > 0
    assert {spec.name for spec in RELEASED} == {method for method, _ in EVERY}


def test_a_text_that_only_private_rows_have_is_not_released(released, tmp_path):
    pool = tmp_path / "pool.parquet"
    applicants().replace("pirate", "cook").to_parquet(pool)
    given = {"noise_multiplier": None, "epsilon": [8.0], "columns": None, "public_data": pool}
    folder, choice, trained = released("pate-hard", **given)
    assert "pirate" not in (folder / "recipe.json").read_text()
    found = load_model(folder).predict_proba(applicants())
    assert np.abs(found[trained.test] - trained.probabilities).max() <= 1e-6
    assert choice.pool_sha256 in (folder / "evidence.json").read_text()
    applicants(seed=1).to_parquet(pool)
    with pytest.raises(ConfigError, match="--public-data is not what was audited"):
        released("pate-hard", **given)


RELEASED = [
    spec
    for spec in catalog().values()
    if spec.guarantee is Guarantee.ESTABLISHED and spec.is_private and not spec.control_of
]


@pytest.mark.slow
@pytest.mark.parametrize("spec", RELEASED, ids=lambda spec: spec.name)
def test_every_method_with_a_guarantee_is_released_of_three_classes_and_searched(
    released, tmp_path, spec
):
    """A student, a solution, a model of steps; two classes without a search are above."""
    rows = applicants(450)
    rows["y"] = np.where(rows["age"] < 35, "low", np.where(rows["age"] < 60, "mid", "top"))
    rows.to_parquet(tmp_path / "three.parquet", index=False)
    given = {"noise_multiplier": None, "epsilon": [30.0]} if spec.gaussian else {}
    folder, choice, trained = released(
        spec.name, data=tmp_path / "three.parquet", tune=2, seeds=1, **given
    )
    model = fairaudit.load_model(folder)
    assert model.classes_.tolist() == ["low", "mid", "top"]
    assert np.abs(model.predict_proba(rows)[trained.test] - trained.probabilities).max() <= 1e-6
    told = json.loads((folder / "privacy.json").read_text())
    assert told["epsilon"] == choice.arm.privacy.headline
    assert told["guarantee"] == "established"
    assert told["search"] is not None


@pytest.mark.parametrize("values", [(7, 12), (False, True)], ids=str)
def test_predictions_have_the_type_of_the_label(released, tmp_path, values):
    rows = applicants()
    rows["y"] = np.where(rows["y"] == "yes", values[1], values[0])
    rows.to_parquet(tmp_path / "typed.parquet", index=False)
    folder, _, _ = released(data=tmp_path / "typed.parquet")
    model = load_model(folder)
    predicted = model.predict(rows)
    assert predicted.dtype.kind == rows["y"].to_numpy(dtype=type(values[0])).dtype.kind
    right = (predicted == rows["y"].to_numpy()).mean()
    assert right > 0.4
    write_predictions(model, tmp_path / "typed.parquet", tmp_path / "out.parquet")
    assert (pd.read_parquet(tmp_path / "out.parquet")["prediction"].to_numpy() == predicted).all()


def test_rows_may_come_as_frame_parquet_or_csv_with_columns_in_any_order(released, tmp_path):
    folder, _, _ = released()
    model, frame = load_model(folder), applicants()
    frame["debt"] = frame["debt"].round(3)
    frame["age"] = frame["age"].round(3)
    wanted = model.predict_proba(frame)
    shuffled = frame[["y", "job", "sex", "debt", "age"]].assign(more=1)
    shuffled.to_parquet(tmp_path / "rows.parquet", index=False)
    shuffled.to_csv(tmp_path / "rows.csv", index=False)
    for path in ("rows.parquet", "rows.csv"):
        assert (model.predict_file(tmp_path / path).probabilities == wanted).all()
    assert (model.predict(shuffled) == np.where(wanted[:, 1] > 0.5, "yes", "no")).all()


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_file_of_many_pieces_is_written_as_it_is_predicted(released, tmp_path, monkeypatch, kind):
    folder, _, _ = released()
    model, frame = load_model(folder), applicants(700)
    frame.loc[600, "age"] = 1000.0
    frame.loc[650, "job"] = None
    path = tmp_path / "rows.parquet"
    frame.to_parquet(path, index=False)
    whole = model.predict_file(path)
    monkeypatch.setattr("fairaudit.release.loaded.ROWS", 64)
    found = write_predictions(model, path, tmp_path / f"out.{kind}")
    assert found.inputs.unknown == whole.inputs.unknown
    assert found.inputs.missing == whole.inputs.missing
    assert found.inputs.missing["job"] == 1
    assert whole.inputs.unknown["age"] >= 1
    read_back = pd.read_csv if kind == "csv" else pd.read_parquet
    out = read_back(tmp_path / f"out.{kind}")
    assert list(out.columns) == ["prediction", "probability_no", "probability_yes"]
    # A product's last digit may follow how many rows there are.
    assert np.abs(out.iloc[:, 1:].to_numpy() - whole.probabilities).max() <= 1e-6
    winners = model.classes_[whole.probabilities.argmax(1)]
    is_close = np.abs(whole.probabilities[:, 0] - 0.5) < 1e-5
    assert ((out["prediction"] == winners) | is_close).all()


def test_predictions_appear_whole_or_not_at_all(released, tmp_path):
    folder, _, _ = released()
    model, out = load_model(folder), tmp_path / "out.csv"
    applicants(1500).to_parquet(tmp_path / "rows.parquet", index=False)
    out.write_text("earlier")
    before = sorted(path.name for path in tmp_path.iterdir())
    with files_of_at_most(20_000), pytest.raises(OutputError, match="no space left to write"):
        write_predictions(model, tmp_path / "rows.parquet", out)
    content = bytearray((tmp_path / "rows.parquet").read_bytes())
    content[len(content) // 4 : len(content) // 2] = bytes(len(content) // 2 - len(content) // 4)
    (tmp_path / "rows.parquet").write_bytes(content)
    with pytest.raises(DataError, match="damaged"):
        write_predictions(model, tmp_path / "rows.parquet", out)
    assert out.read_text() == "earlier"
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_what_is_not_as_declared_is_clipped_or_missing_and_counted(released, tmp_path):
    folder, _, _ = released()
    model = load_model(folder)
    rows = pd.DataFrame(
        {
            "age": [80.0, 1000.0, -1000.0, 18.0, 30.0],
            "debt": [0.0, 0.0, np.nan, 10.0, np.inf],
            "job": ["cook", "cook", "pirate", None, "nurse"],
        }
    )
    rows.to_parquet(tmp_path / "rows.parquet", index=False)
    found = model.predict_file(tmp_path / "rows.parquet")
    assert found.inputs.unknown == {"age": 2, "job": 1}
    assert found.inputs.missing == {"debt": 2, "job": 1}
    p = found.probabilities
    assert (p[0] == p[1]).all()
    rows.loc[2, ["age", "job"]] = [18.0, None]
    assert (model.predict_proba(rows)[2] == p[2]).all()


def test_a_text_that_training_did_not_see_is_what_an_unseen_one_was_in_the_audit(
    released, tmp_path
):
    """Fitted columns: with the merged levels where there are some, else nowhere."""
    for merge_rare in (
        0.35,
        0.002,
    ):  # a fresh split: shares of the levels are 0.43, 0.28, 0.22, 0.07
        folder, _, _ = released(columns=None, merge_rare=merge_rare)
        told = json.loads((folder / "recipe.json").read_text())
        job = next(column for column in told["columns"] if column["name"] == "job")
        merged = "job=(other)" in job["inputs"]
        assert merged == (merge_rare == 0.35)
        assert job["values"][-2] == float(merged)
        if merged:
            assert job["inputs"][job["places"][-2]] == "job=(other)"
        unseen = pd.DataFrame({"age": [30.0], "debt": [1.0], "job": ["never seen"]})
        unseen.to_parquet(tmp_path / "unseen.parquet", index=False)
        found = load_model(folder).predict_file(tmp_path / "unseen.parquet")
        assert found.inputs.unknown == {"job": 1}
        shutil.rmtree(folder)


def test_an_odd_value_changes_the_prediction_of_no_other_row_of_a_csv(released, tmp_path):
    """Read as a whole, a word among ages would make a text of all, and 7.0 no 7."""
    rows = applicants()
    rows["job"] = rows["job"].map({"nurse": 1, "cook": 7, "pilot": 12, "pirate": 3})
    rows.to_parquet(tmp_path / "coded.parquet", index=False)
    told = {**TOLD, "job": {"kind": "category", "categories": [1, 7, 12]}}
    for columns in ({"columns": told}, None):
        folder, _, _ = released(data=tmp_path / "coded.parquet", columns=columns)
        model = load_model(folder)
        wanted = model.predict_proba(rows)
        more = rows.astype({"age": object, "job": object, "debt": object})
        more["job"] = more["job"].map(lambda code: f"{code}.0")
        more.loc[len(rows)] = ["unknown", "2020-01-01", "chef", "F", "yes"]
        more.to_csv(tmp_path / "more.csv", index=False)
        found = model.predict_file(tmp_path / "more.csv")
        assert np.abs(found.probabilities[:-1] - wanted).max() <= 1e-6
        assert found.inputs.unknown["age"] >= 1
        assert found.inputs.unknown["job"] >= 1
        shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t.drop(columns="age"), "lack 1 column .*'age'"),
        (lambda t: t.assign(age="old"), "'age' holds no numbers"),
    ],
)
def test_rows_of_another_kind_are_refused(released, change, said):
    with pytest.raises(DataError, match=said):
        load_model(released()[0]).predict_proba(change(applicants()))


def test_what_is_no_frame_is_refused_and_one_without_rows_is_predicted(released):
    folder, _, _ = released()
    model, frame = load_model(folder), applicants()
    assert model.predict(frame.head(0)).shape == (0,)
    for rows in (frame.to_numpy(), pd.concat([frame, frame], axis=1)):
        with pytest.raises(DataError, match="cannot be read"):
            model.predict(rows)


# --- folders that somebody touched
# ---------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(MOST_BYTES))
def test_a_changed_missing_or_huge_file_is_refused(released, monkeypatch, name):
    folder, _, _ = released()
    content = (folder / name).read_bytes()
    place = content.rindex(b"sha256") + 12 if name == "evidence.json" else len(content) // 2
    (folder / name).write_bytes(
        content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
    )
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


HEADER = b'{"w": {"dtype": "F32", "shape": [2147483648, 2147483648], "data_offsets": [0, 0]}}'
HUGE_SHAPE = len(HEADER).to_bytes(8, "little") + HEADER


@pytest.mark.parametrize(
    "content",
    [(2**60).to_bytes(8, "little") + b"{}", HUGE_SHAPE],
    ids=["endless-header", "huge-shape"],
)
def test_hostile_safetensors_are_refused_and_take_no_memory(released, content):
    folder, _, _ = released(columns=None)
    (folder / "model.safetensors").write_bytes(content)
    reseal(folder)
    tracemalloc.start()
    with pytest.raises(DataError):
        load_model(folder)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**27


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
        lambda told: told["columns"][0].update(name="sex"),
        lambda told: told["columns"][2].update(places=[10**9] * 5),
        lambda told: told.update(classes=["a", "b", "c"]),
        lambda told: told.update(classes=["a", "a"]),
        lambda told: told.update(label_type="int64"),
        lambda told: told.update(classes=["1", "01"], label_type="int64"),
        lambda told: told.update(classes=["0", "9" * 30], label_type="int64"),
        lambda told: told["columns"][1].update(name="age"),
        lambda told: told["model"].update(model="cnn"),
        lambda told: told.update(code="import os"),
    ],
)
def test_a_recipe_that_was_changed_with_its_digest_takes_no_memory_and_runs_nothing(
    released, change
):
    folder, _, _ = released()
    told = json.loads((folder / "recipe.json").read_text())
    change(told)
    (folder / "recipe.json").write_text(json.dumps(told))
    reseal(folder)
    with pytest.raises((DataError, ConfigError)):
        load_model(folder).predict_proba(applicants()[["age", "debt", "job"]])


@pytest.mark.parametrize(
    "change",
    [lambda v: v.astype(np.float16), lambda v: v.astype(np.float64), lambda v: v[..., :1].copy()],
)
def test_weights_of_another_type_or_shape_are_refused(released, change):
    folder, _, _ = released()
    tensors = load_file(folder / "model.safetensors")
    save_file({name: change(v) for name, v in tensors.items()}, folder / "model.safetensors")
    reseal(folder)
    with pytest.raises(DataError, match="does not hold what"):
        load_model(folder)


# --- models and data of other kinds
# ----------------------------------------------------------------------


def test_a_model_of_ones_own_travels_as_weights_and_the_name_of_its_code(released, own_model):
    name = "own_release_toy:make"
    folder, choice, trained = released(model=name, wish={"model": name})
    assert set(load_file(folder / "model.safetensors")) == {
        "turn",
        "scale",
        "out.weight",
        "out.bias",
    }
    condition = "established if the module keeps nothing of what it reads"
    assert choice.arm.privacy.guarantee == condition
    assert json.loads((folder / "privacy.json").read_text())["guarantee"] == condition
    assert condition in (folder / "evidence.json").read_text()
    card = (folder / "MODEL_CARD.md").read_text()
    assert "private if the model's own code keeps nothing of what it reads: epsilon" in card
    assert "wrongly accuses" not in card  # no epsilon is established that bounds an attack
    with pytest.raises(ConfigError, match="code that a file alone may not run"):
        load_model(folder)
    with pytest.raises(ConfigError, match="not of 'other:make'"):
        load_model(folder, model="other:make")
    found = load_model(folder, model=name).predict_proba(applicants())
    assert np.abs(found[trained.test] - trained.probabilities).max() <= 1e-6
    own_model.write_text(own_model.read_text() + "# changed\n")
    with pytest.raises(ConfigError, match="is not what was trained"):
        load_model(folder, model=name)


@pytest.mark.parametrize("model", ["cnn", "logistic"])
def test_images_are_predicted_as_they_were_evaluated(model, released, tmp_path):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 80)
    pixels = rng.integers(0, 256, (80, 7, 7), dtype=np.uint8) // (1 + labels)[:, None, None].astype(
        np.uint8
    )
    np.savez(tmp_path / "images.npz", x=pixels, y=labels, sex=rng.integers(0, 2, 80))
    folder, _, trained = released(
        data=tmp_path / "images.npz", label="y", columns=None, model=model, batch_size=20
    )
    found = load_model(folder).predict_file(tmp_path / "images.npz").probabilities
    assert np.abs(found[trained.test] - trained.probabilities).max() <= 1e-6
    with pytest.raises(DataError, match="reads images"):
        load_model(folder).predict_proba(applicants())
    assert json.loads((folder / "privacy.json").read_text())["fitted_without_privacy"] == []


def dressed(rows):
    """The same people in a file of text: percent signs, amounts of money, a word among numbers."""
    debt = [f"${1000 * v:,.2f}" if v == v else "Exempt" for v in rows["debt"]]
    return rows.assign(age=[f"{v:.3f}%" for v in rows["age"]], debt=debt)


@pytest.mark.parametrize("declared", [False, True])
def test_values_are_read_as_they_were_in_training(released, tmp_path, declared):
    dressed(applicants()).to_csv(tmp_path / "raw.csv", index=False)
    columns = None
    if declared:
        told = {**TOLD, "debt": {**TOLD["debt"], "range": [0, 50_000]}}
        told["job"] = {**TOLD["job"], "missing_values": ["pirate"]}
        columns = {"columns": told}
    folder, _, trained = released(
        data=tmp_path / "raw.csv",
        columns=columns,
        number_format=["point"],
        missing_values=["Exempt", *(() if declared else ("job=pirate",))],
    )
    clean = applicants()
    clean = clean.assign(debt=(1000 * clean["debt"]).round(2), age=clean["age"].round(3))
    clean["job"] = clean["job"].where(clean["job"] != "pirate", None)
    model = load_model(folder)
    of_file = model.predict_file(tmp_path / "raw.csv")
    assert np.abs(of_file.probabilities - model.predict_proba(clean)).max() <= 1e-6
    assert np.abs(of_file.probabilities[trained.test] - trained.probabilities).max() <= 1e-6
    assert of_file.inputs.missing["debt"] == clean["debt"].isna().sum()
    assert of_file.inputs.missing["job"] == clean["job"].isna().sum()
    assert set(map(type, of_file.inputs.unknown.values())) <= {int}
    assert "debt" not in of_file.inputs.unknown or declared
