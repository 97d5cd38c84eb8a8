"""Epsilon in words: what it leaves to an attacker, in one sentence for all arms."""

import math
from collections.abc import Iterator, Mapping, Sequence

from fairaudit.methods.catalog import Guarantee
from fairaudit.report.arm_names import listed
from fairaudit.report.facts import AttackFacts, PrivacyFacts


def attack_sentence(privacy: Mapping[str, PrivacyFacts]) -> str:
    """What the guarantees of these arms mean for a person's record; "" where none is proved.

    Arms whose rates are shown alike stand together.
    """
    proved = {key: p.attack for key, p in privacy.items() if p.guarantee is Guarantee.ESTABLISHED}
    return spoken_rates({key: rates for key, rates in proved.items() if rates})


def spoken_rates(attacks: Mapping[str, Sequence[AttackFacts]]) -> str:
    """The same of rates by arm."""
    together: dict[tuple[str, ...], list[str]] = {}
    for key, rates in attacks.items():
        together.setdefault(tuple(_shown(rates)), []).append(key)
    if not together:
        return ""
    first, *others = (f"{100 * rate.false_positive_rate:g} %" for rate in next(iter(attacks.values())))
    beside = f" ({', '.join(others)})" if others else ""
    text = "; ".join(
        _tradeoff_text(shown, keys, alone=len(together) == 1) for shown, keys in together.items()
    )
    return (
        f"An attacker who wrongly accuses {first}{beside} of outsiders of being in the training data "
        f"rightly accuses at most {text}"
    )


def _tradeoff_text(shown: Sequence[str], keys: Sequence[str], *, alone: bool) -> str:
    first, *others = shown
    beside = f" ({', '.join(others)})" if others else ""
    return f"{first}{beside} of members{'' if alone and len(keys) == 1 else f' ({listed(keys)})'}"


def _shown(rates: Sequence[AttackFacts]) -> Iterator[str]:
    """Per cent, rounded up to two digits: no attacker is made to look weaker than he may be."""
    for rate in rates:
        percent = 100 * rate.true_positive_rate
        unit = 10.0 ** (math.floor(math.log10(percent)) - 1)
        yield f"{min(100.0, math.ceil(percent / unit - 1e-9) * unit):.3g} %"
