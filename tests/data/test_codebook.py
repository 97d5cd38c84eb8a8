"""Rows read by what an audit found: the same rows as the audit's, and each of them by itself."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from neighbours import ROWS, TOLD, images_of, neighbour_rows, neighbours_of_images
from pictures import encoded, metadata_folder

from fairaudit.config.options import AuditConfig
from fairaudit.data.codebook import Codebook, KnownGroups, read_by
from fairaudit.data.column_types import kind_of
from fairaudit.data.dataset import pixels_of
from fairaudit.data.tabular import load_dataset
from fairaudit.errors import DataError


def codebook_of(dataset):
    """What the audit of these data would tell."""
    fields = dataset.features.schema
    return Codebook(
        label=dataset.label,
        classes=dataset.classes,
        positive=dataset.positive_class,
        favourable=dataset.favourable_class,
        groupings=tuple(KnownGroups(g.name, g.names, g.missing) for g in dataset.groupings),
        features={
            field.name: () if kind_of(field.type) == "category" else None for field in fields
        },
        shape=dataset.image_shape,
    )


def gappy(frame):
    """Rows without a label, a group, a side, in a word of a CSV for a missing value."""
    frame = frame.astype({"sex": object, "y": object, "owner": object})
    frame.loc[3:9, "sex"] = None
    frame.loc[7:12, "y"] = None
    frame.loc[20:22, "owner"] = None
    return frame


OPTIONS = {
    "plain": {"group": ("sex",)},
    "declared": {"group": ("sex",), "columns": {"columns": TOLD}},
    "two, crossed": {"group": ("sex", "owner"), "intersect": True},
    "a feature, too": {"group": ("owner", "job"), "group_as_feature": True},
    "numbers as groups": {"group": ("code",)},
    "bins": {"group": ("height", "sex"), "bin": {"height": "160,170.5"}},
    "contrast": {"group": ("job", "code"), "contrast": {"job": "cook", "code": "1"}},
    "the label as groups": {"group": ("sex",), "group_by_label": True, "intersect": True},
    "dropped gaps": {"group": ("sex", "owner"), "missing": "drop", "drop": ("height",)},
    "a split": {"group": ("sex",), "split_column": "part"},
}


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("label", [("no", "yes"), (0, 1, 2), (False, True), (0.5, 1.0)], ids=str)
@pytest.mark.parametrize("kind", ["csv", "parquet", "feather"])
def test_the_audited_rows_are_read_as_the_audit_read_them(tmp_path, name, label, kind):
    frame = gappy(neighbour_rows(label=label))
    path = tmp_path / f"t.{kind}"
    if kind == "csv":
        frame.to_csv(path, index=False)
    else:
        getattr(frame, f"to_{kind}")(path)
    config = AuditConfig(data=path, label="y", **OPTIONS[name])
    audited = load_dataset(config)
    found = read_by(codebook_of(audited), config)
    assert found.n_rows < found.rows_read == ROWS
    assert found.labels.tolist() == audited.labels.tolist()
    for ours, theirs in zip(found.groupings, audited.groupings, strict=True):
        assert ours.names == theirs.names
        assert ours.groups.tolist() == theirs.groups.tolist()
    assert (found.split is None) == (audited.split is None)
    if found.split is not None:
        assert found.split.tolist() == audited.split.tolist()
    for column in audited.features.column_names:
        values = found.features[column].to_pylist()
        wanted = audited.features[column].to_pylist()
        if column == "owner" and column not in config.declared:  # told apart as text or as truth
            wanted = [None if value is None else str(value).lower() for value in wanted]
            values = [None if value is None else value.lower() for value in values]
        assert values == wanted
    assert (found.positive, found.favourable) == (audited.positive, audited.favourable)
    assert found.digest == audited.digest
    assert found.declared == audited.declared


def test_what_a_row_has_no_place_for_leaves_it_out_and_no_other(tmp_path):
    frame = neighbour_rows()
    path = tmp_path / "t.csv"
    frame.to_csv(path, index=False)
    config = AuditConfig(data=path, label="y", group=("sex", "job"), split_column="part")
    codebook = codebook_of(load_dataset(config))
    for place, (column, odd) in enumerate(
        (("y", "perhaps"), ("sex", "X"), ("sex", ""), ("job", "judge"), ("part", "banana"))
    ):
        frame.loc[10 * place, column] = odd
    frame.loc[200, "part"] = " TEST "
    text = frame.to_csv(index=False).splitlines()
    text[100:100] = ['1,2,"3', "1,2", "1," * 30]
    path.write_text("\n".join(text))
    found = read_by(codebook, config)
    assert (found.n_rows, found.rows_read) == (ROWS - 5, ROWS + 3)
    kept = frame.drop(index=[0, 10, 20, 30, 40])
    assert found.features["age"].to_pylist() == kept["age"].tolist()
    assert found.split.tolist() == (kept["part"].str.strip().str.lower() == "test").tolist()


def test_a_group_that_nobody_knows_joins_the_rows_without_one_where_there_are_some(tmp_path):
    path = tmp_path / "t.csv"
    frame = gappy(neighbour_rows())
    frame.to_csv(path, index=False)
    config = AuditConfig(data=path, label="y", group=("sex",))
    codebook = codebook_of(load_dataset(config))
    frame.loc[100, "sex"] = "X"
    frame.to_csv(path, index=False)
    found = read_by(codebook, config)
    (grouping,) = found.groupings
    assert grouping.names[grouping.missing] == "(missing)"
    rows = np.flatnonzero(frame["y"].notna())
    assert rows[grouping.groups == grouping.missing].tolist() == [3, 4, 5, 6, 100]


def test_images_that_cannot_be_used_are_left_out_and_colour_becomes_grey(tmp_path):
    found = neighbours_of_images(30, tmp_path)
    config = AuditConfig(data=found["itself"], group=("style",), label="label")
    audited = load_dataset(config)
    codebook = codebook_of(audited)
    usable = {"itself", "in colour", "see-through", "of a palette"}
    for name, path in found.items():
        data = read_by(codebook, config.model_copy(update={"data": path}))
        assert data.image_shape == (6, 6, 1)
        assert data.n_rows == 29 + (name in usable or name == "a quote"), name
    resized = config.model_copy(update={"resize": "4x4", "data": found["large"]})
    known = codebook_of(load_dataset(resized.model_copy(update={"data": found["itself"]})))
    assert read_by(known, resized).image_shape == (4, 4, 1)
    assert read_by(known, resized).n_rows == 30


def test_no_path_of_the_metadata_leads_out_of_the_folder(tmp_path):
    path = metadata_folder(tmp_path / "images", images_of(8))
    metadata_folder(tmp_path / "elsewhere", images_of(8, seed=1))
    config = AuditConfig(data=path, group=("style",), label="label")
    codebook = codebook_of(load_dataset(config))
    metadata = (path / "metadata.csv").read_text()
    changed = metadata.replace("0007.png", "../elsewhere/0007.png")
    (path / "metadata.csv").write_text(
        changed.replace("0006.png", str(path.parent / "elsewhere/0006.png"))
    )
    assert read_by(codebook, config).n_rows == 6


def test_labels_and_groups_of_an_archive_mean_the_same_in_every_type(tmp_path):
    pixels, path = images_of(12), tmp_path / "t.npz"
    labels, groups = np.arange(12) % 2, np.arange(12) // 2 % 3
    np.savez(path, x=pixels, y=labels, g=groups)
    config = AuditConfig(data=path, group=("g",), label="y")
    codebook = codebook_of(load_dataset(config))
    texts = np.array([*map(str, labels[:11]), "1.50"])
    for y, n_rows in (
        (labels.astype(float), 12),
        (labels > 0, 12),
        (texts, 11),
        (texts.astype("S"), 11),
    ):
        np.savez(path, x=pixels, y=y, g=groups.astype(str))
        found = read_by(codebook, config)
        if y.dtype == bool:  # truth values are no numbers
            assert found.n_rows == 0
        else:
            assert found.labels.tolist() == labels[:n_rows].tolist()
            assert found.groupings[0].groups.tolist() == groups[:n_rows].tolist()
    np.savez(path, x=images_of(12)[:, :5], y=labels, g=groups)
    with pytest.raises(DataError, match=r"column 'x' of t\.npz holds"):
        read_by(codebook, config)


def test_images_in_a_table_are_found_by_name_whatever_the_first_row_holds(tmp_path):
    """An audit looks at the first value to tell whether a column holds images."""
    images, path = [encoded(image) for image in images_of(12)], tmp_path / "t.parquet"
    rows = {"x": images, "y": ["a", "b"] * 6, "g": ["c", "c", "d", "d"] * 3}
    pq.write_table(pa.table(rows), path)
    config = AuditConfig(data=path, group=("g",), label="y")
    codebook = codebook_of(load_dataset(config))
    wanted = read_by(codebook, config)
    assert wanted.n_rows == 12
    for odd in (None, b"no image", b""):
        pq.write_table(pa.table({**rows, "x": [odd, *images[1:]]}), path)
        found = read_by(codebook, config)
        assert found.labels.tolist() == wanted.labels.tolist()[1:]
        assert (pixels_of(found.features["x"]) == pixels_of(wanted.features["x"])[1:]).all()


def test_a_quote_that_a_part_leaves_open_ends_with_its_line(tmp_path):
    lines, folder = neighbour_rows().to_csv(index=False).splitlines(), tmp_path / "parts"
    folder.mkdir()
    (folder / "a.csv").write_text("\n".join(lines[:100]))
    (folder / "b.csv").write_text("\n".join([lines[0], *lines[100:]]))
    config = AuditConfig(data=folder, label="y", group=("sex",))
    codebook = codebook_of(load_dataset(config))
    (folder / "a.csv").write_text("\n".join([*lines[:100], '1,"2']))
    found = read_by(codebook, config)
    assert (found.n_rows, found.rows_read) == (ROWS, ROWS + 1)


def test_a_file_of_other_columns_or_kinds_is_refused_with_their_names(tmp_path):
    path = tmp_path / "t.parquet"
    frame = neighbour_rows()
    frame.to_parquet(path, index=False)
    config = AuditConfig(data=path, label="y", group=("sex",))
    codebook = codebook_of(load_dataset(config))
    frame.drop(columns="age").to_parquet(path, index=False)
    with pytest.raises(DataError, match="lacks columns of the audit: 'age'"):
        read_by(codebook, config)
    dated = frame.assign(age=np.datetime64("2020-01-01"))
    dated.to_parquet(path, index=False)
    with pytest.raises(DataError, match=r"column 'age' of t\.parquet holds timestamp"):
        read_by(codebook, config)
