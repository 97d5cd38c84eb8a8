"""Several trainings of one length as the replicates of one; each keeps its batches and noise.

A small model's step is mostly the calling of kernels, which replicates share. So the trainings of a
search, which differ in their settings, run as one.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch

from fairaudit.engine.loop import Training
from fairaudit.engine.network import Network
from fairaudit.engine.release import Release
from fairaudit.engine.replicates import tape_of
from fairaudit.engine.sampling import PoissonSampler
from fairaudit.engine.stacked import Stacked
from fairaudit.privacy.noise import GaussianNoise

# The most parameters of a model for which that is faster: with 100 a step of twelve trainings takes
# half as long as twelve steps, with 500 seven tenths, with 2,000 as long (benchmarks/README.md).
LARGEST = 1024
AT_ONCE = 16 * 2**20  # bytes of one step's activations and their gradients, over all trainings


def at_once(network: Stacked, batch: float) -> int:
    """How many trainings of a model to run as one, at least 1; 1 where more are not faster.

    Args:
        network: The model as one replicate.
        batch: Expected number of records in a batch.
    """
    if not isinstance(network, Network) or network.n_parameters > LARGEST:
        return 1
    return max(1, int(AT_ONCE / (batch * network.bytes_per_record)))


def joined(trainings: Sequence[Training]) -> Training | None:
    """One training whose replicates are those of all trainings, in their order.

    Each replicate draws its batches and noise from the streams of its own training, from their
    beginning.

    Args:
        trainings: Of one method on one pool, with one schedule and kind of optimiser, without
            observers; no step has been taken.

    Returns:
        The training; None where the trainings' parts cannot be combined: a release is unproven, a
        tape is the method's own, an objective, rule or release has no common form, or two noise
        seeds agree in the 32 bits that PyTorch's generator reads.
    """
    first, *others = trainings
    releases = [training.release for training in trainings if isinstance(training.release, Release)]
    if first.tape is not tape_of or len(releases) < len(trainings):
        return None
    objective = first.objective.stacked_with([other.objective for other in others])
    rule = first.rule.stacked_with([other.rule for other in others])
    if objective is None or rule is None:
        return None
    try:
        release = releases[0].stacked_with(releases[1:])
        objective_noise = GaussianNoise.of_all([training.objective_noise for training in trainings])
        rule_noise = GaussianNoise.of_all([training.rule_noise for training in trainings])
    except ValueError:  # two seeds agree in 32 bits
        return None
    if release is None:
        return None
    streams, rates = [], []  # of each replicate; rates are to be a column [R, 1]
    for training in trainings:
        for stream in training.sampler.streams:
            streams.append(stream)
            rates.append([training.optimizer.learning_rate])
    expected = torch.cat([training.facts.expected_batch_size for training in trainings])
    return replace(
        first,
        objective=objective,
        rule=rule,
        release=release,
        objective_noise=objective_noise,
        rule_noise=rule_noise,
        optimizer=type(first.optimizer)(torch.tensor(rates)),
        sampler=PoissonSampler(streams, first.sampler.records, first.sampler.steps_per_epoch),
        facts=replace(first.facts, expected_batch_size=expected),
    )
