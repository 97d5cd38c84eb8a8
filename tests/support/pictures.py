"""Small images on disk, in every layout that can be read."""

import csv
import io

import numpy as np
from PIL import Image

CLASSES = ("cat", "dog")


def pixels(n, *, side=6, channels=1, seed=0):
    """``[n, side, side, channels]``; all images differ."""
    shape = (n, side, side, channels)
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def encoded(image, kind="PNG"):
    stream = io.BytesIO()
    Image.fromarray(image.squeeze(2) if image.shape[2] == 1 else image).save(stream, kind)
    return stream.getvalue()


def save(image, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encoded(image))
    return path


def metadata_rows(n):
    return [
        {
            "file_name": f"{number:04d}.png",
            "label": CLASSES[number % 2],
            "style": "ab"[number // 2 % 2],
            "split": "test" if number % 5 == 4 else "train",
        }
        for number in range(n)
    ]


def metadata_folder(root, images):
    """Images beside ``metadata.csv``."""
    rows = metadata_rows(len(images))
    for row, image in zip(rows, images, strict=True):
        save(image, root / row["file_name"])
    write_metadata(root, rows)
    return root


def write_metadata(root, rows):
    with (root / "metadata.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
