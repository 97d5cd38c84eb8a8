"""Is the reference trained well enough? Another library's model as the yardstick.

A reference that is clearly worse than logistic regression is undertrained, and then what private
training loses beside it says little.
"""

import math
import warnings

import numpy as np
from numpy.typing import NDArray

MOST_PIXELS = 20_000_000  # of images that are fitted; half a minute on one core


def logistic_baseline(
    train: NDArray[np.float32],
    train_labels: NDArray[np.int64],
    test: NDArray[np.float32],
    test_labels: NDArray[np.int64],
    n_classes: int,
) -> dict[str, float]:
    """Accuracy of scikit-learn's logistic regression on the same split.

    Args:
        train: ``[n, d]``, or images ``[n, H, W, C]``, of which every k-th is used where they have
            more than ``MOST_PIXELS`` numbers in all.
        train_labels: ``[n]``.
        test: ``[m, ...]``.
        test_labels: ``[m]``.
        n_classes: Y. Where Y is 1 or the training split holds one class only, which scikit-learn
            refuses to fit, every test row is predicted as that class.

    Returns:
        ``accuracy`` on the test rows, a fraction; ``train_rows``, how many rows were fitted.

    Example:
        >>> import numpy as np
        >>> labels = np.tile([0, 1], 20)
        >>> rows = np.where(labels == 1, 1.0, -1.0).astype(np.float32)[:, None]
        >>> logistic_baseline(rows[:20], labels[:20], rows[20:], labels[20:], n_classes=2)
        {'accuracy': 1.0, 'train_rows': 20.0}
    """
    from sklearn.exceptions import ConvergenceWarning  # scikit-learn takes 1.1 s to import
    from sklearn.linear_model import LogisticRegression

    if train.ndim > 2:  # images; of the test images every one is used
        step = math.ceil(train.size / MOST_PIXELS)
        train, test = train[::step].reshape(-1, train[0].size), test.reshape(len(test), -1)
        train_labels = train_labels[::step]
    if n_classes < 2 or len(np.unique(train_labels)) < 2:
        is_right = test_labels == train_labels[0]
        return {"accuracy": float(is_right.mean()), "train_rows": float(len(train))}
    # Two hundred steps at this tolerance are within 0.1 point of the optimum on the public sets.
    model = LogisticRegression(tol=1e-3, max_iter=200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a baseline needs no sixth digit
        model.fit(train, train_labels)
    is_right = model.predict(test) == test_labels
    return {"accuracy": float(is_right.mean()), "train_rows": float(len(train))}
