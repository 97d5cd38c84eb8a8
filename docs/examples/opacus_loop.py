"""A training loop with Opacus' PrivacyEngine, as it stands in many pipelines, audited by group.

Run: fairaudit run --data people.csv --group sex --label approved --trainer opacus_loop:train
"""

import importlib.metadata

import torch
from opacus import PrivacyEngine
from torch.utils.data import DataLoader, TensorDataset

import fairaudit

EPOCHS = 5
BATCH_SIZE = 512
LEARNING_RATE = 0.1
MAX_GRAD_NORM = 5.0


class Model:
    """What fairaudit asks of a predictor."""

    def __init__(self, network, claimed):
        self.network, self.claimed = network, claimed

    def predict_proba(self, features):
        """Probabilities [n, Y]."""
        with torch.no_grad():
            return torch.softmax(self.network(torch.as_tensor(features)), 1).numpy()


def train(data, privacy, seed):
    """DP-SGD of a linear model at the epsilon that is asked for; plain SGD where none is."""
    torch.manual_seed(seed)  # of an audit alone: a model for release draws its noise afresh
    batch = min(BATCH_SIZE, len(data.labels) // 16)
    records = TensorDataset(torch.as_tensor(data.features), torch.as_tensor(data.labels))
    loader = DataLoader(records, batch_size=batch, shuffle=True)
    network = torch.nn.Linear(data.features.shape[1], len(data.classes))
    optimizer = torch.optim.SGD(network.parameters(), lr=LEARNING_RATE)
    engine = PrivacyEngine()
    if privacy is not None:
        network, optimizer, loader = engine.make_private_with_epsilon(
            module=network,
            optimizer=optimizer,
            data_loader=loader,
            target_epsilon=privacy.epsilon,
            target_delta=privacy.delta,
            epochs=EPOCHS,
            max_grad_norm=MAX_GRAD_NORM,
        )
    for _ in range(EPOCHS):
        for features, labels in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(network(features), labels).backward()
            optimizer.step()
    if privacy is None:
        return Model(network, None)
    claimed = fairaudit.Privacy(
        epsilon=engine.get_epsilon(privacy.delta),
        delta=privacy.delta,
        unit="one encoded training record",
        neighbouring="add or remove one record",
        accountant=f"Opacus {importlib.metadata.version('opacus')}, PRV",
    )
    return Model(network, claimed)
