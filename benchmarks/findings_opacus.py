"""Opacus' engine at the numbers of an audit, as a trainer of somebody else.

``FINDINGS_NUMBERS`` names a JSON file: ``steps_per_epoch``, ``epochs``,
``learning_rate``, ``max_grad_norm``, ``noise_multiplier``.
"""

import json
import math
import os
from pathlib import Path

import torch
from opacus import PrivacyEngine
from torch.utils.data import DataLoader, Dataset

import fairaudit


class Records(Dataset):
    """Rows that a loader fetches a batch at a time."""

    def __init__(self, features, labels):
        self.features, self.labels = torch.as_tensor(features), torch.as_tensor(labels)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, row):
        return self.features[row], self.labels[row]

    def __getitems__(self, rows):
        return self[torch.as_tensor(rows, dtype=torch.long)]


def as_fetched(batch):
    """A batch is whole as it comes."""
    return batch


class Model:
    """What fairaudit asks of a predictor."""

    def __init__(self, network, claimed=None):
        self.network, self.claimed = network, claimed

    def predict_proba(self, features):
        """Probabilities [n, Y]."""
        with torch.no_grad():
            return torch.softmax(self.network(torch.as_tensor(features)), 1).numpy()


def train(data, privacy, seed):
    """Softmax regression by Opacus' engine; neither clipped nor noised without ``privacy``."""
    numbers = json.loads(Path(os.environ["FINDINGS_NUMBERS"]).read_text())
    noise, bound = numbers["noise_multiplier"], numbers["max_grad_norm"]
    if privacy is None:
        noise, bound = 0.0, 1e6
    torch.manual_seed(seed)
    records = Records(data.features, data.labels)
    batch_size = math.ceil(len(records) / numbers["steps_per_epoch"])
    network = torch.nn.Linear(data.features.shape[1], len(data.classes))
    engine = PrivacyEngine()
    network, optimizer, loader = engine.make_private(
        module=network,
        optimizer=torch.optim.SGD(network.parameters(), lr=numbers["learning_rate"]),
        data_loader=DataLoader(records, batch_size=batch_size, collate_fn=as_fetched),
        noise_multiplier=noise,
        max_grad_norm=bound,
    )
    assert len(loader) == numbers["steps_per_epoch"]
    for _ in range(numbers["epochs"]):
        for features, labels in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(network(features), labels).backward()
            optimizer.step()
    if privacy is None:
        return Model(network)
    claimed = fairaudit.Privacy(
        epsilon=engine.get_epsilon(privacy.delta),
        delta=privacy.delta,
        unit="one encoded training record",
        neighbouring="add or remove one record",
        accountant="Opacus, PRV",
    )
    return Model(network, claimed)
