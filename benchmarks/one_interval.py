"""Whether what a report says agrees with itself, and how often it asserts what is not so.

    python benchmarks/one_interval.py law FILE [--audits 200]
    python benchmarks/one_interval.py coins FILE [--audits 600]
    python benchmarks/one_interval.py planted FILE [--audits 100]

Audits are small, of tables drawn anew for each, all trainings in this process, five seeds, five
epochs. Each leaves one line of JSON in FILE; a second call goes on after the last. ``law``: drawn
reports of one to three methods, up to 2,000 rows, two to four groups, one or two groupings, two or
three classes. Every number of every table by group is held against rules beside, between and beyond
the ends of its printed interval: each must fail, pass and be open as the interval lies to the
limit; words and sentences must say the same; a rule about several numbers passes by their own
intervals and fails only by those at .05 / m, which are reckoned here anew. A line lists what does
not agree. ``coins``: groups that coins decided, audits of one and of four methods in turn; of each
method, what is asserted of differences between groups. ``planted``: a third of the rows has a law
of its own, audits of four methods; of each method the measures in which groups are detected to
differ, and those that would be were all methods of the audit one family.
"""

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from scipy import stats

from fairaudit.analysis.build import build_report, run_metadata
from fairaudit.analysis.family import family
from fairaudit.analysis.measure import measured
from fairaudit.audit import prepare
from fairaudit.config.value_sources import resolve_config
from fairaudit.errors import ConfigError
from fairaudit.execution import worker
from fairaudit.gate.check import as_stored, check
from fairaudit.gate.grammar import parse_rule
from fairaudit.report.group_rows import comparison_of, group_tables
from fairaudit.report.group_table import GroupTable, TableRow
from fairaudit.report.model import Report
from fairaudit.results.estimates import Comparison, Ends

SEEDS = 5
FOUR = ("dpsgd", "global-adapt", "reweight", "dpsgd-f")
ASSERTED = {
    "gap",
    "gap_gained",
    "rate_gap",
    "rate_gap_risen",
    "gap_opposed",
    "rate_gap_opposed",
    "one_answer",
    "class_lost",
}
ASSERTED |= {"turned", "turned_apart"}
NEAR = 1e-4  # beside an end: more than the six digits to which reports are rounded


def audited(frame: pd.DataFrame, methods: tuple[str, ...], **options: object) -> Report:
    """The report on a table as its file holds it; every training in this process."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "people.parquet"
        frame.to_parquet(path)
        given = {"data": str(path), "label": "y", "method": list(methods), "seeds": SEEDS}
        given |= {"epochs": 5, "batch_size": 60, "twins": "off", "out": folder, **options}
        made = prepare(resolve_config(given))
        results = {}
        for job in made.plan.jobs:
            source = results.get(job.source_id)
            results[job.id] = worker.run_job(made.plan, job, source, made.inputs)
        audit = measured(replace(made, results=results))
        metadata = run_metadata((), (), workers=None, seconds={})
        return as_stored(build_report(audit, metadata))


def people(rng: np.random.Generator, rows: int, classes: int = 2) -> pd.DataFrame:
    """Rows whose outcome has nothing to do with any group."""
    x = rng.normal(size=(rows, 4))
    score = 1.5 * x[:, 0] + x[:, 1] - 0.5 * x[:, 0] * x[:, 2] + rng.logistic(size=rows)
    frame = pd.DataFrame(x, columns=["age", "hours", "debt", "tenure"])
    frame["y"] = np.digitize(score, np.quantile(score, [0.6, 0.85][: classes - 1]))
    return frame


def coins(number: int) -> dict[str, object]:
    """What an audit asserts of groups that coins decided: method -> codes of its findings."""
    rng = np.random.default_rng([3, number])
    frame = people(rng, 600)
    teams = ("Quill", "Ember", "Thorn")[: 2 + number // 2 % 2]
    frame["team"] = np.array(teams)[rng.integers(0, len(teams), len(frame))]
    methods = FOUR if number % 2 else FOUR[number // 2 % 4 :][:1]
    bound = {} if number % 3 else {"max_grad_norm": 0.5}
    report = audited(frame, methods, group=["team"], **bound)
    told: dict[str, list[str]] = {method: [] for method in methods}
    for finding in report.findings:
        if finding.code in ASSERTED:
            told[finding.arm].append(finding.code)
    for changed in report.changed:
        told[changed.arm].append(f"change of {changed.metric}")
    return {"told": told}


def planted(number: int) -> dict[str, object]:
    """Measures in which groups of different laws are detected to differ, by method."""
    rng = np.random.default_rng([4, number])
    frame = people(rng, 2000)
    frame["team"] = rng.choice(["Quill", "Ember"], len(frame), p=[0.7, 0.3])
    other = rng.random(len(frame)) < 1 / (1 + np.exp(frame["age"] - 0.3 * (number % 4)))
    frame["y"] = np.where(frame["team"] == "Ember", other, frame["y"])
    report = audited(frame, FOUR, group=["team"], max_grad_norm=1.0)
    # All methods as groupings of one, which is one family for the whole report.
    pooled = [one.model_copy(update={"arm": "all", "grouping": one.arm}) for one in report.costs]
    return {
        "apart": detected(report.costs, lambda one: one.arm),
        "pooled": detected(family(pooled).comparisons, lambda one: one.grouping),
    }


def detected(
    compared: tuple[Comparison, ...], name: Callable[[Comparison], str]
) -> dict[str, list[str]]:
    """Method -> the metrics in which two groups are detected to differ."""
    found: dict[str, list[str]] = {}
    for comparison in compared:
        pairs = [gap for gap in comparison.gaps if gap.kind == "pair" and gap.b]
        costs = [gap.metric for gap in pairs if "cost" in gap.metric or "risk" in gap.metric]
        known = {gap.metric for gap in pairs if gap.reading == "detected"}
        found[name(comparison)] = [metric for metric in costs if metric in known]
    return found


def law(number: int) -> dict[str, object]:
    """What does not agree in a drawn report, as lines, and how much was looked at."""
    rng = np.random.default_rng([5, number])
    classes = 2 + (number % 5 == 0)
    frame = people(rng, int(rng.integers(400, 2001)), classes)
    names = ["F", "M", "X", "Y"][: int(rng.integers(2, 5))]
    shares = rng.dirichlet(np.full(len(names), 3.0))
    frame["sex"] = rng.choice(names, len(frame), p=shares)
    groups = ["sex"]
    if number % 2:
        frame["region"] = rng.choice(["north", "south"], len(frame))
        groups.append("region")
    if number % 3:  # groups differ
        other = rng.random(len(frame)) < 0.5
        frame["y"] = np.where(frame["sex"] == names[0], other, frame["y"])
    pool = (*FOUR, "output-perturbation", "global")
    methods = tuple(rng.choice(pool, int(rng.integers(1, 4)), replace=False).tolist())
    bound = {} if number % 4 else {"max_grad_norm": 0.3}
    favourable = {"favourable": "1"} if classes == 2 else {}
    report = audited(frame, methods, group=groups, **bound, **favourable)
    wrong: list[str] = []
    looked = Counter[str]()
    for table in group_tables(report):
        for line, kind in disagreements(report, table):
            looked[kind] += 1
            if line:
                wrong.append(line)
    for line in said_otherwise(report):
        looked["sentence"] += 1
        if line:
            wrong.append(line)
    names_gone = ("joint_high", '"absolute"', '"simultaneous"', "shared_low")
    wrong += [name for name in names_gone if name in report.model_dump_json()]
    return {"wrong": wrong, "looked": looked}


def disagreements(report: Report, table: GroupTable) -> Iterator[tuple[str, str]]:
    """For each rule held against a number of the table: what is wrong or "", and its kind."""
    arm = next(one for one in report.arms if one.key == table.arm)
    comparison = comparison_of(report, arm, table.grouping)
    if comparison is None or not table.reference:
        return
    for row in table.rows:
        for column, cell in zip(table.columns, row.cells, strict=True):
            number = cell.number
            if number.value is None or (row.kind == "all" and column.metric == "misalignment"):
                continue
            ends = number.ends
            is_gap = row.kind == "gap"
            if is_gap and ends is not None and cell.reading in ("detected", "not certain"):
                yield (
                    (f"{cell.reading} beside {ends}" if ends.low <= 0 <= ends.high else ""),
                    "word",
                )
            if is_gap and ends is not None and cell.reading == "not detected":
                apart = not ends.low <= 0 <= ends.high
                yield (f"not detected beside {ends}" if apart else ""), "word"
            if ends is None:
                continue
            size = sized(ends) if is_gap else ends
            for limit in limits(size):
                rule = rule_on(row, column.metric, table, limit)
                if rule is None:
                    continue
                (gate,) = check(report, [parse_rule(rule)]).gates
                of_reference = [t for t in gate.targets if t.reference in ("", table.reference)]
                if len(of_reference) != 1:
                    yield f"{rule}: {len(of_reference)} numbers", "rule"
                    continue
                target = of_reference[0]
                expected = "inconclusive"
                if size.low > limit:
                    expected = "fail"
                elif size.high <= limit:
                    expected = "pass"
                shown = [round(abs(end), 9) for end in ends]
                held = [round(abs(end), 9) for end in target.ends or ()]
                # Beside another reference the two share the rule, and a number may not be gated.
                m = len(gate.targets)
                is_open = target.outcome == "inconclusive"
                unread = cell.reading in ("", "cannot tell")  # as a group of few rows
                is_right = target.outcome == expected or (is_open and (m > 1 or unread))
                if is_open and expected != "inconclusive":
                    is_right &= bool(target.reason) and "includes" not in target.reason
                agrees = sorted(shown) == sorted(held)
                line = "" if is_right and agrees else f"{rule}: {target.outcome}, {ends}, {held}"
                yield line, "rule"
    yield from of_many(report, comparison, table)


def of_many(report: Report, comparison: Comparison, table: GroupTable) -> Iterator[tuple[str, str]]:
    """The same of rules about every group of the table."""
    for column in table.columns:
        estimates = {}
        for group in comparison.by_group:
            estimate = group.estimates.get(column.metric)
            is_read = group.gated and column.metric not in group.ungated
            if is_read and estimate is not None and estimate.ends and not estimate.reason:
                estimates[group.group] = estimate
        if not estimates:
            continue
        for chosen in estimates.values():
            for limit in limits(chosen.ends or Ends(0.0, 0.0)):
                rule = f"{column.metric}@{table.grouping}:{table.arm} > {limit:.9f}"
                try:
                    parsed = parse_rule(rule)
                except ConfigError:
                    continue
                (gate,) = check(report, [parsed]).gates
                for target in gate.targets:
                    if target.reference != table.reference or target.group not in estimates:
                        continue
                    one = estimates[target.group]
                    level = 1 - 0.025 / len(gate.targets)
                    t, z = stats.t.ppf(level, one.n_seeds - 1), stats.norm.ppf(level)
                    half = np.hypot(t * one.training_sd, z * one.records_sd)
                    expected = "inconclusive"
                    if one.value - half > limit + NEAR * half:
                        expected = "fail"
                    elif one.high <= limit:
                        expected = "pass"
                    is_near = abs(one.value - half - limit) <= 0.01 * half
                    is_right = target.outcome == expected or is_near
                    is_own = target.ends == one.ends
                    line = "" if is_right and is_own else f"{rule}: {target.outcome}, {one.ends}"
                    yield line, "rule of several"


def sized(ends: Ends) -> Ends:
    """The interval of a size, from a signed one."""
    low, high = sorted(map(abs, ends))
    return Ends(0.0 if ends.low <= 0 <= ends.high else low, high)


def limits(ends: Ends) -> list[float]:
    """Limits beside, between and beyond two ends."""
    width = max(ends.high - ends.low, 1e-3)
    middle = (ends.low + ends.high) / 2
    return [ends.low - NEAR * width, ends.low + NEAR * width, middle, ends.high + NEAR * width]


def rule_on(row: TableRow, metric: str, table: GroupTable, limit: float) -> str | None:
    """The rule about one number of a table; None where no rule may set such a limit."""
    base, bracket, target = metric.partition("[")
    of_class = bracket + target
    where = f"@{table.grouping}"
    if row.kind == "all":
        where = "@overall"
    elif row.groups:
        where += "=" + ",".join(row.groups)
    name = f"{base}_gap{of_class}" if row.kind == "gap" else metric
    if row.kind == "gap" and limit < 0:
        return None
    rule = f"{name}{where}:{table.arm} > {limit:.9f}"
    try:
        parse_rule(rule)
    except ConfigError:  # beyond what the metric can be
        return None
    return rule


def said_otherwise(report: Report) -> Iterator[str]:
    """For each sentence on a gap: what its number contradicts, or ""."""
    for finding in report.findings:
        if finding.code not in ASSERTED | {"no_gap", "not_certain"}:
            continue
        size = finding.numbers.get("size")
        if size is None or size.ends is None:
            continue
        of_metric = []
        for comparison in report.costs:
            place = comparison.arm, comparison.reference, comparison.grouping
            if place == (finding.arm, finding.reference, finding.grouping):
                of_metric += [gap for gap in comparison.gaps if gap.metric == finding.measure]
        known = [gap.larger_first.signed.ends for gap in of_metric]
        if size.ends not in known:
            yield f"{finding.text}: no gap has {size.ends}"
            continue
        includes = size.ends.low <= 0 <= size.ends.high
        is_certain = finding.code not in ("no_gap", "not_certain")
        yield f"{finding.text}: {size.ends}" if includes and is_certain else ""
        if finding.code == "no_gap":
            most = finding.numbers["most"].value or 0.0
            farther = max(map(abs, size.ends))
            yield (
                "" if abs(most - farther) < 1e-5 * farther else f"{finding.text}: {most}, {farther}"
            )


def summary(kind: str, lines: list[dict]) -> Iterator[str]:
    """The figures of all audits so far."""
    if kind == "law":
        looked = Counter[str]()
        for line in lines:
            looked.update(line["looked"])
        wrong = [text for line in lines for text in line["wrong"]]
        yield f"{len(lines)} reports, {dict(looked)}: {len(wrong)} do not agree"
        yield from wrong[:20]
        return
    if kind == "planted":
        for way in ("apart", "pooled"):
            found = Counter(m for line in lines for told in line[way].values() for m in told)
            shares = {m: f"{n / len(lines) / len(FOUR):.3f}" for m, n in sorted(found.items())}
            yield f"{way}: share of methods by measure {shares}"
        return
    by_place: dict[str, list[bool]] = {}
    for line in lines:
        told = list(line["told"].values())
        for place, codes in enumerate(told):
            by_place.setdefault(f"method {place + 1} of {len(told)}", []).append(bool(codes))
    by_place["all methods"] = [told for of_place in by_place.values() for told in of_place]
    for place, told in by_place.items():
        upper = stats.beta.ppf(0.95, sum(told) + 1, len(told) - sum(told))
        yield f"{place}: {sum(told)} of {len(told)} assert; upper exact limit {upper:.3f}"
    codes = Counter(code for line in lines for of in line["told"].values() for code in of)
    yield f"asserted: {dict(codes)}"


def main() -> None:
    """Go on with the audits of a kind, and print its figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", choices=["law", "coins", "planted"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--audits", type=int)
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    audits = given.audits or {"law": 200, "coins": 600, "planted": 100}[given.kind]
    run = {"law": law, "coins": coins, "planted": planted}[given.kind]
    done = given.file.read_text().splitlines() if given.file.exists() else []
    with given.file.open("a") as file:
        for number in range(len(done), audits):
            line = json.dumps(run(number))
            file.write(line + "\n")
            file.flush()
            done.append(line)
    for line in summary(given.kind, [json.loads(line) for line in done]):
        print(line)


if __name__ == "__main__":
    main()
