"""What an arm guarantees, by what one training of it releases, or a whole search."""

from dataclasses import dataclass, replace

from fairaudit.methods.catalog import is_third_party
from fairaudit.methods.checks import as_checked
from fairaudit.methods.spec import Guarantee, MethodSpec
from fairaudit.privacy.accounting import epsilon
from fairaudit.privacy.events import PrivacyEvent, shown_up
from fairaudit.privacy.selection import SelectionEvent
from fairaudit.tuning.charge import Charged


@dataclass(frozen=True, slots=True)
class ArmPrivacy:
    """What an arm guarantees, known before any training.

    Args:
        guarantee: Status;
        reason: why not established, what is charged beside a training, or "".
        event: What one run releases, or None where nothing is claimed.
        epsilon_pld: Headline epsilon of one run at the plan's delta.
        epsilon_rdp: For comparison with papers. None where nothing is claimed.
        target_epsilon: What it was calibrated to, or None (noise multiplier given).
        selection: What a charged search releases; ``event`` is then one training at the default
            setting, and the search's epsilon is by RDP alone, for PLD knows no such search.
        base_epsilon: PLD epsilon of one training of that search, the dearest candidate.
    """

    guarantee: Guarantee
    reason: str
    event: PrivacyEvent | None = None
    epsilon_pld: float | None = None
    epsilon_rdp: float | None = None
    target_epsilon: float | None = None
    selection: SelectionEvent | None = None
    base_epsilon: float | None = None

    @property
    def epsilon(self) -> float | None:
        """The headline: by PLD, or by RDP where that alone accounts for it.

        None where nothing is claimed.
        """
        if self.selection is None:
            return self.epsilon_pld
        return self.epsilon_rdp


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
        return ArmPrivacy(Guarantee.NONE, reason)
    pld, rdp = epsilon(event, delta, "pld"), epsilon(event, delta, "rdp")
    guarantee = as_checked(spec) if is_third_party(spec) else spec.guarantee
    if own_module:
        guarantee = guarantee.of_own_module()
    return ArmPrivacy(guarantee, "", event, pld, rdp, target)


def of_search(one: ArmPrivacy, found: Charged, delta: float) -> ArmPrivacy:
    """What an arm guarantees whose settings were sought, from what one of its trainings does."""
    if one.event is None or found.charge is None:
        return one
    cost = found.charge.epsilon(delta)
    if found.tuning.selection is None:
        proof = one.guarantee.value if one.guarantee.is_proved else "claimed by its author"
        reason = (
            f"{proof} for one training (epsilon {shown_up(one.epsilon_pld or 0.0)}); the search "
            f"over {found.tuning.trials} settings is not charged, and charged it costs "
            f"{shown_up(cost)}"
        )
        return ArmPrivacy(Guarantee.NOT_ESTABLISHED, reason, target_epsilon=one.target_epsilon)
    base = max(epsilon(event, delta, "pld") for event in found.charge.trainings)
    reason = (
        f"the search is charged: the best of {found.tuning.selection}, by a score with noise of "
        f"{found.tuning.score_noise:.3g} records on each count; one training costs "
        f"{shown_up(base)}; figures of a step are those of the default setting"
    )
    return replace(
        one,
        reason=reason,
        epsilon_pld=None,
        epsilon_rdp=cost,
        selection=found.charge,
        base_epsilon=base,
    )


def of_trainer(spec: MethodSpec, target: float | None) -> ArmPrivacy:
    """What is known before training: nothing but what the trainer is asked for."""
    if target is None:
        return ArmPrivacy(Guarantee.NONE, "trained by the user's own code without privacy")
    reason = "the trainer is asked for it; what it does is its own"
    return ArmPrivacy(spec.guarantee, reason, target_epsilon=target)
