import shutil

import numpy as np
import pytest
from pictures import metadata_folder, metadata_rows, pixels, save, write_metadata
from refusals import refused_in_one_line

from fairaudit.config.options import AuditConfig
from fairaudit.data.dataset import pixels_of
from fairaudit.data.reading.folder import open_folder
from fairaudit.data.reading.images import ImageOptions
from fairaudit.data.tabular import load_dataset
from fairaudit.errors import DataError

IMAGES = pixels(12)


def read(root):
    source = open_folder(root, ImageOptions())
    return source.read(source.schema.names)[0]


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


def test_the_digest_is_of_names_and_contents_whatever_the_order_of_writing(tmp_path):
    root = metadata_folder(tmp_path / "a", IMAGES)
    first = open_folder(root, ImageOptions()).digest()
    shutil.copytree(root, tmp_path / "b")
    assert open_folder(tmp_path / "b", ImageOptions()).digest() == first
    save(IMAGES[1], tmp_path / "b" / "0000.png")
    assert open_folder(tmp_path / "b", ImageOptions()).digest() != first
    write_metadata(root, [{**row, "style": "a"} for row in metadata_rows(12)])
    assert open_folder(root, ImageOptions()).digest() != first


def named(name):
    """A metadata folder whose third row names another path."""

    def change(root):
        rows = metadata_rows(12)
        rows[2]["file_name"] = name
        write_metadata(metadata_folder(root, IMAGES), rows)

    return change


def test_a_linked_image_counts_and_a_linked_folder_is_not_entered(tmp_path):
    root = metadata_folder(tmp_path / "a", IMAGES)
    (root / "link.png").symlink_to(root / "0000.png")
    (root / "more").symlink_to(metadata_folder(tmp_path / "b", IMAGES))
    (root / ".hidden.png").write_bytes(b"x")
    (root / "notes.txt").write_text("x")
    (said,) = open_folder(root, ImageOptions()).notices
    assert said.text.startswith("1 image left out")
    write_metadata(root, [{**metadata_rows(1)[0], "file_name": "link.png"}] * 2)
    assert np.array_equal(pixels_of(read(root).column("image")), IMAGES[[0, 0]])


@pytest.mark.parametrize("name", ["gone.png", "../secret.png", "/etc/hostname", ""])
def test_metadata_name_images_of_the_folder_alone(tmp_path, name):
    save(IMAGES[0], tmp_path / "secret.png")
    named(name)(tmp_path / "root")
    with pytest.raises(DataError, match="no images of the folder"):
        open_folder(tmp_path / "root", ImageOptions())


BAD = {
    "an empty folder": (lambda root: root.mkdir(), "without tables and without images"),
    "images beside no metadata": (
        lambda root: save(IMAGES[0], root / "0.png"),
        "without tables and without images",
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
    with refused_in_one_line(DataError, message):
        load_dataset(AuditConfig(data=root, group_by_label=True))
