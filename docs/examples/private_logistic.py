"""A private learner with scikit-learn's interface: noisy gradient descent on all records, in numpy.

Run: fairaudit run --data people.csv --group sex --label approved --trainer private_logistic:train
"""

import numpy as np
from sklearn.linear_model import LogisticRegression

import fairaudit

STEPS = 60
CLIP = 1.0  # longest gradient of a record


def noise_multiplier(epsilon, delta, steps):
    """Noise over clipping bound at which all steps together are (epsilon, delta)-private.

    Each step is a Gaussian mechanism; together they are rho-zCDP with rho = steps / (2 sigma^2),
    which is (rho + 2 sqrt(rho log(1 / delta)), delta)-DP (Bun and Steinke 2016). Solved for sigma.
    """
    root = np.sqrt(np.log(1 / delta) + epsilon) - np.sqrt(np.log(1 / delta))  # of rho
    return np.sqrt(steps / 2) / root


class NoisyLogistic:
    """Softmax regression by full-batch gradient descent with clipped gradients and Gaussian noise.

    Args:
        classes: Number of classes.
        sigma: Noise over CLIP.
        seed: Of the noise.
    """

    def __init__(self, classes, sigma, seed):
        self.classes_, self.sigma, self.seed = np.arange(classes), sigma, seed

    def fit(self, features, labels):
        """Train on records [n, d] with labels in 0..classes-1."""
        draw = np.random.default_rng(self.seed)
        inputs = np.hstack([features, np.ones((len(features), 1))])
        targets = np.eye(len(self.classes_))[labels]
        self.weights_ = np.zeros((inputs.shape[1], len(self.classes_)))
        longest = np.linalg.norm(inputs, axis=1, keepdims=True)
        for _ in range(STEPS):
            errors = self._shares(inputs) - targets
            # The gradient of a record is input x error, so its norm is the product of theirs.
            norms = longest * np.linalg.norm(errors, axis=1, keepdims=True)
            total = inputs.T @ (errors * np.minimum(1.0, CLIP / np.maximum(norms, 1e-12)))
            total += draw.normal(0.0, self.sigma * CLIP, total.shape)
            self.weights_ -= 2.0 * total / len(inputs)
        return self

    def predict_proba(self, features):
        """Probabilities [n, Y]."""
        return self._shares(np.hstack([features, np.ones((len(features), 1))]))

    def _shares(self, inputs):
        scores = inputs @ self.weights_
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        return shares / shares.sum(axis=1, keepdims=True)


def train(data, privacy, seed):
    """Private: noisy gradient descent. Without privacy: the same learner of scikit-learn."""
    if privacy is None:
        return LogisticRegression(max_iter=200, random_state=seed).fit(data.features, data.labels)
    sigma = noise_multiplier(privacy.epsilon, privacy.delta, STEPS)
    model = NoisyLogistic(len(data.classes), sigma, seed).fit(data.features, data.labels)
    # The number of records is taken as public, and the scaling of the inputs is not covered.
    model.claimed = fairaudit.Privacy(
        privacy.epsilon,
        privacy.delta,
        unit="one encoded training record",
        neighbouring="add or remove one record, the number of records taken as public",
        accountant="zCDP of the Gaussian mechanism, by hand (Bun and Steinke 2016)",
    )
    return model
