"""Trainings off the CPU: where there is no GPU, that no step mixes devices.

Where there is, that it agrees.

Fake tensors know their device and shape and no values; an operation on two devices raises as it
would on a GPU. The meta device stands for one: a build of PyTorch without CUDA cannot fake more.
"""

from unittest import mock

import pytest
import torch
from cases import every_third
from forms import FORM, each, forms, key_of, make_pool, make_task
from image_models import CLASSES, image_model, images
from torch._subclasses.fake_tensor import FakeTensorMode

from fairaudit.diagnostics.observers import EpochCurves
from fairaudit.engine.devices import CPU, find_device, working_on
from fairaudit.engine.pool import TrainingPool
from fairaudit.errors import ConfigError
from fairaudit.privacy.noise import GaussianNoise, _SecureStream
from fairaudit.privacy.streams import from_operating_system

ELSEWHERE = torch.device("meta")
# These read values on the way, which fake tensors have not: a settled threshold, which records are
# usable.
READS_VALUES = {"dpsgd-matched", "fairlens:as-published", "fairlens:t21-eq6"}
DPSGD = FORM["dpsgd"]
FAKED = [form for form in forms() if key_of(form) not in READS_VALUES]
# A step's sums are taken in another order on a GPU; after a dozen steps parameters differ by
# rounding alone.
GPU_TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}


def fakes_become_plain():
    """Whether PyTorch makes a plain tensor of a fake one, as the engine does of what it is handed.

    2.6 does not.
    """
    with FakeTensorMode(), torch._C.DisableTorchFunctionSubclass():
        try:
            torch.ones(1).as_subclass(torch.Tensor)
        except RuntimeError:
            return False
    return True


@pytest.fixture(scope="module")
def fakes():
    """Asked when a test needs it: the first fake tensor takes seconds of imports."""
    if not fakes_become_plain():
        pytest.skip("this PyTorch makes no plain tensor of a fake one")


with_fakes = pytest.mark.usefixtures("fakes")


def image_pool(count=60):
    x, labels = images("tanh-grey", 1, count)
    return TrainingPool(x[0], labels[0], torch.arange(count) % 2, n_classes=CLASSES, n_groups=2)


def task_on(device, form, on_images, repeats, **given):
    if on_images:
        model = image_model("tanh-grey")
        return make_task(form, image_pool(), repeats=repeats, model=model, device=device, **given)
    return make_task(form, make_pool(), repeats=repeats, device=device, checkpoints=(2,), **given)


def fit_faked(form, on_images, repeats):
    # A step of fakes takes a tenth of a second; three are one of each kind: first, later, last of
    # an epoch.
    task = task_on(ELSEWHERE, form, on_images, repeats, steps_per_epoch=3, epochs=1)
    few = task.pool.gather(torch.arange(5), None).inputs
    # A sum is finite and a comparison holds, where a step asks.
    values = mock.patch.multiple(torch.Tensor, item=lambda self: 0.0, __bool__=lambda self: True)
    with FakeTensorMode(allow_non_fake_inputs=True), values:
        trained = form.make().fit(task, [EpochCurves()])
        return trained, trained.probabilities(few, torch.zeros(5, dtype=torch.int64))


@with_fakes
@each(every_third(FAKED))
@pytest.mark.parametrize("on_images", [False, True], ids=["rows", "images"])
@pytest.mark.parametrize("repeats", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_no_step_of_a_training_mixes_devices(form, on_images, repeats):
    trained, predicted = fit_faked(form, on_images, repeats)
    assert trained.network.theta.device == ELSEWHERE
    assert {values.device for _, values in trained.trace.stacked().values()} == {CPU}
    assert {checkpoint.parameters.device for checkpoint in trained.checkpoints} <= {CPU}
    assert predicted.device == CPU


@with_fakes
def test_noise_of_a_release_reaches_a_device_from_a_key_stream_on_the_cpu(monkeypatch):
    """What hides the digits of noise on a CPU does so elsewhere.

    The device adds, and draws nothing.
    """
    filled, drawn = [], []
    fill, draw = _SecureStream.fill, torch.Tensor.normal_
    monkeypatch.setattr(
        _SecureStream, "fill", lambda self, row: filled.append(row.device) or fill(self, row)
    )
    monkeypatch.setattr(
        torch.Tensor, "normal_", lambda *given, **more: drawn.append(draw) or draw(*given, **more)
    )
    out = torch.empty(2, 5000, device=ELSEWHERE)
    with from_operating_system():
        assert GaussianNoise([0, 1]).fill(out).device == ELSEWHERE
        assert GaussianNoise([0, 1]).fill(torch.empty(2, 3, device=ELSEWHERE)).device == ELSEWHERE
        fit_faked(DPSGD, False, 2)
    assert set(filled) == {CPU}
    assert len(filled) > 4
    assert not drawn


def test_a_gpu_is_taken_where_there_is_one_and_asking_for_one_where_there_is_none_is_refused(
    monkeypatch,
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert find_device("auto") == find_device("cuda") == torch.device("cuda")
    assert find_device("cpu") == CPU
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert find_device("auto") == find_device("cpu") == CPU
    with pytest.raises(ConfigError, match="no CUDA device"):
        find_device("cuda")


def test_products_on_a_gpu_keep_float32s_precision_and_the_settings_come_back():
    conv = torch.backends.cudnn
    before = conv.allow_tf32
    conv.allow_tf32 = True
    try:
        with working_on(ELSEWHERE):
            assert not conv.allow_tf32
            assert torch.empty(1).device == ELSEWHERE
        assert conv.allow_tf32
    finally:
        conv.allow_tf32 = before


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@pytest.mark.parametrize(
    ("form", "on_images"), [*((form, False) for form in forms()), (DPSGD, True)]
)
@pytest.mark.parametrize("repeats", [1, 3])
def test_a_gpu_agrees_with_the_cpu_at_the_same_seed(form, on_images, repeats):
    there, here = (
        form.make().fit(task_on(torch.device(name), form, on_images, repeats), [])
        for name in ("cuda", "cpu")
    )
    torch.testing.assert_close(there.parameters, here.parameters, **GPU_TOLERANCE)
    assert there.event == here.event
