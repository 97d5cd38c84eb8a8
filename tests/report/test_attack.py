"""Epsilon in words: no attacker is made to look weaker than he may be."""

from reports import report_of

from fairaudit.methods.catalog import Guarantee
from fairaudit.report.numbers import attack_sentence
from fairaudit.report.types.facts import AttackFacts


def facts(*rates, guarantee=Guarantee.ESTABLISHED):
    some = next(p for p in report_of().privacy.values() if p.guarantee is Guarantee.ESTABLISHED)
    attack = tuple(
        AttackFacts(false_positive_rate=at, true_positive_rate=rate)
        for at, rate in zip((0.01, 0.001), rates, strict=True)
    )
    return some.model_copy(update={"attack": attack, "guarantee": guarantee})


def test_arms_of_equal_rates_stand_together_and_others_apart():
    told = attack_sentence(
        {"a@8": facts(0.2, 0.05), "b@8": facts(0.2, 0.05), "a@1": facts(0.0201, 0.0024)}
    )
    assert told == (
        "No attack that wrongly accuses 1 % (0.1 %) of outsiders can identify more than 20 % (5 %) "
        "of training records (a@8, b@8); 2.1 % (0.24 %) of training records (a@1); a guess finds "
        "1 % (0.1 %)"
    )
