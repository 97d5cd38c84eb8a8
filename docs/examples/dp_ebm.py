"""InterpretML's DP-EBM (`pip install interpret-core`), with a twin and a setting to search.

Run: fairaudit run --data people.csv --group sex --label approved --trainer dp_ebm:train --raw

With `--tune 8` the learning rate is searched. Its epsilon covers the ends of numbers only where
they are public: give them as BOUNDS.
"""

import math

from interpret.glassbox import ExplainableBoostingClassifier
from interpret.privacy import DPExplainableBoostingClassifier

import fairaudit

BOUNDS = None  # {"age": (17, 90), ...}
NO_NOISE = 1e6  # an epsilon at which the noise is far below one row


class WithoutGaps:
    """The model, on rows in which a missing value is a level or a number of its own."""

    def __init__(self, model):
        self.model = model

    def predict_proba(self, rows):
        """Probabilities [n, 2]."""
        return self.model.predict_proba(filled(rows))


def filled(rows):
    """The rows without missing values, which DP-EBM does not take."""
    text = rows.select_dtypes(exclude="number").columns
    return rows.fillna(dict.fromkeys(text, "?")).fillna(-1)


def train(data, privacy, seed, settings):
    """DP-EBM at an epsilon, EBM without privacy; ``settings`` are those of a search."""
    rate = settings.get("learning_rate", 0.01)  # the default of DP-EBM
    if privacy is None:
        model = ExplainableBoostingClassifier(
            interactions=0, outer_bags=1, n_jobs=1, random_state=seed
        )
    else:
        model = DPExplainableBoostingClassifier(
            epsilon=NO_NOISE if math.isinf(privacy.epsilon) else privacy.epsilon,
            delta=privacy.delta,
            learning_rate=rate,
            privacy_bounds=BOUNDS,
            n_jobs=1,
            random_state=seed,
        )
    model.fit(filled(data.features), data.labels)
    trained = WithoutGaps(model)
    if privacy is not None:
        trained.claimed = fairaudit.Privacy(
            privacy.epsilon, privacy.delta, "one training row", accountant="InterpretML, GDP"
        )
    return trained


train.supports_no_noise = True
train.settings = {"learning_rate": fairaudit.Range(0.001, 1, log=True)}
