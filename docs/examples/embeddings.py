"""A transformer's pieces over text, their embeddings made here.

And a private head trained upon them.

The encoder stands for a public, pretrained one: its weights come from a fixed seed, never from the
data, so only the head learns of anybody. In a pipeline of yours, load it where `encoder()` makes
one.

Run: fairaudit run --data people.csv --group sex --label approved --trainer embeddings:train --raw
"""

import zlib

import numpy as np
import torch

import fairaudit

WIDTH, TOKENS, VOCABULARY = 32, 16, 512
STEPS = 100
LEARNING_RATE = 2.0
CLIP = 1.0  # longest gradient of a record


def tokens(frame):
    """Each row as text, and each word of it as a number: [n, columns]."""
    found = np.zeros((len(frame), min(TOKENS, frame.shape[1])), dtype=np.int64)
    for place, name in enumerate(frame.columns[:TOKENS]):
        words = [f"{name}={_short(value)}" for value in frame[name]]
        found[:, place] = [1 + zlib.crc32(word.encode()) % (VOCABULARY - 1) for word in words]
    return torch.from_numpy(found)


def _short(value):
    """Numbers to one digit, so that a word is met more than once."""
    return f"{value:.1g}" if isinstance(value, float | int) else str(value)


def encoder():
    """An embedding and one layer of self-attention, the same in every process."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layer = torch.nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, dropout=0.0, batch_first=True)
        return torch.nn.Embedding(VOCABULARY, WIDTH), layer.eval()


class Head:
    """Softmax regression on the embeddings of a row's words."""

    def __init__(self, columns, classes, claimed=None):
        self.embedding, self.layer = encoder()
        self.weights = torch.zeros(columns * WIDTH + 1, classes)
        self.claimed = claimed

    def embed(self, frame):
        """Embeddings of length 1, side by side, with a constant: [n, columns * WIDTH + 1]."""
        with torch.no_grad():
            found = self.layer(self.embedding(tokens(frame))).flatten(1)
        found = found / found.norm(dim=1, keepdim=True).clamp_min(1e-6)
        return torch.cat([found, torch.ones(len(found), 1)], 1)

    def predict_proba(self, features):
        """Probabilities [n, Y]."""
        return torch.softmax(self.embed(features) @ self.weights, 1).numpy()


def train(data, privacy, seed):
    """Full-batch gradient descent of the head; private by clipped gradients with Gaussian noise."""
    draw = torch.Generator().manual_seed(seed)
    columns = min(TOKENS, data.features.shape[1])
    head = Head(columns, len(data.classes), None if privacy is None else _claim(privacy))
    inputs = head.embed(data.features)
    targets = torch.nn.functional.one_hot(torch.as_tensor(data.labels), len(data.classes)).float()
    sigma = 0.0 if privacy is None else noise_multiplier(privacy)
    for _ in range(STEPS):
        errors = torch.softmax(inputs @ head.weights, 1) - targets
        norms = inputs.norm(dim=1) * errors.norm(dim=1)  # of each record's gradient, input x error
        kept = (
            (CLIP / norms.clamp_min(1e-12)).clamp_max(1.0)
            if privacy is not None
            else torch.ones(len(norms))
        )
        total = inputs.T @ (errors * kept[:, None])
        noise = sigma * CLIP * torch.randn(total.shape, generator=draw)
        head.weights -= LEARNING_RATE * (total + noise) / len(inputs)
    return head


def noise_multiplier(privacy):
    """Noise over clipping bound: zCDP of STEPS Gaussian mechanisms (Bun and Steinke 2016)."""
    budget = np.log(1 / privacy.delta)
    return np.sqrt(STEPS / 2) / (np.sqrt(budget + privacy.epsilon) - np.sqrt(budget))


def _claim(privacy):
    return fairaudit.Privacy(
        privacy.epsilon,
        privacy.delta,
        unit="one training record",
        neighbouring="add or remove one record, the number of records taken as public",
        accountant="zCDP of the Gaussian mechanism, by hand (Bun and Steinke 2016)",
    )
