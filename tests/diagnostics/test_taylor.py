"""Tolerance: 1e-9 of the largest value in float64 against products by differentiation.

Those are tested against full Hessians in ``test_curvature.py``.
"""

import itertools

import pytest
import torch
from image_models import CLASSES, IMAGE_MODELS, image_model, images

from fairaudit.diagnostics import any_model
from fairaudit.diagnostics.any_model import AutodiffSecondOrder, TaylorSecondOrder
from fairaudit.diagnostics.curvature import (
    extremes,
    hvp,
    probe_signs,
    quadratic_forms,
    second_order,
)
from fairaudit.diagnostics.landscape import GroupedRecords, Landscape
from fairaudit.diagnostics.records import read_records

K = 3
SMALL = "tanh-grey"


def image_landscape(name, count=11, dtype=torch.float64, scale=1.0):
    """Images in K groups of mixed order, one of them absent."""
    module = image_model(name).to(dtype)
    x, y = images(name, 1, count)
    theta = scale * torch.cat([p.detach().flatten() for p in module.parameters()])
    groups = torch.arange(count) % 2 * 2
    return Landscape(module, theta, GroupedRecords.of(x[0].double(), y[0], groups, n_groups=K))


def vectors_for(landscape, count=3):
    generator = torch.Generator().manual_seed(2)
    return torch.randn(count, landscape.n_parameters, generator=generator, dtype=torch.float64).to(
        landscape.theta
    )


def close(found, expected, tolerance=1e-9):
    torch.testing.assert_close(
        found, expected, rtol=0, atol=tolerance * float(expected.abs().max())
    )


@pytest.mark.parametrize("name", IMAGE_MODELS)
def test_forms_of_image_models_are_those_of_their_products(name):
    landscape = image_landscape(name)
    vectors = vectors_for(landscape)
    products = AutodiffSecondOrder(landscape).products(vectors)
    close(second_order(landscape).forms(vectors), torch.einsum("vkp,vp->vk", products, vectors))
    means = torch.einsum("vkp,vp->vk", hvp(landscape, vectors), vectors)
    close(quadratic_forms(landscape, vectors)[:, [0, 2, 3]], means[:, [0, 2, 3]])
    assert quadratic_forms(landscape, vectors)[:, 1].isnan().all()


def test_models_with_a_layer_that_is_not_linear_in_its_input_are_differentiated():
    for name in IMAGE_MODELS:
        expected = AutodiffSecondOrder if name == "normalised" else TaylorSecondOrder
        assert type(second_order(image_landscape(name))) is expected


@pytest.mark.parametrize("name", [SMALL, "many-channels"])
def test_chunks_change_no_answer(name, monkeypatch):
    landscape = image_landscape(name)
    vectors = vectors_for(landscape)
    whole = second_order(landscape).forms(vectors)
    monkeypatch.setattr(any_model, "CHUNK_BYTES", 1)
    close(second_order(landscape).forms(vectors), whole, 1e-12)


def test_what_trace_forms_leave_out_has_mean_zero_over_signs():
    """Flipping the signs of one layer's part flips the part between layers.

    Its mean over flips is 0.
    """
    landscape = image_landscape(SMALL, scale=2.0)
    signs = probe_signs(0, landscape.n_parameters, 1)[0].double()
    blocks = [p.numel() for p in landscape.module.parameters()]
    layers = [sum(blocks[i : i + 2]) for i in range(0, len(blocks), 2)]
    flips = [
        torch.cat([sign * part for sign, part in zip(choice, signs.split(layers), strict=True)])
        for choice in itertools.product((1.0, -1.0), repeat=len(layers))
    ]
    ways = second_order(landscape)
    full, cheap = ways.forms(torch.stack(flips)), ways.trace_forms(torch.stack(flips))
    close(cheap.mean(0), full.mean(0))
    assert float((cheap - full).abs().max()) > 1e-2 * float(full.abs().max())


def test_records_and_spectra_of_image_models_are_read_too():
    landscape = image_landscape(SMALL)
    readings = read_records(landscape).values
    x = landscape.records.features
    assert readings["input_norm"] == pytest.approx(x.flatten(1).norm(dim=1).numpy())
    logits = landscape.module(x)
    assert logits.shape == (11, CLASSES)
    losses = torch.nn.functional.cross_entropy(logits, landscape.records.targets, reduction="none")
    assert readings["loss"] == pytest.approx(losses.detach().numpy())
    found = extremes(landscape.only(0))
    assert found.smallest < 0 < found.largest
