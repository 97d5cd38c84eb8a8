"""Images through everything that knows tables.

Labels, groups, splits, duplicates, inputs, inspection.
"""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pictures import encoded, metadata_folder, metadata_rows, pixels

from fairaudit.config.options import AuditConfig
from fairaudit.data.dataset import Grouping, image_column, image_keys
from fairaudit.data.groups import NamedPair, named_pairs
from fairaudit.data.inputs.encode import make_encoder
from fairaudit.data.inputs.split import draw_split
from fairaudit.data.tabular import load_dataset
from fairaudit.errors import ConfigError, DataError

N = 40
IMAGES = pixels(N)


@pytest.fixture
def image_folder(tmp_path):
    return metadata_folder(tmp_path / "pictures", IMAGES)


def config(data, **options):
    return AuditConfig(data=data, **{"group": ("style",), **options})


# The column


def test_a_slice_of_images_has_the_keys_of_its_own_rows():
    images = pixels(8, side=2, seed=1) // 128  # few different ones
    keys = image_keys(image_column(images).slice(2, 5)).to_pylist()
    expected = [image.tobytes() for image in images[2:7]]
    assert len(set(zip(keys, expected, strict=True))) == len(set(keys)) == len(set(expected)) > 1


# The encoder


# Pairs named in advance


def test_a_pair_is_found_in_the_first_grouping_that_has_both(image_folder):
    dataset = load_dataset(config(image_folder, group_by_label=True, compare=("dog,cat", "a, b")))
    pairs = named_pairs(("dog,cat", "a, b"), dataset.groupings)
    assert [(p.grouping, p.a, p.b) for p in pairs] == [("label", "dog", "cat"), ("style", "a", "b")]
    commas = Grouping("g", dataset.labels, ("c,d", "a"))
    assert named_pairs(["c,d,a"], [commas]) == (NamedPair("g", "c,d", "a"),)
    assert dataset.groupings[1].groups.tolist() == dataset.labels.tolist()


@pytest.mark.parametrize(
    ("pair", "hint"), [("a,a", "two groups of one grouping"), ("a,bb", "did you mean 'b'")]
)
def test_a_pair_of_no_grouping_is_refused_before_training(image_folder, pair, hint):
    with pytest.raises(ConfigError, match="does not name two groups") as caught:
        load_dataset(config(image_folder, group_by_label=True, compare=(pair,)))
    assert hint in caught.value.hint


# Duplicates, constants, inspection


def test_an_image_that_repeats_another_is_counted(image_folder):
    for name in ("0003.png", "0005.png"):
        (image_folder / name).write_bytes(encoded(IMAGES[1]))
    dataset = load_dataset(config(image_folder, group=()))
    assert dataset.duplicate_rows == 2
    assert dataset.duplicate_of[[3, 5]].tolist() == [1, 1]
    grouped = load_dataset(config(image_folder))  # one of the two is of another style
    assert grouped.duplicate_rows == 1


def test_one_layout_is_as_good_as_another(tmp_path, image_folder):
    """The same images as a folder, as parquet and as npz give the same inputs."""
    rows = metadata_rows(N)
    more = {name: [row[name] for row in rows] for name in ("label", "style")}
    files = [encoded(image) for image in IMAGES]
    structs = [{"bytes": file, "path": None} for file in files]
    columns = {
        "files": files,
        "large": pa.array(files, pa.large_binary()),  # as Polars writes them
        "structs": structs,
    }
    for name, column in columns.items():
        pq.write_table(pa.table({"picture": column, **more}), tmp_path / f"{name}.parquet")
    np.savez(tmp_path / "d.npz", picture=IMAGES, **more)
    found = []
    for data in (
        image_folder,
        *(tmp_path / f"{name}.parquet" for name in columns),
        tmp_path / "d.npz",
    ):
        settled = config(data)
        dataset = load_dataset(settled)
        encoded_rows = make_encoder(dataset, settled.encoding).encode(
            draw_split(dataset, settled.split, 3)
        )
        found.append((encoded_rows.train, encoded_rows.test, dataset.labels))
    for other in found[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(found[0], other, strict=True))


def test_a_parquet_file_with_two_columns_of_images_or_a_damaged_one_is_refused(tmp_path):
    columns = {"a": [encoded(image) for image in IMAGES], "label": ["x", "y"] * (N // 2)}
    path = tmp_path / "d.parquet"
    pq.write_table(pa.table({**columns, "b": columns["a"]}), path)
    with pytest.raises(DataError, match=r"several columns of d\.parquet hold images: 'a', 'b'"):
        load_dataset(config(path, group=()))
    assert load_dataset(config(path, group=(), drop=("b",))).image_shape == (6, 6, 1)
    columns["a"][3] = None
    pq.write_table(pa.table(columns), path)
    with pytest.raises(DataError, match="image 'row 4' is damaged"):
        load_dataset(config(path, group=()))
