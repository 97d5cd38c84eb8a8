"""Draw the images of sample_data/images: four shapes, most of them printed, some drawn by hand.

Every image is a shape of light on a dark ground, rendered from its signed distance. ``printed``
shapes are filled, upright and clear. ``drawn`` ones are a shaky outline, turned, faint and grainy,
and fewer. So the smaller group is the harder one, and its mistakes are what clipping and noise make
worse.
"""

import argparse
import csv
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Array = NDArray[np.float64]

SIDE = 16  # pixels
SHAPES = ("circle", "cross", "square", "triangle")


@dataclass(frozen=True)
class Style:
    """How a group's shapes look; lengths are in half image sides, light is in 0..1.

    Args:
        count: Images, as many of each shape. outline: Half the width of the line, 0 for a filled
            shape.
        turn: Largest rotation in degrees. shift: Largest displacement. wobble: Size of the hand's
            tremor.
        light: Range of the shape's brightness. grain: Standard deviation of the noise.
    """

    count: int
    outline: float
    turn: float
    shift: float
    wobble: float
    light: tuple[float, float]
    grain: float


@dataclass(frozen=True)
class Drawing:
    """Everything that decides the images."""

    seed: int = 20
    printed: Style = Style(1_500, 0.0, 6.0, 0.12, 0.0, (0.75, 1.0), 0.06)
    drawn: Style = Style(500, 0.09, 30.0, 0.18, 0.05, (0.45, 0.75), 0.12)


def make(drawing: Drawing) -> tuple[NDArray[np.uint8], list[dict[str, str]]]:
    """The images ``[N, 16, 16]`` in random order and, for each, file name, label and style."""
    generator = np.random.default_rng(drawing.seed)
    styles = {"printed": drawing.printed, "drawn": drawing.drawn}
    wanted = [
        (s, k)
        for s, style in styles.items()
        for k in SHAPES
        for _ in range(style.count // len(SHAPES))
    ]
    order = generator.permutation(len(wanted))
    images, rows = [], []
    for number, place in enumerate(order):
        name, shape = wanted[place]
        images.append(draw(shape, styles[name], generator))
        rows.append({"file_name": f"{number:04d}.png", "label": shape, "style": name})
    return np.stack(images), rows


def draw(shape: str, style: Style, generator: np.random.Generator) -> NDArray[np.uint8]:
    """One image ``[16, 16]``."""
    centres = (np.arange(SIDE) + 0.5) * 2 / SIDE - 1
    y, x = np.meshgrid(centres, centres, indexing="ij")
    x, y = (
        x - generator.uniform(-style.shift, style.shift),
        y - generator.uniform(-style.shift, style.shift),
    )
    angle = np.deg2rad(generator.uniform(-style.turn, style.turn))
    x, y = np.cos(angle) * x + np.sin(angle) * y, np.cos(angle) * y - np.sin(angle) * x
    distance = distance_to(shape, x, y, generator.uniform(0.5, 0.62))
    distance = distance + style.wobble * tremor(x, y, generator)
    if style.outline:
        distance = np.abs(distance) - style.outline
    coverage = np.clip(0.5 - distance * SIDE / 2, 0.0, 1.0)  # one pixel wide edges
    light = generator.uniform(*style.light) * coverage + 0.08
    grainy = light + generator.normal(0.0, style.grain, light.shape)
    return (255 * np.clip(grainy, 0.0, 1.0)).round().astype(np.uint8)


def distance_to(shape: str, x: Array, y: Array, size: float) -> Array:
    """Distance to the shape's edge, negative inside."""
    if shape == "circle":
        return np.hypot(x, y) - size
    if shape == "square":
        return np.maximum(np.abs(x), np.abs(y)) - 0.88 * size
    if shape == "cross":
        arm = 0.3 * size
        bars = [np.maximum(np.abs(x) - a, np.abs(y) - b) for a, b in ((arm, size), (size, arm))]
        return np.minimum(*bars)
    slant = (np.abs(x) * 2 - y - size) / np.sqrt(5.0)
    return np.maximum(slant, y - 0.75 * size)


def tremor(x: Array, y: Array, generator: np.random.Generator) -> Array:
    """A smooth wave over the image, about 1 in size."""
    phases = generator.uniform(0, 2 * np.pi, 2)
    pace = generator.uniform(4.0, 7.0, 2)
    return np.sin(pace[0] * x + phases[0]) + np.sin(pace[1] * y + phases[1])


def write(out: Path, images: NDArray[np.uint8], rows: list[dict[str, str]]) -> None:
    """The folder ``images`` with metadata.csv, in place of the one that is there."""
    folder = out / "images"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for image, row in zip(images, rows, strict=True):
        Image.fromarray(image).save(folder / row["file_name"], optimize=True)
    with (folder / "metadata.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent, help="where to put the folder"
    )
    parser.add_argument("--seed", type=int, default=Drawing.seed)
    options = parser.parse_args()
    pixels, labels = make(Drawing(seed=options.seed))
    write(options.out, pixels, labels)
    print(f"{len(labels):,} images in {options.out / 'images'}")
