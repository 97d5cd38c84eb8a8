"""Whether data and model offer what a method needs, decided before training."""

from typing import NamedTuple

from fairaudit.methods.defaults import PublicSizes
from fairaudit.methods.spec import MethodSpec, Need

RECORDS_PER_TEACHER = 100
CONVEX = "logistic"


class Lacking(NamedTuple):
    """A need that is not met: what to say, and what to do about it."""

    reason: str
    remedy: str


def unmet(spec: MethodSpec, sizes: PublicSizes) -> Lacking | None:
    """The first need of ``spec`` that data and model do not meet, or None."""
    if Need.CONVEX_MODEL in spec.needs and sizes.model != CONVEX:
        return Lacking(f"needs a convex model, and the model is {sizes.model}", f"use --model {CONVEX}")
    if Need.PUBLIC_POOL not in spec.needs:
        return None
    least = 2 * RECORDS_PER_TEACHER
    if sizes.n_public < least:
        reason = f"needs {least} training records for two teachers, and there are {sizes.n_public}"
        return Lacking(reason, "use a larger table")
    if sizes.pool < 1:
        return Lacking("needs a student pool, and the test rows are too few to halve", "use --public-data")
    return None
