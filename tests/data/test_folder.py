import os
import shutil

import numpy as np
import pytest
from pictures import class_folder, metadata_folder, metadata_rows, pixels, save, write_metadata

from fairaudit.config.options import AuditConfig
from fairaudit.data.dataset import pixels_of
from fairaudit.data.decode import ImageOptions
from fairaudit.data.folder import open_folder
from fairaudit.data.tabular import load_dataset
from fairaudit.errors import DataError

IMAGES = pixels(12)


def read(root):
    source = open_folder(root, ImageOptions())
    return source.read(source.schema.names)[0]


def test_a_folder_per_class_gives_every_image_and_its_class(tmp_path):
    table = read(class_folder(tmp_path, IMAGES))
    assert table.column_names == ["label", "image"]
    assert table.column("label").to_pylist() == ["cat"] * 6 + ["dog"] * 6
    assert np.array_equal(
        pixels_of(table.column("image")), np.concatenate([IMAGES[::2], IMAGES[1::2]])
    )


def test_metadata_name_the_images_in_their_own_order(tmp_path):
    root = metadata_folder(tmp_path, IMAGES)
    save(IMAGES[0], root / "extra.png")  # without a row
    source = open_folder(root, ImageOptions())
    assert (source.declared, source.declared_by) == ({"label": "label"}, "declared in metadata.csv")
    assert [n.code for n in source.notices] == ["images_not_listed"]
    table = read(root)
    rows = metadata_rows(12)
    assert table.column("style").to_pylist() == [row["style"] for row in rows]
    assert np.array_equal(pixels_of(table.column("image")), IMAGES)
    write_metadata(root, rows[::-1])
    assert np.array_equal(pixels_of(read(root).column("image")), IMAGES[::-1])


def test_train_and_test_folders_are_the_split(tmp_path):
    class_folder(tmp_path / "train", IMAGES[:8])
    class_folder(tmp_path / "test", IMAGES[8:])
    dataset = load_dataset(AuditConfig(data=tmp_path, split_column="split", group_by_label=True))
    assert np.bincount(dataset.split).tolist() == [8, 4]
    assert {
        tuple(i.ravel()) for i in pixels_of(dataset.features.column("image"))[dataset.split == 0]
    } == {tuple(i.ravel()) for i in IMAGES[:8]}


def test_the_digest_is_of_names_and_contents_whatever_the_order_of_writing(tmp_path):
    first = open_folder(class_folder(tmp_path / "a", IMAGES), ImageOptions()).digest()
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    assert open_folder(tmp_path / "b", ImageOptions()).digest() == first
    os.rename(tmp_path / "b" / "cat" / "0000.png", tmp_path / "b" / "cat" / "9999.png")
    assert open_folder(tmp_path / "b", ImageOptions()).digest() != first
    save(IMAGES[1], tmp_path / "a" / "cat" / "0000.png")
    assert open_folder(tmp_path / "a", ImageOptions()).digest() != first
    root = metadata_folder(tmp_path / "c", IMAGES)
    before = open_folder(root, ImageOptions()).digest()
    write_metadata(root, [{**row, "style": "a"} for row in metadata_rows(12)])
    assert open_folder(root, ImageOptions()).digest() != before


def named(name):
    """A metadata folder whose third row names another path."""

    def change(root):
        rows = metadata_rows(12)
        rows[2]["file_name"] = name
        write_metadata(metadata_folder(root, IMAGES), rows)

    return change


def test_a_linked_image_counts_and_a_linked_folder_is_not_entered(tmp_path):
    root = class_folder(tmp_path / "a", IMAGES)
    (root / "dog" / "link.png").symlink_to(root / "cat" / "0000.png")
    (root / "bird").symlink_to(class_folder(tmp_path / "b", IMAGES))
    (root / "cat" / ".hidden.png").write_bytes(b"x")
    (root / "cat" / "notes.txt").write_text("x")
    source = open_folder(root, ImageOptions())
    assert len(source.files) == 13
    assert [n.code for n in source.notices] == ["other_files"]


@pytest.mark.parametrize("name", ["gone.png", "../secret.png", "/etc/hostname", ""])
def test_metadata_name_images_of_the_folder_alone(tmp_path, name):
    save(IMAGES[0], tmp_path / "secret.png")
    named(name)(tmp_path / "root")
    with pytest.raises(DataError, match="no images of the folder"):
        open_folder(tmp_path / "root", ImageOptions())


BAD = {
    "an empty folder": (
        lambda root: root.mkdir(),
        "without tables and without images",
    ),
    "images beside no metadata": (
        lambda root: save(IMAGES[0], root / "0.png"),
        "no folder of a class",
    ),
    "metadata without file_name": (
        lambda root: write_metadata(
            metadata_folder(root, IMAGES), [{"filename": "0000.png", "label": "cat"}]
        ),
        "has no column 'file_name'",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_folder_that_cannot_be_audited_is_one_clear_line(tmp_path, case):
    make, message = BAD[case]
    root = tmp_path / "pictures"
    make(root)
    with pytest.raises(DataError) as caught:
        load_dataset(AuditConfig(data=root, group_by_label=True))
    assert message in caught.value.message
    assert "\n" not in caught.value.message + caught.value.hint
