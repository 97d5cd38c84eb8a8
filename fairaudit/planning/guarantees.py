"""What an arm guarantees, and what its epsilon leaves out.

An *own module* is a user's model with layers that the engine's layer table lacks. Its per-record
gradients come from running the user's own code, so its guarantee rests on a condition: that this
code keeps nothing of what it reads.
"""

from collections.abc import Iterator

from fairaudit.config.options import AuditConfig
from fairaudit.methods.catalog import home_of
from fairaudit.methods.checks import as_checked
from fairaudit.methods.spec import Guarantee, MethodSpec
from fairaudit.planning.search import CandidateSearch
from fairaudit.privacy.accounting import epsilon
from fairaudit.privacy.events import PrivacyEvent
from fairaudit.report.types.facts import ArmPrivacy, Epsilon

OWN_MODULE = (
    "what the model's own code keeps of what it reads; that it fails at one record, which ends the "
    "training"
)
CHOICES = "choice of hyper-parameters and method"


def of_one_training(
    spec: MethodSpec,
    event: PrivacyEvent | None,
    delta: float,
    target: float | None,
    *,
    own_module: bool = False,
) -> ArmPrivacy:
    """The guarantee of one training of a method.

    Args:
        spec: The method.
        event: What the training releases; None: nothing is protected, and there is no epsilon.
        delta: At which epsilon is computed.
        target: Epsilon that the noise was calibrated to; None: the noise was given.
        own_module: An own module is trained, see above.
    """
    if event is None:
        reason = "noise multiplier 0: not private" if spec.is_private else "not private"
        return ArmPrivacy(guarantee=Guarantee.NONE, reason=reason)
    # That of a third-party method depends on whether its code passed `methods --check` here.
    guarantee = as_checked(spec) if home_of(spec) else spec.guarantee
    if own_module:
        guarantee = guarantee.of_own_module()
    return ArmPrivacy(
        guarantee=guarantee,
        event=event,
        epsilon=Epsilon(pld=epsilon(event, delta, "pld"), rdp=epsilon(event, delta, "rdp")),
        target_epsilon=target,
        delta=delta,
    )


def not_covered(
    spec: MethodSpec,
    config: AuditConfig,
    source: str | None,
    search: CandidateSearch | None,
    *,
    own_module: bool,
) -> Iterator[str]:
    """What an arm's epsilon leaves out, item by item, in words.

    Scales and levels that an encoding fits to training rows are not among them: they are known only
    once rows are encoded, and the report adds them.

    Args:
        spec: The arm's method.
        config: The options.
        source: Key of the arm whose releases this one reads; None: it reads none.
        search: For the arm's settings; None: they are fixed.
        own_module: An own module is trained, see above.
    """
    yield from spec.unprotected
    if own_module:
        yield OWN_MODULE
    if source is not None:
        yield f"the release of {source} that this method reads: its epsilon comes on top"
    if config.balance or config.keep:
        yield "undersampling of groups"
    if config.split_column is None:
        yield "stratified random split"
    yield CHOICES if search is None else search.uncovered
    yield "metrics and diagnostics of this report"
