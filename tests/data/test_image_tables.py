import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from pictures import encoded, pixels

from fairaudit.config.options import AuditConfig
from fairaudit.data.dataset import pixels_of
from fairaudit.data.tabular import load_dataset
from fairaudit.errors import DataError

N = 12
GREY, COLOUR = pixels(N), pixels(N, channels=3)
REST = {"label": [i % 2 for i in range(N)], "g": ["ab"[i // 2 % 2] for i in range(N)]}


def table(image, **more):
    return pa.table({"image": image, **REST, **more})


def files(images, kind="PNG"):
    return [encoded(image, kind) for image in images]


def structs(images):
    return [{"bytes": content, "path": f"{n}.png"} for n, content in enumerate(files(images))]


def tensor(images):
    return pa.ExtensionArray.from_storage(
        pa.fixed_shape_tensor(pa.uint8(), images.shape[1:]),
        pa.array([image.ravel() for image in images], pa.list_(pa.uint8(), images[0].size)),
    )


FORMS = {
    "PNG bytes": (lambda: table(files(GREY)), GREY),
    "a struct": (lambda: table(structs(GREY)), GREY),
    "tensors": (lambda: table(tensor(GREY)), GREY),
    "flat tensors": (lambda: table(tensor(GREY[..., 0])), GREY),
}


def load(path, **options):
    return load_dataset(AuditConfig(data=path, **{"group": ("g",), **options}))


def save(made, path, **options):
    if path.suffix == ".feather":
        feather.write_feather(made, path)
    else:
        pq.write_table(made, path, **options)
    return path


@pytest.mark.parametrize("suffix", ["parquet", "feather"])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_pixels(tmp_path, form, suffix):
    make, images = FORMS[form]
    dataset = load(save(make(), tmp_path / f"d.{suffix}"))
    assert np.array_equal(pixels_of(dataset.features.column("image")), images)
    assert dataset.features.column_names == ["image"]
    assert dataset.image_shape == images.shape[1:]


@pytest.mark.parametrize("form", ["PNG bytes", "tensors"])
def test_several_row_groups_and_files_are_one_column(tmp_path, form):
    made = FORMS[form][0]()
    save(made.slice(0, 5), tmp_path / "a.parquet", row_group_size=2)
    save(made.slice(5), tmp_path / "b.parquet", row_group_size=3)
    assert np.array_equal(pixels_of(load(tmp_path).features.column("image")), GREY)


def test_columns_beside_the_images_are_named_and_left_out(tmp_path):
    dataset = load(save(table(tensor(GREY), age=list(range(N))), tmp_path / "d.parquet"))
    assert dataset.dropped_columns == {"age": "beside the images"}
    assert any("beside the images: 'age'" in n.message for n in dataset.notices)


def test_a_null_is_an_image_that_cannot_be_read(tmp_path):
    path = save(table([None, *files(GREY)[1:]]), tmp_path / "d.parquet")
    with pytest.raises(DataError, match=r"'row 1' is missing"):
        load(path)
    assert load(path, skip_bad_images=True).n_rows == N - 1


def test_a_broken_struct_is_named_by_its_path(tmp_path):
    broken = structs(GREY)
    broken[3] = {"bytes": b"SECRET", "path": "folder/3.png"}
    with pytest.raises(DataError, match=r"'3.png' is damaged") as caught:
        load(save(table(broken), tmp_path / "d.parquet"))
    assert "SECRET" not in str(caught.value)


BAD = {
    "two columns of images": (
        lambda: table(files(GREY), mask=files(GREY)),
        "several columns of d.parquet hold images: 'image', 'mask'",
    ),
    "channels first": (
        lambda: table(tensor(COLOUR.transpose(0, 3, 1, 2))),
        "is not the shape",
    ),
    "a missing image": (
        lambda: table(pa.concat_arrays([tensor(GREY[1:]), pa.nulls(1, tensor(GREY).type)])),
        "1 row of column",
    ),
    "several sizes": (
        lambda: table(files([*GREY[:5], GREY[5, :3], *GREY[6:]])),
        "'row 6' is 3 x 6",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_images_in_a_table_that_cannot_be_read_are_one_clear_line(tmp_path, case):
    make, message = BAD[case]
    with pytest.raises(DataError) as caught:
        load(save(make(), tmp_path / "d.parquet"))
    assert message in caught.value.message
    assert "\n" not in caught.value.message + caught.value.hint
