"""What is said of a method does not turn on which other methods ran beside it."""

import pytest
from audits import audited
from places import LOANS

from fairaudit.report.document import ByGroup, Figures, Folded, Heading, Table
from fairaudit.report.sections.summary import section

OTHERS = ("dpsgd", "global", "global-adapt", "dpsgd-f", "fairlens")
OTHERS += ("dpsgd-matched", "output-perturbation", "pate-hard", "pate-soft")


def block(report, key):
    """What the first screen says of a method: its heading, then its blocks, tables as numbers."""
    found, is_here = [], False
    for one in section(report).blocks:
        if isinstance(one, Folded):
            is_here = False
            if key in str(one.title):
                return [one.title, *map(plain, one.blocks)]
        elif isinstance(one, Heading):
            is_here = key in str(one.words)
            found += [one.words] if is_here else []
        elif is_here and not isinstance(one, Table | Figures):
            found.append(plain(one))
    return found


def plain(block):
    """A table by group without the axes, which tables that are drawn beside each other share."""
    return block.table if isinstance(block, ByGroup) else block


@pytest.fixture(scope="module")
def report_of_methods(tmp_path_factory):
    """Set of methods -> the report on the sample; every training is made once."""
    results = {}

    def of_methods(*methods):
        folder = tmp_path_factory.mktemp("beside")
        options = {"data": str(LOANS), "group": ["sex"], "method": list(methods)}
        options |= {"diagnostics": "basic", "twins": "off", "fail_on": ["excess_risk_gap > 0.02"]}
        return audited(folder, kept=results, **options).report

    return of_methods


@pytest.mark.slow
def test_the_block_of_a_method_is_word_for_word_the_same_beside_one_and_nine_others(
    report_of_methods,
):
    """The sample, whose gap of .07 nats under `reweight` once was or was not detected so."""
    alone = report_of_methods("reweight")
    (gap,) = (
        gap
        for compared in alone.costs
        for gap in compared.gaps
        if (gap.metric, gap.kind) == ("excess_risk", "pair")
    )
    assert gap.larger_first.signed.value == pytest.approx(0.074, abs=0.002)
    assert gap.reading == "detected"
    shown = block(alone, "reweight")
    assert len(shown) == 3  # heading, table, bullets
    assert alone.gates[0].outcome == "fail"
    for others in (OTHERS[:1], OTHERS):
        beside = report_of_methods(*others, "reweight")
        assert len(beside.costs) > len(others)
        assert block(beside, "reweight") == shown
        (mine,) = (
            gate.targets[place]
            for gate in beside.gates
            for place, target in enumerate(gate.targets)
            if target.arm == "reweight"
        )
        assert mine == alone.gates[0].targets[0]
