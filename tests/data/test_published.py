"""Images as their authors publish them, and MNIST in every form by the preset's command."""

import gzip
import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from fairaudit.config.options import AuditConfig
from fairaudit.config.presets import find_preset
from fairaudit.data.dataset import pixels_of
from fairaudit.data.reading.images import ImageOptions
from fairaudit.data.reading.open import open_alone
from fairaudit.data.tabular import load_dataset
from fairaudit.errors import DataError

RNG = np.random.default_rng(3)
N, TRAIN = 60, 40
PIXELS = RNG.integers(0, 256, (N, 28, 28), dtype=np.uint8)
LABELS = np.tile(np.arange(10, dtype=np.uint8), 6)
SIDES = np.repeat(["train", "test"], [TRAIN, N - TRAIN])


def idx(array):
    """An array of bytes as an IDX file, by its definition."""
    head = bytes((0, 0, 8, array.ndim))
    return head + b"".join(side.to_bytes(4, "big") for side in array.shape) + array.tobytes()


def write_idx(folder, *, names="{}-{}-idx{}-ubyte", packed=False, sides=("train", "t10k")):
    folder.mkdir(exist_ok=True)
    cut = {"train": slice(0, TRAIN), "t10k": slice(TRAIN, N)}
    for side in sides:
        for what, array in (("images", PIXELS), ("labels", LABELS)):
            part = array[cut[side]]
            name, content = names.format(side, what, part.ndim), idx(part)
            if packed:
                name, content = f"{name}.gz", gzip.compress(content)
            (folder / name).write_bytes(content)
    return folder


def png(pixels):
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    return stream.getvalue()


def hugging_face(folder):
    folder.mkdir()
    for side in ("train", "test"):
        rows = side == SIDES
        images = [{"bytes": png(one), "path": None} for one in PIXELS[rows]]
        table = pa.table({"image": images, "label": LABELS[rows].astype(np.int64)})
        pq.write_table(table, folder / f"{side}-00000-of-00001.parquet")
    return folder


def one_file(path, columns):
    own = {"label": LABELS.astype(np.int64), "split": SIDES}
    pq.write_table(pa.table({**columns, **own}), path)
    return path


def columns_of_pixels():
    flat = PIXELS.reshape(N, -1)
    return {f"pixel{place}": flat[:, place].astype(np.int64) for place in range(784)}


FORMS = {
    "idx": lambda at: write_idx(at / "mnist"),
    "idx.gz": lambda at: write_idx(at / "mnist", packed=True),
    "kaggle's idx": lambda at: write_idx(at / "mnist", names="{}-{}.idx{}-ubyte"),
    "hugging face": lambda at: hugging_face(at / "mnist"),
    "bytes": lambda at: one_file(
        at / "mnist.parquet", {"image": [one.tobytes() for one in PIXELS]}
    ),
    "lists": lambda at: one_file(
        at / "mnist.parquet", {"image": [one.ravel().tolist() for one in PIXELS.astype(int)]}
    ),
    "pixel columns": lambda at: one_file(at / "mnist.parquet", columns_of_pixels()),
    "keras": lambda at: keras(at / "mnist.npz"),
}


def keras(path):
    np.savez(
        path,
        x_train=PIXELS[:TRAIN],
        y_train=LABELS[:TRAIN],
        x_test=PIXELS[TRAIN:],
        y_test=LABELS[TRAIN:],
    )
    return path


@pytest.mark.parametrize("form", FORMS)
def test_the_mnist_preset_reads_every_form_of_its_files(form, tmp_path):
    fields = {**find_preset("esipova-mnist").fields, "keep": {}}
    config = AuditConfig.model_validate({"data": FORMS[form](tmp_path), **fields})
    found = load_dataset(config)
    (name,) = found.features.column_names
    # Files are read in the order of their names, test before train.
    order = np.argsort(found.split, kind="stable")
    pixels = pixels_of(found.features.column(name))[..., 0]
    assert np.array_equal(pixels[order], PIXELS)
    assert found.labels[order].tolist() == LABELS.tolist()
    assert found.split[order].tolist() == (SIDES == "test").astype(int).tolist()
    assert found.groupings[0].names == tuple("0123456789")


def test_where_a_split_is_not_asked_for_its_use_is_offered(tmp_path):
    for path in (write_idx(tmp_path / "a"), hugging_face(tmp_path / "b")):
        found = load_dataset(AuditConfig(data=path, group_by_label=True))
        (notice,) = [n for n in found.notices if n.code == "columns_dropped"]
        assert "--split-column split" in notice.fix
        assert found.split is None


def test_one_side_alone_is_read_without_a_split(tmp_path):
    found = load_dataset(
        AuditConfig(data=write_idx(tmp_path / "a", sides=("train",)), group_by_label=True)
    )
    assert len(found.labels) == TRAIN


def test_rows_alone_are_the_same(tmp_path):
    for form in ("idx", "hugging face"):
        folder = tmp_path / form
        folder.mkdir()
        path = FORMS[form](folder)
        options = ImageOptions.known((28, 28, 1), resized=False, pixels="28x28")
        stored = open_alone(path, options, "image", ["image", "label", "split"]).stored(
            ["label", "split", "image"]
        )
        sides = np.array(stored.table.column("split").to_pylist())
        order = np.argsort(sides == "test", kind="stable")
        assert sides[order].tolist() == SIDES.tolist()
        pixels = pixels_of(stored.table.column("image"))[..., 0]
        assert np.array_equal(pixels[order], PIXELS)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda a: a[:-1], "is damaged"),
        (lambda a: a + b"x", "is damaged"),
        (lambda a: b"\x00\x00\x0d" + a[3:], "no IDX file"),
        (lambda a: b"", "no IDX file"),
        (lambda a: a[:4] + b"\xff" * 12, "larger|take|more than"),
    ],
)
def test_a_damaged_file_is_refused_by_its_name(change, said, tmp_path):
    folder = write_idx(tmp_path / "a")
    path = folder / "train-images-idx3-ubyte"
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(DataError, match=said):
        load_dataset(AuditConfig(data=folder, group_by_label=True))


def test_a_folder_that_lacks_a_file_or_holds_two_sets_is_refused(tmp_path):
    folder = write_idx(tmp_path / "a")
    (folder / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(DataError, match="the test side, not both"):
        load_dataset(AuditConfig(data=folder, group_by_label=True))
    both = write_idx(tmp_path / "b", names="emnist-digits-{}-{}-idx{}-ubyte")
    assert len(load_dataset(AuditConfig(data=both, group_by_label=True)).labels) == N
    write_idx(both, names="emnist-letters-{}-{}-idx{}-ubyte")
    with pytest.raises(DataError, match="several sets"):
        load_dataset(AuditConfig(data=both, group_by_label=True))


# --- CelebA

FACES = 12
MALE, GLASSES = np.tile([1, -1], 6), np.repeat([1, -1, 1], 4)
PARTS = np.array([0] * 6 + [1] * 2 + [2] * 4)


def celeba(folder, ending, *, nested=True, partition=True):
    images = folder / "img_align_celeba" / ("img_align_celeba" if nested else "")
    images.mkdir(parents=True)
    ids = [f"{place:06}.jpg" for place in range(1, FACES + 1)]
    for place, name in enumerate(ids):
        Image.fromarray(np.full((20, 16, 3), 20 * place, np.uint8)).save(images / name, "JPEG")
    rows = list(zip(ids, MALE, GLASSES, PARTS, strict=True))
    if ending == ".csv":
        listed = ["image_id,Male,Eyeglasses", *(f"{i},{m},{g}" for i, m, g, _ in rows)]
        parts = ["image_id,partition", *(f"{i},{p}" for i, _, _, p in rows)]
    else:
        listed = [str(FACES), "Male Eyeglasses", *(f"{i} {m:2d} {g:2d}" for i, m, g, _ in rows)]
        parts = [f"{i} {p}" for i, _, _, p in rows]
    (folder / f"list_attr_celeba{ending}").write_text("\n".join(listed) + "\n")
    if partition:
        (folder / f"list_eval_partition{ending}").write_text("\n".join(parts) + "\n")
    return folder


@pytest.mark.parametrize("nested", [True, False])
@pytest.mark.parametrize("ending", [".csv", ".txt"])
def test_the_celeba_preset_reads_its_folder(ending, nested, tmp_path):
    fields = find_preset("esipova-celeba").fields
    data = celeba(tmp_path / "celeba", ending, nested=nested)
    found = load_dataset(AuditConfig.model_validate({"data": data, **fields}))
    kept = PARTS != 1
    assert found.split.tolist() == (PARTS[kept] == 2).astype(int).tolist()
    assert [found.classes[k] for k in found.labels] == [str(m) for m in MALE[kept]]
    (grouping,) = found.groupings
    assert [grouping.names[k] for k in grouping.groups] == [str(g) for g in GLASSES[kept]]
    pixels = pixels_of(found.features.column("image"))
    assert pixels.shape == (10, 64, 64, 3)
    assert [round(float(one.mean()) / 20) for one in pixels] == np.flatnonzero(kept).tolist()
    assert any("validation" in notice.text for notice in found.notices)


def test_without_a_partition_every_image_is_read(tmp_path):
    data = celeba(tmp_path / "celeba", ".csv", partition=False)
    found = load_dataset(AuditConfig(data=data, label="Male", group=("Eyeglasses",)))
    assert len(found.labels) == FACES


def test_a_missing_image_and_a_damaged_list_are_refused(tmp_path):
    data = celeba(tmp_path / "celeba", ".csv")
    (data / "img_align_celeba" / "img_align_celeba" / "000003.jpg").unlink()
    with pytest.raises(DataError, match=r"000003\.jpg"):
        load_dataset(AuditConfig(data=data, label="Male", group=("Eyeglasses",)))
    (data / "list_attr_celeba.csv").write_text("image_id,Male\n000001.jpg\n")
    with pytest.raises(DataError, match="is not one of CelebA's lists"):
        load_dataset(AuditConfig(data=data, label="Male", group=("Eyeglasses",)))


def test_what_is_read_decides_the_digest(tmp_path):
    first = load_dataset(
        AuditConfig(data=celeba(tmp_path / "a", ".csv"), label="Male", group=("Eyeglasses",))
    ).digest
    other = celeba(tmp_path / "b", ".csv")
    path = other / "list_eval_partition.csv"
    path.write_text(path.read_text().replace("000012.jpg,2", "000012.jpg,0"))
    second = load_dataset(AuditConfig(data=other, label="Male", group=("Eyeglasses",))).digest
    assert first != second


NAMES = ("age", "job", "sex", "income")


def uci(folder, *, packed=False, dotted=True):
    """Two files as UCI publishes them: no header, blanks, a remark and, in one, dots at the end."""
    folder.mkdir()
    rows = [
        f"{20 + k}, {('Sales', 'Tech', '?')[k % 3]}, {('Male', 'Female')[k // 2 % 2]}, "
        f"{('<=50K', '>50K')[k // 3 % 2]}"
        for k in range(N)
    ]
    end = "." if dotted else ""
    files = {
        "adult.data": "\n".join(rows[:TRAIN]) + "\n\n",
        "adult.test": "|1x3 Cross validator\n" + "".join(f"{row}{end}\n" for row in rows[TRAIN:]),
    }
    for name, text in files.items():
        content = text.encode()
        path = folder / (f"{name}.gz" if packed else name)
        path.write_bytes(gzip.compress(content) if packed else content)
    (folder / "adult.names").write_text("| no table")
    return folder


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("dotted", [False, True])
def test_the_two_files_of_uci_are_one_table_of_two_sides(tmp_path, packed, dotted):
    folder = uci(tmp_path / "uci", packed=packed, dotted=dotted)
    options = {"data": folder, "names": NAMES, "label": "income", "group": ("sex",)}

    whole = load_dataset(AuditConfig(**options))
    given = load_dataset(AuditConfig(**options, split_column="split"))

    assert whole.classes == given.classes == ("<=50K", ">50K")
    assert whole.split is None
    assert whole.features.column_names == given.features.column_names == ["age", "job"]
    assert any("--split-column split" in note.fix for note in whole.notices)
    assert given.split.tolist() == [0] * TRAIN + [1] * (N - TRAIN)
    assert given.labels.tolist() == [k // 3 % 2 for k in range(N)]


def test_tables_named_train_and_test_are_two_sides_and_others_are_not(tmp_path):
    rows = "age,sex,y\n" + "".join(f"{k},{'fm'[k % 2]},{k // 2 % 2}\n" for k in range(20))
    pairs = {
        ("train.csv", "test.csv"): True,
        ("ann-train.csv.gz", "ann-test.csv.gz"): True,
        ("Loans_TRAIN_1.csv", "Loans_TEST_1.csv"): True,
        ("a.csv", "b.csv"): False,
        ("train.csv", "b.csv"): False,
        ("trains.csv", "tests.csv"): False,
        ("train_test.csv", "test_train.csv"): False,
    }
    for place, (names, are_sides) in enumerate(pairs.items()):
        folder = tmp_path / str(place)
        folder.mkdir()
        for name in names:
            content = rows.encode()
            is_packed = name.endswith(".gz")
            (folder / name).write_bytes(gzip.compress(content) if is_packed else content)
        found = load_dataset(AuditConfig(data=folder, label="y", group=("sex",)))
        assert found.features.column_names == ["age"]
        assert ("split" in found.dropped_columns) == are_sides, names


def test_a_dot_stays_where_a_row_ends_without_one(tmp_path):
    path = tmp_path / "t.data"
    path.write_text(
        "".join(f"{k % 7}, {'fm'[k % 2]}, {('Ltd.', 'Ltd')[k // 2 % 2]}\n" for k in range(20))
    )
    config = AuditConfig(data=path, names=("age", "sex", "y"), label="y", group=("sex",))
    assert load_dataset(config).classes == ("Ltd", "Ltd.")
