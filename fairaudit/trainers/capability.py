"""What this folder adds to audits."""

from fairaudit.capabilities import Capability

TRAINERS = Capability(
    name="trainers",
    outside="fairaudit.trainers.arms:methods",
    arms="fairaudit.trainers.arms:arms",
    identity="fairaudit.trainers.arms:identity",
    train="fairaudit.trainers.jobs:train",
    privacy="fairaudit.trainers.claims:privacy",
    limitations="fairaudit.trainers.claims:limitations",
    knob="fairaudit.trainers.study:advised_knob",
    study="fairaudit.trainers.study:Trainers",
    measure="fairaudit.trainers.measure:measure",
)
