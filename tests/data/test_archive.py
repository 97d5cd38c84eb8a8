import zipfile

import numpy as np
import pytest
from pictures import pixels
from refusals import refused_in_one_line

from fairaudit.config.options import AuditConfig
from fairaudit.data.dataset import pixels_of
from fairaudit.data.tabular import load_dataset
from fairaudit.errors import DataError

N = 20
IMAGES = pixels(N)
LABEL = np.arange(N) % 2
GROUP = np.array(["ab"[i // 2 % 2] for i in range(N)])


def save(path, **arrays):
    np.savez(path, **arrays)
    return path


def load(path, **options):
    return load_dataset(AuditConfig(data=path, **{"group": ("g",), **options}))


@pytest.mark.parametrize(
    ("write", "x"),
    [
        (np.savez, IMAGES[..., 0]),
        (np.savez, np.asfortranarray(IMAGES)),
        (np.savez_compressed, pixels(N, channels=3)),
    ],
)
def test_arrays_become_columns_and_images(tmp_path, write, x):
    write(tmp_path / "d.npz", x=x, label=LABEL, g=GROUP)
    dataset = load(tmp_path / "d.npz")
    assert np.array_equal(pixels_of(dataset.features.column("x")), x.reshape(*x.shape[:3], -1))
    assert dataset.labels.tolist() == LABEL.tolist()
    assert dataset.groupings[0].names == ("a", "b")
    assert (dataset.format, dataset.label_origin) == ("npz", "by its name")


def test_train_and_test_arrays_are_one_column_with_a_split(tmp_path):
    whole = {"x": IMAGES, "y": LABEL[:, None], "g": GROUP.astype("S")}
    parts = {
        f"{n}_{p}": a[s]
        for p, s in (("train", slice(0, 14)), ("test", slice(14, N)))
        for n, a in whole.items()
    }
    dataset = load(
        save(tmp_path / "d.npz", **parts, age=LABEL, z_train=LABEL), split_column="split"
    )
    (notice,) = (notice for notice in dataset.notices if notice.code == "arrays_ignored")
    assert "age" in notice.text
    assert "z_train" in notice.text
    assert np.array_equal(pixels_of(dataset.features.column("x")), IMAGES)
    assert dataset.split.tolist() == [0] * 14 + [1] * 6
    assert dataset.labels.tolist() == LABEL.tolist()


class Trap:
    """Says so when it is unpickled."""

    def __reduce__(self):
        return (print, ("unpickled",))


def test_pickled_arrays_are_never_unpickled(tmp_path, capsys):
    trap = np.array([Trap()] * N, dtype=object)
    path = save(tmp_path / "d.npz", x=IMAGES, label=LABEL, g=GROUP, extra=trap)
    with pytest.raises(DataError, match="holds Python objects"):
        load(path)
    assert "unpickled" not in capsys.readouterr().out
    np.load(path, allow_pickle=True)["extra"]  # the trap works
    assert "unpickled" in capsys.readouterr().out


def torn(path):
    save(path, x=pixels(N, side=64), label=LABEL, g=GROUP)
    content = bytearray(path.read_bytes())
    content[60_000] ^= 0xFF  # inside the first array's pixels, far behind its header
    path.write_bytes(bytes(content))


def huge(path):
    """A header of 10 TB before a few bytes."""
    with zipfile.ZipFile(path, "w") as archive, archive.open("x.npy", "w") as stream:
        header = {"descr": "|u1", "fortran_order": False, "shape": (10**7, 1000, 1000)}
        np.lib.format.write_array_header_1_0(stream, header)


BAD = {
    "damage": (torn, "is damaged"),
    "no images": (lambda p: save(p, label=LABEL, g=GROUP), "has 0 arrays of images"),
    "two arrays of images": (
        lambda p: save(p, x=IMAGES, z=IMAGES, label=LABEL, g=GROUP),
        "2 arrays of images: 'x', 'z'",
    ),
    "floats": (lambda p: save(p, x=IMAGES / 255, label=LABEL, g=GROUP), "holds float64, not uint8"),
    "channels first": (
        lambda p: save(p, x=np.moveaxis(pixels(N, channels=3), -1, 1), label=LABEL, g=GROUP),
        "20 x 3 x 6 x 6 holds no images",
    ),
    "too few labels": (
        lambda p: save(p, x=IMAGES, label=LABEL[:-1], g=GROUP),
        "'label' has 19 entries where 'x' has 20 images",
    ),
    "parts of two sizes": (
        lambda p: save(
            p, x_train=IMAGES, x_test=IMAGES[:, :3], label_train=LABEL, label_test=LABEL
        ),
        "different sizes",
    ),
    "more than memory": (huge, "is damaged"),
}


@pytest.mark.parametrize("case", BAD)
def test_an_archive_that_cannot_be_audited_is_one_clear_line(tmp_path, case):
    make, message = BAD[case]
    make(tmp_path / "d.npz")
    with refused_in_one_line(DataError, message):
        load(tmp_path / "d.npz")


def test_an_archive_that_declares_a_hundred_times_its_size_is_refused_unread(tmp_path, monkeypatch):
    path = tmp_path / "d.npz"
    images = np.zeros((N, 256, 256), np.uint8)
    images[:, 0, 0] = np.arange(N)
    np.savez_compressed(path, x=images, g=GROUP, label=LABEL)
    assert load(path).n_rows == N
    monkeypatch.setattr("fairaudit.data.reading.archive.HARMLESS", 2**18)
    monkeypatch.setattr(np.lib.format, "read_array", None)
    with pytest.raises(DataError, match="unpacks to more than 100 times"):
        load(path)
