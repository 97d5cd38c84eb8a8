import numpy as np
import pytest

from fairaudit.metrics.sklearn_check import logistic_baseline


def separable(n=400, classes=2):
    rng = np.random.default_rng(0)
    y = rng.integers(0, classes, n)
    x = (np.eye(classes)[y] * 3 + rng.normal(size=(n, classes))).astype(np.float32)
    return x, y


@pytest.mark.parametrize("classes", [2, 3])
def test_the_baseline_learns(classes):
    x, y = separable(classes=classes)
    found = logistic_baseline(x[:300], y[:300], x[300:], y[300:], classes)
    assert found["accuracy"] > 0.85


def test_perfectly_separated_classes_give_no_warning():
    x = np.linspace(-1, 1, 40, dtype=np.float32)[:, None] * 1e4
    y = (x[:, 0] > 0).astype(np.int64)
    assert logistic_baseline(x, y, x, y, 2)["accuracy"] == 1.0


def test_one_class_in_training_predicts_that_class():
    x, y = separable()
    found = logistic_baseline(x, np.zeros_like(y), x, y, 2)
    assert found == {"accuracy": float((y == 0).mean()), "train_rows": len(y)}


def test_images_are_read_as_rows_of_pixels():
    x, y = separable()
    pictures = x.reshape(len(x), -1, 1, 1)
    assert logistic_baseline(pictures, y, pictures, y, 2) == logistic_baseline(x, y, x, y, 2)


def test_of_many_images_every_kth_is_fitted(monkeypatch):
    x, y = separable()
    monkeypatch.setattr("fairaudit.metrics.sklearn_check.MOST_PIXELS", x.size // 3)
    found = logistic_baseline(x.reshape(len(x), -1, 1, 1), y, x.reshape(len(x), -1, 1, 1), y, 2)
    assert found["train_rows"] <= len(x) / 3
    assert found["accuracy"] > 0.9
    assert logistic_baseline(x, y, x, y, 2)["train_rows"] == len(x)
