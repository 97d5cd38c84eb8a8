"""What an arm guarantees, by what one training of it releases, or a whole search."""

from collections.abc import Iterator

from fairaudit.config.options import AuditConfig
from fairaudit.methods.catalog import home_of
from fairaudit.methods.checks import as_checked
from fairaudit.methods.spec import Guarantee, MethodSpec
from fairaudit.planning.search import Search
from fairaudit.privacy.accounting import epsilon
from fairaudit.privacy.events import PrivacyEvent
from fairaudit.report.facts import ArmPrivacy, Epsilon

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
    """The guarantee of a method that releases ``event``, at ``delta``.

    ``own_module``: what is trained is a module that the layer table lacks.
    """
    if event is None:
        reason = "noise multiplier 0: not private" if spec.is_private else "not private"
        return ArmPrivacy(guarantee=Guarantee.NONE, reason=reason)
    guarantee = as_checked(spec) if home_of(spec) else spec.guarantee
    if own_module:
        guarantee = guarantee.of_own_module()
    return ArmPrivacy(
        guarantee=guarantee,
        event=event,
        epsilon=Epsilon(
            pld=epsilon(
                event,
                delta,
                "pld",
            ),
            rdp=epsilon(
                event,
                delta,
                "rdp",
            ),
        ),
        target_epsilon=target,
        delta=delta,
    )


def not_covered(
    spec: MethodSpec,
    config: AuditConfig,
    source: str | None,
    search: Search | None,
    *,
    own_module: bool,
) -> Iterator[str]:
    """What an established epsilon leaves out; what is fitted is known once rows are encoded.

    Args:
        spec: The method.
        config: The options.
        source: The arm whose releases it reads, or None.
        search: For its settings, or None.
        own_module: What is trained is a module that the layer table lacks.
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
