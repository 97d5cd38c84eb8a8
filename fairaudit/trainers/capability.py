"""What this folder adds to audits."""

from fairaudit.capabilities import Capability

TRAINERS = Capability(
    name="trainers",
    outside="fairaudit.trainers.arms:methods",
    arms="fairaudit.trainers.arms:arms",
    identity="fairaudit.trainers.arms:identity",
    train="fairaudit.trainers.job:train",
    privacy="fairaudit.trainers.claims:privacy",
    ready="fairaudit.trainers.process:look_for",
    limitations="fairaudit.trainers.claims:limitations",
    arm_warnings="fairaudit.trainers.claims:warnings",
)
