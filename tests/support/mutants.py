"""Small mistakes, one at a time, each with the tests that must see it: `python tests/support/mutants.py`.

Every mistake is made in a copy of the tree, and the tests that are named beside it are run there. One that
no test sees is a hole in the tests. `python tests/support/mutants.py WORD...` tries those whose file or
name holds one of the words. Not run by pytest: a full round takes several minutes.
"""

import argparse
import importlib
import os
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIBRARIES = (
    *("dp_accounting.pld.privacy_loss_distribution", "jsonschema", "opacus", "pandas"),
    *("pyarrow.parquet", "pydantic", "scipy.stats", "sklearn.linear_model", "torch", "vl_convert"),
)
OPTIONS = ("-n", "0", "-x", "-q", "--tb=no", "-p", "no:cacheprovider", "-rfE")
COPIED = ("fairaudit", "tests", "sample_data", "docs", "pyproject.toml", "README.md", "SECURITY.md")


class Mutant(NamedTuple):
    """A mistake.

    Args:
        name: What it does. file: Inside the package. old: Text that stands there once. new: Its replacement.
        tests: What must fail: paths below tests/, each with ``::name`` where one is meant.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


WIRING, TEXTS, IDENTITY = "test_wiring.py", "analysis/test_texts.py", "test_job_identity.py"
OWN_MODELS = "laws/test_own_models.py"

MUTANTS = (
    Mutant(
        "every job trains with the first seed",
        "execution/worker.py",
        "        seed=job.seed,\n        repeats=job.repeats,",
        "        seed=plan.config.seed,\n        repeats=job.repeats,",
        (f"{WIRING}::test_every_arm_trains_at_every_seed_with_its_own_name",),
    ),
    Mutant(
        "every seed is split like the first",
        "execution/seed_data.py",
        "(inputs.dataset, key.config, seed)",
        "(inputs.dataset, key.config, key.config.seed)",
        (
            f"{WIRING}::test_a_training_reads_the_files_rows_of_its_seed",
            f"{WIRING}::test_a_student_is_given_the_public_file_and_teachers_are_encoded_by_it",
        ),
    ),
    Mutant(
        "repeats share the reference's batches",
        "execution/worker.py",
        'return ["shared", *own[1:]] if',
        'return ["shared"] * repeats if',
        (f"{WIRING}::test_the_reference_shares_its_batches_with_the_first_repeat_and_with_nothing_else",),
    ),
    Mutant(
        "training sees the groups of other rows",
        "execution/seed_data.py",
        "torch.from_numpy(first.groups[train])",
        "torch.from_numpy(first.groups[: len(train)])",
        (f"{WIRING}::test_a_training_reads_the_files_rows_of_its_seed",),
    ),
    Mutant(
        "--optimizer is ignored",
        "execution/worker.py",
        "optimizer=config.optimizer",
        'optimizer="sgd"',
        (f"{WIRING}::test_a_training_is_given_the_numbers_of_the_options",),
    ),
    Mutant(
        "--activation is ignored",
        "execution/model_setup.py",
        "config.hidden, config.activation, stream",
        'config.hidden, "tanh", stream',
        (f"{WIRING}::test_the_model_is_the_one_asked_for_and_a_seeds_arms_start_alike",),
    ),
    Mutant(
        "a job's id forgets hidden and activation",
        "planning/plan.py",
        "    *GATES,\n    *EXECUTION,",
        '    *GATES,\n    *EXECUTION,\n    *("hidden", "activation"),',
        (f"{IDENTITY}::test_an_option_changes_the_id_of_a_job_or_no_bit_of_its_result[activation]",),
    ),
    Mutant(
        "a job's id forgets how images are read",
        "planning/plan.py",
        "    *GATES,\n    *EXECUTION,",
        '    *GATES,\n    *EXECUTION,\n    *("pixel_range", "resize", "channels"),',
        (f"{IDENTITY}::test_an_option_changes_the_id_of_a_job_or_no_bit_of_its_result[pixel_range]",),
    ),
    Mutant(
        "a control reads the first seed's thresholds",
        "planning/plan.py",
        "source = ids.get(arm.source) if arm.source else None",
        "source = next((j.id for j in jobs if j.arm == arm.source), None) if arm.source else None",
        (f"{WIRING}::test_a_control_reads_what_its_source_released_at_the_same_seed",),
    ),
    Mutant(
        "failed seeds of the reference leave gates closed",
        "gate/targets.py",
        "partial.get(comparison.arm) or partial.get(comparison.reference) or assumed",
        "partial.get(comparison.arm) or assumed",
        (f"{TEXTS}::test_a_failed_seed_of_the_reference_leaves_every_gate_on_a_measurement_open",),
    ),
    Mutant(
        "each arm's row shows the first arm's cost",
        "report/sections/costs.py",
        "*_numbers(group, missing=plain(group.reason)),",
        "*_numbers(report.costs[0].by_group[0], missing=plain(group.reason)),",
        (f"{TEXTS}::test_costs",),
    ),
    Mutant(
        "arms are paired by place where rows are equal",
        "metrics/compare.py",
        "key=lambda p: p.seed)\n    matched = [of_seed[p.seed] for p in kept]",
        "key=lambda p: p.seed)\n    kept, matched = list(private)[: len(baseline)], list(baseline)",
        (f"{WIRING}::test_a_seed_that_one_arm_lost_is_left_out_of_the_other_though_the_rows_are_equal",),
    ),
    Mutant(
        "training accuracy of shifted groups",
        "execution/outcomes.py",
        "groups, k = grouping.groups[rows], len(grouping.names)",
        "groups, k = np.roll(grouping.groups[rows], 1), len(grouping.names)",
        (f"{WIRING}::test_training_metrics_are_of_the_training_rows_of_each_grouping",),
    ),
    Mutant(
        "training accuracy of another grouping",
        "analysis/measure.py",
        'f"{of}train_correct.{grouping}"',
        'f"{of}train_correct.0"',
        (f"{WIRING}::test_what_is_measured_is_what_was_predicted_for_each_arm_seed_and_group",),
    ),
    Mutant(
        "the scikit-learn baseline is read on training rows",
        "execution/worker.py",
        "        encoded.test[test],\n        labels[encoded.split.test[test]],",
        "        encoded.train[train],\n        labels[encoded.split.train[train]],",
        (f"{WIRING}::test_the_baseline_is_fitted_on_training_rows_and_read_on_test_rows",),
    ),
    Mutant(
        "no duplicate is across the split",
        "execution/worker.py",
        "np.isin(first[encoded.split.test], first[encoded.split.train])",
        "np.isin(encoded.split.test, encoded.split.train)",
        (f"{WIRING}::test_facts_are_those_of_the_training",),
    ),
    Mutant(
        "a group's own epsilon at another delta",
        "execution/worker.py",
        "**_individual(trained, plan.delta)",
        "**_individual(trained, 1e-2)",
        (f"{WIRING}::test_a_groups_own_epsilon_is_at_the_audits_delta",),
    ),
    Mutant(
        "plan rounds epsilon to the nearest",
        "cli/lines.py",
        'return "–" if value is None else shown_up(value)',
        'return "–" if value is None else f"{value:.2f}"',
        ("cli/test_plan_lines.py",),
    ),
    Mutant(
        "one repeat whatever was asked",
        "execution/worker.py",
        "        repeats=job.repeats,\n        settings",
        "        repeats=1,\n        settings",
        (f"{WIRING}::test_every_arm_trains_at_every_seed_with_its_own_name",),
    ),
    Mutant(
        "a control is given nothing",
        "execution/worker.py",
        "source=_released(arm, source)",
        "source={}",
        (f"{WIRING}::test_a_control_reads_what_its_source_released_at_the_same_seed",),
    ),
    Mutant(
        "records are numbered by the test rows",
        "execution/worker.py",
        "records=prepared.encoded.split.train",
        "records=prepared.encoded.split.test",
        (f"{WIRING}::test_a_training_reads_the_files_rows_of_its_seed",),
    ),
    Mutant(
        "no step is kept",
        "execution/worker.py",
        "checkpoints=_checkpoints(plan, job, model)",
        "checkpoints=()",
        (f"{WIRING}::test_readers_are_the_options",),
    ),
    Mutant(
        "a self-check draws its twin's batches",
        "execution/worker.py",
        'own = [f"{arm.key}/{repeat}"',
        'own = [f"{arm.method}/{repeat}"',
        (f"{WIRING}::test_the_reference_shares_its_batches_with_the_first_repeat_and_with_nothing_else",),
    ),
    Mutant(
        "predictions by the groups of other rows",
        "execution/outcomes.py",
        "torch.from_numpy(groups[rows[piece]])",
        "torch.from_numpy(groups[: len(inputs)])",
        (f"{WIRING}::test_predictions_are_those_of_the_test_rows_and_of_every_repeat",),
    ),
    Mutant(
        "test rows are counted as training rows",
        "execution/worker.py",
        '"n_train": len(encoded.split.train)',
        '"n_train": len(encoded.split.test)',
        (f"{WIRING}::test_facts_are_those_of_the_training",),
    ),
    Mutant(
        "training loss is training accuracy",
        "execution/outcomes.py",
        "_means(found.loss[:, some], groups, count)",
        "_means(found.correct[:, some], groups, count)",
        (f"{WIRING}::test_training_metrics_are_of_the_training_rows_of_each_grouping",),
    ),
    Mutant(
        "--memory counts in KiB",
        "execution/worker.py",
        "config.memory * 2**20",
        "config.memory * 2**10",
        (f"{WIRING}::test_a_training_is_given_the_numbers_of_the_options",),
    ),
    Mutant(
        "a student sees no pool",
        "execution/worker.py",
        "public=prepared.public",
        "public=None",
        (f"{WIRING}::test_a_student_is_given_the_public_file_and_teachers_are_encoded_by_it",),
    ),
    Mutant(
        "gradients are read at every step",
        "execution/worker.py",
        "Misalignment(every)",
        "Misalignment(1)",
        (f"{WIRING}::test_readers_are_the_options",),
    ),
    Mutant(
        "series forget when they were read",
        "execution/worker.py",
        "np.asarray(steps, dtype=np.int64)\n    return arrays",
        "np.arange(len(steps))\n    return arrays",
        (f"{WIRING}::test_series_are_kept_with_the_steps_that_they_were_read_at",),
    ),
    Mutant(
        "the public pool has one group",
        "execution/seed_data.py",
        "else torch.from_numpy(found.groups)",
        "else torch.from_numpy(0 * found.groups)",
        (f"{WIRING}::test_a_student_is_given_the_public_file_and_teachers_are_encoded_by_it",),
    ),
    Mutant(
        "training sees the labels of other rows",
        "execution/seed_data.py",
        "torch.from_numpy(dataset.labels[train])",
        "torch.from_numpy(dataset.labels[: len(train)])",
        (f"{WIRING}::test_a_training_reads_the_files_rows_of_its_seed",),
    ),
    Mutant(
        "groups of the last grouping steer training",
        "execution/seed_data.py",
        "first, train = dataset.groupings[0],",
        "first, train = dataset.groupings[-1],",
        (f"{WIRING}::test_a_training_reads_the_files_rows_of_its_seed",),
    ),
    Mutant(
        "every seed starts alike",
        "execution/model_setup.py",
        'seed_of(seed, "init")',
        'seed_of(0, "init")',
        (f"{WIRING}::test_the_model_is_the_one_asked_for_and_a_seeds_arms_start_alike",),
    ),
    Mutant(
        "a gate retrains everything",
        "planning/plan.py",
        "    *GATES,\n    *EXECUTION,",
        "    *EXECUTION,",
        (f"{IDENTITY}::test_an_option_changes_the_id_of_a_job_or_no_bit_of_its_result[fail_on]",),
    ),
    Mutant(
        "a job's id forgets delta",
        "planning/plan.py",
        "[event.effective_noise_multiplier, delta] if event",
        "[event.effective_noise_multiplier] if event",
        (f"{IDENTITY}::test_an_option_changes_the_id_of_a_job_or_no_bit_of_its_result[delta]",),
    ),
    Mutant(
        "a job's id forgets the code",
        "planning/plan.py",
        '"code": code[_modules(arm)]',
        '"code": ""',
        (f"{IDENTITY}::test_an_edit_of_what_a_method_is_built_from_is_another_job_and_of_that_method_alone",),
    ),
    Mutant(
        "a job's id forgets what it reads",
        "planning/plan.py",
        '"source": source,',
        '"source": None,',
        ("test_plan.py::test_a_control_depends_on_the_job_it_reads",),
    ),
    Mutant(
        "a job's id forgets the public file",
        "planning/plan.py",
        '**({"pool": pool} if reads_pool and pool else {}),',
        "",
        (f"{IDENTITY}::test_an_option_changes_the_id_of_a_job_or_no_bit_of_its_result[public_data]",),
    ),
    Mutant(
        "the code of the readings is left out",
        "planning/plan.py",
        "(arm.trainer, find(arm.method).readings)",
        "(arm.trainer,)",
        (
            f"{IDENTITY}::test_an_edit_of_what_a_method_is_built_from_is_another_job_and_of_that_method_alone[plugged/read.py]",
        ),
    ),
    Mutant(
        "imports inside functions are not followed",
        "io/code_digest.py",
        "for node in ast.walk(tree):",
        "for node in tree.body:",
        (f"{IDENTITY}::test_an_edit_of_what_a_method_is_built_from_is_another_job_and_of_that_method_alone",),
    ),
    Mutant(
        "first repeats are released twice",
        "planning/plan.py",
        "(arm.repeats - arm.shares_samples) * seeds",
        "arm.repeats * seeds",
        ("test_plan_epsilon.py",),
    ),
    Mutant(
        "training loss of another grouping",
        "analysis/measure.py",
        'f"{of}train_loss.{grouping}"',
        'f"{of}train_loss.0"',
        (f"{WIRING}::test_what_is_measured_is_what_was_predicted_for_each_arm_seed_and_group",),
    ),
    Mutant(
        "a drawn split is called fixed",
        "analysis/measure.py",
        "is_given = dataset.split is not None",
        "is_given = dataset.split is None",
        (f"{WIRING}::test_what_is_measured_is_what_was_predicted_for_each_arm_seed_and_group",),
    ),
    Mutant(
        "no arm is compared with sgd beside its own reference",
        "analysis/measure.py",
        "else [own.key, REFERENCE]",
        "else [own.key]",
        ("test_measure.py",),
    ),
    Mutant(
        "a smaller test set takes the baseline's first rows",
        "analysis/measure.py",
        "p.probabilities[:, place]",
        "p.probabilities[:, : len(place)]",
        ("test_measure.py",),
    ),
    Mutant(
        "what privacy costs is what it gains",
        "metrics/tables.py",
        "by_seed=spec.rise * table.by_seed",
        "by_seed=-spec.rise * table.by_seed",
        (f"{WIRING}::test_what_is_measured_is_what_was_predicted_for_each_arm_seed_and_group",),
    ),
    Mutant(
        "training cost has the other sign",
        "metrics/compare.py",
        "rise * own - rise * other",
        "rise * other - rise * own",
        (f"{WIRING}::test_what_is_measured_is_what_was_predicted_for_each_arm_seed_and_group",),
    ),
    Mutant(
        "only the first repeat is measured on training rows",
        "metrics/compare.py",
        'p.over_runs(getattr(p, f"train_{metric}"))',
        'getattr(p, f"train_{metric}")[0]',
        (f"{WIRING}::test_what_is_measured_is_what_was_predicted_for_each_arm_seed_and_group",),
    ),
    Mutant(
        "the worst group is the best",
        "metrics/compare.py",
        'pick = max if spec_of(metric).worst == "highest" else min',
        'pick = min if spec_of(metric).worst == "highest" else max',
        ("metrics/test_compare.py",),
    ),
    Mutant(
        "test records have no floor of uncertainty",
        "metrics/intervals.py",
        "2.0 / (counts + 2.0) ** 2",
        "0.0 / (counts + 2.0) ** 2",
        ("metrics/test_intervals.py",),
    ),
    Mutant(
        "many pairs share no quantile",
        "metrics/gaps.py",
        "family = max(1, len(cut.eligible) * (len(cut.eligible) - 1) // 2)",
        "family = 1",
        ("metrics/test_compare.py",),
    ),
    Mutant(
        "a group of three is compared",
        "metrics/gaps.py",
        'if n < LEAST_RECORDS:\n            return f"group',
        'if n < 3:\n            return f"group',
        ("metrics/test_compare.py",),
    ),
    Mutant(
        "worse for the other group",
        "metrics/gaps.py",
        '(value > 0) == (spec.worst == "highest")',
        '(value > 0) != (spec.worst == "highest")',
        ("metrics/test_compare.py",),
    ),
    Mutant(
        "ratios divide by the least selected group",
        "metrics/tables.py",
        "top = max(usable, key=lambda k: mean[k])",
        "top = min(usable, key=lambda k: mean[k])",
        ("metrics/test_compare.py",),
    ),
    Mutant(
        "a record tested at several seeds counts anew",
        "metrics/intervals.py",
        "total[place] += one",
        "total[place] = one",
        ("metrics/test_intervals.py",),
    ),
    Mutant(
        "a loss is read by gates in any group",
        "metrics/gaps.py",
        "if table.counts[k] < spec.least_gated",
        "if table.counts[k] < 0",
        ("metrics/test_compare.py",),
    ),
    Mutant(
        "an undertrained reference is well trained",
        "metrics/sklearn_check.py",
        "baseline_accuracy - reference_accuracy > UNDERTRAINED_BY",
        "reference_accuracy - baseline_accuracy > UNDERTRAINED_BY",
        ("metrics/test_sklearn_check.py",),
    ),
    Mutant(
        "inconclusive is better than a pass",
        "report/summary.py",
        '("pass", "inconclusive", "fail")',
        '("inconclusive", "pass", "fail")',
        ("gate/test_check.py",),
    ),
    Mutant(
        "many numbers share no interval",
        "gate/check.py",
        "among=uncertain[target.arm]",
        "among=1",
        ("gate/test_check.py",),
    ),
    Mutant(
        "an interval across the threshold passes",
        "gate/judge.py",
        "if not any(rule.fails(end) for end in ends):",
        "if not all(rule.fails(end) for end in ends):",
        ("gate/test_check.py",),
    ),
    Mutant(
        "a change is narrower than its two intervals",
        "gate/judge.py",
        "_difference(mine.low, theirs.high)",
        "_difference(mine.low, theirs.low)",
        ("gate/test_check.py",),
    ),
    Mutant(
        "equal numbers of other trainings are no change",
        "gate/judge.py",
        "is_same = same_trainings and now.seeds",
        "is_same = now.seeds",
        ("gate/test_check.py", "test_changes.py"),
    ),
    Mutant(
        "other arms' trainings count as this one's",
        "report/model.py",
        "mine.get(key) and mine.get(key) == theirs.get(key)",
        "mine.get(key) == theirs.get(key)",
        ("gate/test_check.py",),
    ),
    Mutant(
        "a change of epsilon is that of binary numbers",
        "gate/judge.py",
        "float(Decimal(repr(float(a))) - Decimal(repr(float(b))))",
        "a - b",
        ("gate/test_check.py",),
    ),
    Mutant(
        "an interval leaves what a fraction can be",
        "metrics/tables.py",
        "spec.no_interval,\n            bounds=bounds,",
        "spec.no_interval,",
        ("test_score.py::test_no_interval_of_a_fraction_leaves_what_a_fraction_can_be",),
    ),
    Mutant(
        "a gap has the bounds of its groups",
        "metrics/intervals.py",
        "bounds=table.bounds if b is None else (least - most, most - least)",
        "bounds=table.bounds",
        ("metrics/test_intervals.py",),
    ),
    Mutant(
        "a gap that was cut above grows by what is left of it",
        "gate/joint_interval.py",
        "min(ends.low, 2 * value - ends.high)",
        "2 * value - ends.high",
        ("gate/test_intervals.py",),
    ),
    Mutant(
        "the wanted error is that of the pilot's first part",
        "diagnostics/causes.py",
        "torch.maximum(OF_PART * parts[:2], OF_ALL * parts.sum(0))",
        "OF_PART * parts[:2]",
        ("diagnostics/test_causes.py",),
    ),
    Mutant(
        "one lost seed of the arm leaves gates closed",
        "gate/targets.py",
        "partial.get(comparison.arm) or partial.get(comparison.reference) or assumed",
        "partial.get(comparison.reference) or assumed",
        ("gate/test_check.py",),
    ),
    Mutant(
        "a rule about all rows reads the first group",
        "gate/targets.py",
        "yield _group_target(rule, comparison, comparison.overall)",
        "yield _group_target(rule, comparison, comparison.by_group[0])",
        ("gate/test_check.py::test_a_rule_about_all_rows_reads_them_all",),
    ),
    Mutant(
        "a rule about a pair reads the largest gap",
        "gate/targets.py",
        "next((g for g in pairs if {g.a, g.b} == set(names)), None)",
        "next(iter(pairs), None)",
        ("gate/test_check.py",),
    ),
    Mutant(
        "costs are shown as fractions",
        "report/written.py",
        "POINTS = Scale(100.0, partial(number, decimals=1)",
        "POINTS = Scale(1.0, partial(number, decimals=1)",
        (f"{TEXTS}::test_costs",),
    ),
    Mutant(
        "training rows stand under test rows",
        "report/sections/costs.py",
        "return group.n_test, *map(bare, found), cost",
        "return int(group.n_train or 0), *map(bare, found), cost",
        (f"{TEXTS}::test_costs",),
    ),
    Mutant(
        "before and after change places",
        "report/sections/metrics.py",
        """{number(g.value(f'reference.{m}'))} → {number(g.value(m))}""",
        """{number(g.value(m))} → {number(g.value(f'reference.{m}'))}""",
        (f"{TEXTS}::test_within_each_model",),
    ),
    Mutant(
        "shares of training and test rows change places",
        "report/sections/costs.py",
        "gap.signed.training_sd, gap.signed.records_sd)",
        "gap.signed.records_sd, gap.signed.training_sd)",
        (f"{TEXTS}::test_gaps",),
    ),
    Mutant(
        "every epsilon of a sweep shows the first one's costs",
        "report/sections/sweep.py",
        "Quantity(point.cost.get(group), POINTS, UNKNOWN)",
        "Quantity(points[0].cost.get(group), POINTS, UNKNOWN)",
        (f"{TEXTS}::test_costs_over_epsilon",),
    ),
    Mutant(
        "a sweep's gap is another group's cost",
        "analysis/build_measured.py",
        "gap=None if gap is None else interval_of(gap.absolute)",
        "gap=None if gap is None else interval_of(gap.signed)",
        (f"{TEXTS}::test_costs_over_epsilon",),
    ),
    Mutant(
        "the register shows one epsilon for all",
        "report/sections/guarantee.py",
        "_row(key, facts) for key, facts in",
        "_row(key, first) for key, facts in",
        (f"{TEXTS}::test_epsilons_of_the_register_are_those_of_their_arm_and_never_below",),
    ),
    Mutant(
        "the guarantee shows the other accountant's epsilon",
        "report/sections/guarantee.py",
        "ε ≤ {shown_up(facts.epsilon.headline)}",
        "ε ≤ {shown_up(facts.epsilon.rdp or 0.0)}",
        (f"{TEXTS}::test_every_epsilon_of_the_text_has_its_delta_beside_it",),
    ),
    Mutant(
        "epsilon is rounded to the nearest",
        "privacy/events.py",
        "rounding=ROUND_CEILING):f}",
        "rounding=None):f}",
        (f"{TEXTS}::test_epsilons_of_the_register_are_those_of_their_arm_and_never_below",),
    ),
    Mutant(
        "curves are those of the last seed",
        "analysis/arm_readings.py",
        "return np.where(count > 0, total / np.maximum(count, 1), np.nan)",
        "return values[-1]",
        (f"{TEXTS}::test_last_readings_of_the_training",),
    ),
    Mutant(
        "charts show fractions as points",
        "report/charts_costs.py",
        "PERCENT = 100.0",
        "PERCENT = 1.0",
        (f"{TEXTS}::test_marks_of_the_figures_stand_in_the_row_of_their_arm_and_the_colour_of_their_group",),
    ),
    Mutant(
        "the chart's low end is the value",
        "results/estimates.py",
        "low=None if low is None else factor * low,",
        "low=None if low is None else factor * self.value,",
        (f"{TEXTS}::test_numbers_below_a_figure",),
    ),
    Mutant(
        "no pair was named beforehand",
        "analysis/build_measured.py",
        '_named(gap) if gap.kind == "pair" and',
        '_named(gap) if gap.kind == "mean" and',
        (f"{TEXTS}::test_gaps",),
    ),
    Mutant(
        "the terminal shows the private model as the reference",
        "report/sections/costs.py",
        'for metric in ("reference.accuracy", "accuracy")]',
        'for metric in ("accuracy", "reference.accuracy")]',
        (f"{TEXTS}::test_the_terminal_shows_the_costs_of_a_few_methods_by_group",),
    ),
    Mutant(
        "the terminal shows the gap that was not looked for",
        "report/sections/costs.py",
        "Quantity(gap.size, POINTS), plain(reading(gap), 60)",
        "Quantity(gap.signed, POINTS), plain(reading(gap), 60)",
        (f"{TEXTS}::test_the_terminal_shows_the_costs_of_a_few_methods_by_group",),
    ),
    Mutant(
        "the reference's selection rates are the arm's",
        "analysis/build_measured.py",
        '(comparison.reference, "reference."), (comparison.arm, "")',
        '(comparison.reference, ""), (comparison.arm, "")',
        ("report/test_to_markdown.py::test_the_markdown_is_as_reviewed",),
    ),
    Mutant(
        "excess risk stands under cost",
        "report/sections/costs.py",
        "Quantity(group.estimates.get(cost), scale_of(cost))",
        "Quantity(group.estimates.get(COST), scale_of(COST))",
        (f"{TEXTS}::test_costs",),
    ),
    # engine, privacy and methods
    Mutant(
        "noise of a released minimiser is halved",
        "methods/minimiser.py",
        "point + noise_std(task) *",
        "point + 0.5 * noise_std(task) *",
        ("laws/test_whole_releases.py", "methods/test_output_perturbation.py"),
    ),
    Mutant(
        "votes get noise without the root of two",
        "methods/teachers.py",
        '["noise_multiplier"] * VOTE_SENSITIVITY',
        '["noise_multiplier"]',
        ("laws/test_whole_releases.py",),
    ),
    Mutant(
        "all arms draw one noise",
        "methods/gradient.py",
        'noise_stream(task.seed, "noise", task.arm, task.repeats)',
        'noise_stream(task.seed, "noise", "arm", task.repeats)',
        ("laws/test_one_step.py",),
    ),
    Mutant(
        "a self-check draws its twin's noise",
        "methods/gradient.py",
        'noise_stream(task.seed, "noise", task.arm, task.repeats)',
        'noise_stream(task.seed, "noise", task.arm.split("#")[0], task.repeats)',
        ("laws/test_one_step.py",),
    ),
    Mutant(
        "every seed draws one noise",
        "methods/gradient.py",
        'noise_stream(task.seed, "noise", task.arm, task.repeats)',
        'noise_stream(0, "noise", task.arm, task.repeats)',
        ("laws/test_one_step.py",),
    ),
    Mutant(
        "rule and objective draw one noise",
        "methods/gradient.py",
        '(task.seed, "query", f"{task.arm}/rule", task.repeats)',
        '(task.seed, "query", f"{task.arm}/objective", task.repeats)',
        ("laws/test_one_step.py",),
    ),
    Mutant(
        "all repeats train on the reference's batches",
        "methods/gradient.py",
        '[numpy_stream(task.seed, "sampling", label) for label in task.sampling]',
        '[numpy_stream(task.seed, "sampling", "shared") for label in task.sampling]',
        ("laws/test_one_step.py",),
    ),
    Mutant(
        "every seed draws one sample",
        "methods/gradient.py",
        '[numpy_stream(task.seed, "sampling", label) for label in task.sampling]',
        '[numpy_stream(0, "sampling", label) for label in task.sampling]',
        ("laws/test_one_step.py",),
    ),
    Mutant(
        "the minimiser's sensitivity is halved",
        "methods/minimiser.py",
        "return lipschitz / (n_public * penalty)",
        "return lipschitz / (2.0 * n_public * penalty)",
        ("laws/test_whole_releases.py", "methods/test_output_perturbation.py"),
    ),
    Mutant(
        "a record's length forgets its intercept",
        "methods/minimiser.py",
        "math.hypot(feature_norm, intercept)",
        "max(feature_norm, intercept)",
        ("laws/test_whole_releases.py", "methods/test_output_perturbation.py"),
    ),
    Mutant(
        "many classes move a minimiser as two do",
        "methods/minimiser.py",
        "(1.0 if classes == 2 else math.sqrt(2.0))",
        "1.0",
        ("methods/test_output_perturbation.py",),
    ),
    Mutant(
        "all arms draw one noise of a minimiser",
        "methods/minimiser.py",
        'noise_stream(task.seed, "noise", task.arm, task.repeats)',
        'noise_stream(task.seed, "noise", "arm", task.repeats)',
        ("laws/test_whole_releases.py",),
    ),
    Mutant(
        "every seed draws one noise of votes",
        "methods/teachers.py",
        'noise_stream(task.seed, "noise", task.arm, task.repeats)',
        'noise_stream(0, "noise", task.arm, task.repeats)',
        ("laws/test_whole_releases.py",),
    ),
    Mutant(
        "many releases of votes are one",
        "methods/teachers.py",
        "len(votes) * draws.draws)",
        "draws.draws)",
        ("laws/test_whole_releases.py",),
    ),
    Mutant(
        "noise grows with its multiplier's square",
        "engine/release.py",
        "value=self.noise_multiplier)",
        "value=self.noise_multiplier**2)",
        ("laws/test_one_step.py",),
    ),
    Mutant(
        "replicates share a sensitivity",
        "engine/release.py",
        "sensitivity.unsqueeze(1)",
        "sensitivity.mean().expand(len(drawn), 1)",
        ("laws/test_one_step.py", "laws/test_rules.py", "laws/test_neighbours.py"),
    ),
    Mutant(
        "replicates share a divisor",
        "engine/release.py",
        "return gradient.div_(facts.divisor)\n\n    def event",
        "return gradient.div_(facts.divisor.mean())\n\n    def event",
        ("laws/test_one_step.py::test_every_replicate_is_divided_by_its_own_expected_batch_size",),
    ),
    Mutant(
        "a loop's step is free",
        "opacus/optimizer.py",
        "        if last:\n            self.accountant.charge()\n        if last or",
        "        if last or",
        ("test_opacus.py",),
    ),
    Mutant(
        "a part of a batch is a batch",
        "opacus/optimizer.py",
        "if last or self._rule.part.query_noise_multiplier is None:",
        "if True:",
        ("test_opacus.py",),
    ),
    Mutant(
        "a batch that broke off joins the next",
        "opacus/optimizer.py",
        "        self._waiting: list[_Part] = []\n",
        "        self._waiting: list[_Part] = getattr(self, '_waiting', [])\n",
        ("test_opacus.py",),
    ),
    Mutant(
        "noise begins anew after a state is loaded",
        "opacus/private.py",
        'after = f"/after {taken}" if taken else ""',
        'after = ""',
        ("test_opacus.py",),
    ),
    Mutant(
        "groups of one batch serve the next",
        "opacus/optimizer.py",
        "group, self._group = self._group, None",
        "group = self._group",
        ("test_opacus.py",),
    ),
    Mutant(
        "a record that is not finite reaches the sum",
        "opacus/optimizer.py",
        "if not bool(finite.all()):",
        "if False:",
        ("test_opacus.py",),
    ),
    Mutant(
        "a loop goes on beyond its target",
        "opacus/accountant.py",
        "self.steps >= self.planned.steps",
        "self.steps > self.planned.steps",
        ("test_opacus.py",),
    ),
    Mutant(
        "norms are trusted to the last bit",
        "engine/loop.py",
        "NORM_GUARD = 1.0 + 1e-5",
        "NORM_GUARD = 1.0",
        ("laws/test_one_step.py::test_what_one_record_adds_is_no_longer_than_the_bound_to_the_last_bit",),
    ),
    Mutant(
        "the ledger misses a step",
        "engine/loop.py",
        "training.sampler.steps_per_epoch, self.taken, (gradient",
        "training.sampler.steps_per_epoch, self.taken - 1, (gradient",
        ("laws/test_trainings.py",),
    ),
    Mutant(
        "the ledger misses the side queries",
        "engine/loop.py",
        "self.taken, (gradient, *asked))",
        "self.taken, (gradient, *asked[:0]))",
        ("laws/test_trainings.py",),
    ),
    Mutant(
        "a query's noise has no scale",
        "engine/loop.py",
        "answer.add_(drawn, alpha=multiplier)",
        "answer.add_(drawn)",
        ("laws/test_one_step.py",),
    ),
    Mutant(
        "padding answers queries",
        "engine/loop.py",
        "            query = query * present.unsqueeze(-1)\n",
        "            pass\n",
        ("engine/test_loop.py::test_a_place_that_pads_a_batch_answers_no_query",),
    ),
    Mutant(
        "long gradients are cut short of the bound",
        "engine/rules.py",
        "released.unsqueeze(-1).div(norms).clamp_(max=1.0)",
        "released.unsqueeze(-1).div(norms.clamp(max=1e3)).clamp_(max=1.0)",
        ("laws/test_rules.py", "laws/test_neighbours.py"),
    ),
    Mutant(
        "samples are drawn at another rate",
        "engine/sampling.py",
        "rate = -np.log1p(-1.0 / steps_per_epoch)",
        "rate = 1.0 / steps_per_epoch",
        ("engine/test_sampling.py",),
    ),
    Mutant(
        "releases of one step add up as if alike",
        "privacy/events.py",
        "1.0 / math.sqrt(sum(r.noise_multiplier**-2 for r in self.releases))",
        "1.0 / sum(r.noise_multiplier**-1 for r in self.releases)",
        ("privacy/test_accounting.py",),
    ),
    Mutant(
        "a step reveals what its loudest release does",
        "privacy/events.py",
        "1.0 / math.sqrt(sum(r.noise_multiplier**-2 for r in self.releases))",
        "min(r.noise_multiplier for r in self.releases)",
        ("privacy/test_accounting.py",),
    ),
    Mutant(
        "many releases reveal what one does",
        "privacy/accounting.py",
        "return _rounded_up(sigma * math.sqrt(count), digits=6)",
        "return _rounded_up(sigma, digits=6)",
        ("privacy/test_accounting.py",),
    ),
    Mutant(
        "a group's noise is that of its typical step",
        "privacy/individual.py",
        ".max(axis=1)",
        ".mean(axis=1)",
        ("privacy/test_individual.py",),
    ),
    Mutant(
        "a group's steps are counted once too few",
        "privacy/individual.py",
        "ends[end]), int",
        "ends[begin[end]]), int",
        ("privacy/test_individual.py",),
    ),
    Mutant(
        "a group's epsilon forgets the side queries",
        "privacy/individual.py",
        " ** -2.0 + side",
        " ** -2.0",
        ("privacy/test_individual.py",),
    ),
    Mutant(
        "noise ends where float32 does",
        "privacy/noise.py",
        "            self._redraw(row.view(-1).numpy())",
        "            pass",
        ("privacy/test_noise.py",),
    ),
    Mutant(
        "the tail is too thin",
        "privacy/noise.py",
        "_BEYOND * (1.0 - stream.random())",
        "_BEYOND * 0.9 * (1.0 - stream.random())",
        ("privacy/test_noise.py",),
    ),
    Mutant(
        "every seed draws one tail",
        "privacy/noise.py",
        'numpy_stream(seed, "tail")',
        'numpy_stream(0, "tail")',
        ("privacy/test_noise.py",),
    ),
    Mutant(
        "the tail has one side",
        "privacy/noise.py",
        "math.copysign(draw_tail(self._tail), values[place])",
        "draw_tail(self._tail)",
        ("privacy/test_noise.py",),
    ),
    Mutant(
        "noise drawn ahead repeats",
        "privacy/noise.py",
        "        return ahead.draws[ahead.left]",
        "        return ahead.draws[0]",
        ("privacy/test_noise.py",),
    ),
    Mutant(
        "many votes are charged as one",
        "methods/spec.py",
        "return calibrate_gaussian(self._count(settings), delta, target)",
        "return calibrate_gaussian(1, delta, target)",
        ("test_plan_epsilon.py::test_noise_that_meets_a_target_meets_it_for_all_votes_together",),
    ),
    Mutant(
        "what a user's model left behind is not looked at",
        "engine/isolation.py",
        "        name = changed(self._before, _read(self.module))",
        '        name = ""',
        ("laws/test_own_models.py::test_a_model_that_remembers_is_refused_by_name_with_what_to_do",),
    ),
    Mutant(
        "a user's model may write to what it is handed",
        "engine/isolation.py",
        "            if not torch.equal(_bits(handed[name]), _bits(value)):",
        "            if False:",
        ("laws/test_own_models.py::test_what_a_model_remembers_is_named",),
    ),
    Mutant(
        "a user's model may put another tensor in place of a buffer",
        "engine/isolation.py",
        "            if given[name] is not value:",
        "            if False:",
        ("laws/test_own_models.py::test_what_a_model_remembers_is_named",),
    ),
    Mutant(
        "tensors of records may outlive their pass",
        "engine/isolation.py",
        "            _refuse_survivors(made)",
        "            pass",
        ("laws/test_own_models.py::test_tensors_of_records_that_outlive_a_pass_are_found_wherever_they_are",),
    ),
    Mutant(
        "a function of the user's says how it runs on many records",
        "engine/isolation.py",
        "self.at_once = False if has_own_vmap(self._before) else None",
        "self.at_once = None",
        ("laws/test_own_models.py::test_records_that_would_meet_in_a_batch_do_not",),
    ),
    Mutant(
        "one record's draws follow another's",
        "engine/isolation.py",
        "global_stream(*work.stream, number), faults()",
        "faults()",
        ("laws/test_own_models.py",),
    ),
    Mutant(
        "a chain with hooks takes the fast path",
        "engine/layers.py",
        'return "forward" not in vars(module) and not any(getattr(module, name) for name in hooks)',
        "return True",
        (
            "engine/test_isolated.py",
            "laws/test_own_models.py::test_a_model_that_remembers_is_refused_by_name_with_what_to_do",
        ),
    ),
    Mutant(
        "code that a user's code names is not followed",
        "engine/memory.py",
        "            for name in self.mentioned & vars(module).keys():",
        "            for name in ():",
        (OWN_MODELS,),
    ),
    Mutant(
        "modules of a user's code are not read",
        "engine/memory.py",
        "            self.modules.append(code)  #",
        "            pass  #",
        (OWN_MODELS,),
    ),
    Mutant(
        "what no code of a user's mentions is not read",
        "engine/memory.py",
        "        self._read_modules()\n",
        "",
        (f"{OWN_MODELS}::test_a_model_that_remembers_is_refused_by_name_with_what_to_do",),
    ),
    Mutant(
        "storage is replaced unseen",
        "engine/memory.py",
        "if func == _SET_DATA:",
        "if func is _SET_DATA:",
        ("engine/test_isolated.py::test_the_storage_of_a_tensor_is_not_replaced_where_tensors_are_noted",),
    ),
    Mutant(
        "an error that a user's code went on from is overlooked",
        "engine/isolation.py",
        "return None if made.has_raised else found",
        "return found",
        (OWN_MODELS,),
    ),
    Mutant(
        "what is drawn follows the number of records",
        "engine/isolation.py",
        "padded = [torch.cat([r, r.new_zeros(BLOCK - len(r), *r.shape[1:])]) for r in rows]",
        "padded = rows",
        (f"{OWN_MODELS}::test_draws_of_one_record_do_not_move_with_another",),
    ),
    Mutant(
        "a call leaves other parameters behind",
        "engine/isolation.py",
        "                    setattr(part, name, parameter)",
        "                    pass",
        (OWN_MODELS, "engine/test_isolated.py"),
    ),
    Mutant(
        "two threads put back each other's variables",
        "execution/local.py",
        "    with _STARTING, environment(_AT_START):",
        "    with environment(_AT_START):",
        ("test_pool.py::test_threads_that_start_servers_at_once_leave_the_variables_as_they_were",),
    ),
    Mutant(
        "workers import what lies in the current folder",
        "execution/local.py",
        "_AT_START = {**ONE_THREAD, **_SAFE_PATH}",
        "_AT_START = dict(ONE_THREAD)",
        ("test_pool.py::test_workers_do_not_import_what_lies_in_the_current_folder",),
    ),
    Mutant(
        "any module alone is a linear model for PATE",
        "methods/teachers.py",
        "return len(layers) == 1 and type(layers[0]) is torch.nn.Linear and layers[0].bias is not None",
        "return len(layers) == 1",
        ("methods/test_pate.py::test_only_one_linear_layer_is_solved_exactly",),
    ),
    Mutant(
        "a group alone has the narrow interval",
        "metrics/intervals.py",
        "        v_shared = v_rec  #",
        "        pass  #",
        ("metrics/test_intervals.py",),
    ),
    Mutant(
        "a report of today needs no digest",
        "report/load.py",
        "    if is_sealed and content_sha256(content) != report.content_sha256:",
        "    if False:",
        ("report/test_coherent.py::test_without_its_digest_a_report_is_refused",),
    ),
    # --- twins and health
    Mutant(
        "a twin answers side queries with their noise",
        "methods/spec.py",
        'dict.fromkeys(("noise_multiplier", *self.side_queries.values()), 0.0)',
        'dict.fromkeys(("noise_multiplier",), 0.0)',
        ("methods/test_twins.py::test_no_stream_of_noise_moves_a_twin_and_nothing_is_claimed_for_it",),
    ),
    Mutant(
        "a twin is the arm itself",
        "execution/worker.py",
        "task = replace(noiseless(arm, task), checkpoints=())",
        "task = replace(task, checkpoints=())",
        ("methods/test_twins.py::test_the_twin_of_dpsgd_is_the_ablations_arm_that_only_clips",),
    ),
    Mutant(
        "the noise's part is the twin's with the sign turned",
        "metrics/compare.py",
        'costs_between(private, between, labels, records, outcome, "noise")',
        'costs_between(between, private, labels, records, outcome, "noise")',
        (f"{WIRING}::test_a_cost_is_what_it_is_without_noise_and_what_noise_adds",),
    ),
    Mutant(
        "the part without noise is the whole cost",
        "metrics/compare.py",
        "costs_between(between, baseline, labels, records, outcome, twin.part)",
        "costs_between(private, baseline, labels, records, outcome, twin.part)",
        (f"{WIRING}::test_a_cost_is_what_it_is_without_noise_and_what_noise_adds",),
    ),
    Mutant(
        "an absent twin is taken for the reference",
        "metrics/compare.py",
        "    if not lacking:\n        return found\n",
        "    return found\n",
        ("metrics/test_compare.py::test_a_twin_that_lacks_a_seed_leaves_the_parts_without_a_value",),
    ),
    Mutant(
        "the constant model knows the test rows",
        "execution/worker.py",
        "np.bincount(dataset.labels[split.train],",
        "np.bincount(dataset.labels[split.test],",
        (f"{WIRING}::test_a_cost_against_a_constant_model_is_by_the_training_rows_shares",),
    ),
    Mutant(
        "a part of a gap keeps its sign where the gap is turned round",
        "report/parts.py",
        "sign = -1.0 if gaps[0].signed.value < 0 else 1.0",
        "sign = 1.0",
        ("analysis/test_texts.py::test_costs_in_their_parts",),
    ),
    Mutant(
        "any part without noise is most of a cost",
        "analysis/health.py",
        "split.still.low > split.total.value / 2",
        "split.still.low > 0",
        ("analysis/test_health.py::test_most_of_a_cost_is_there_without_noise",),
    ),
    Mutant(
        "a rule about a part is held against any method",
        "gate/targets.py",
        "if c.arm in split and metric.key not in c.overall.estimates",
        "if False",
        ("analysis/test_health.py::test_a_rule_about_a_part_leaves_out_methods_that_have_another",),
    ),
    Mutant(
        "what a search gains is told of the tuned models alone",
        "analysis/measure.py",
        "default := _predictions(untuned, arm.key, number, results)",
        "default := _predictions(plan, arm.key, number, results)",
        ("tuning/test_ways.py::test_what_searching_gains_is_the_tuned_accuracy_minus_the_default_ones",),
    ),
    Mutant(
        "a gain is said where none is shown",
        "report/summarize.py",
        '    if not gain.excludes_zero:\n        return f" That searching',
        '    if not gain.ends:\n        return f" That searching',
        ("tuning/test_ways.py::test_the_summary_says_whether_searching_paid",),
    ),
    Mutant(
        "the number of tries is always the logarithmic one",
        "tuning/charge.py",
        "SHAPES = (1.0, 0.0)",
        "SHAPES = (0.0,)",
        ("release/test_search.py::test_epsilon_is_the_audits_charged_one",),
    ),
    Mutant(
        "a search that only fewer tries can afford is refused",
        "tuning/charge.py",
        "SHAPES = (1.0, 0.0)",
        "SHAPES = (1.0,)",
        ("tuning/test_trials.py::test_tries_are_geometric_unless_only_fewer_are_affordable",),
    ),
    Mutant(
        "a base that no noise meets ends the search for one",
        "privacy/selection.py",
        "            low, unmet = max(low, math.log(base)), too_small",
        "            raise",
        ("privacy/test_selection.py::test_a_base_is_found_above_those_that_no_noise_meets",),
    ),
    Mutant(
        "the threshold methods take the flat step",
        "planning/arms.py",
        'effective_step(settings["learning_rate"], threshold, bound)',
        'effective_step(settings["learning_rate"], bound, bound)',
        ("test_plan.py::test_a_shared_step_is_the_effective_one_of_methods_that_scale_by_the_threshold",),
    ),
)


def make_copy(folder: Path) -> Path:
    tree = folder / "tree"
    tree.mkdir()
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, tree / name)
    if (ROOT.parent / "shared").exists():  # real data, for tests that name it
        (folder / "shared").symlink_to(ROOT.parent / "shared")
    return tree


def run_tests(tree: Path, tests: tuple[str, ...]) -> tuple[int, str]:
    """pytest's exit status, and the names of the tests that failed.

    In a fork of this process, which has the libraries imported that take most of a test's time.
    """
    log = tree.parent / "log"
    child = os.fork()
    if not child:
        code = 70
        try:
            with log.open("wb") as out:
                os.dup2(out.fileno(), 1)
                os.dup2(out.fileno(), 2)
            os.chdir(tree)
            sys.path[0] = str(tree)
            os.environ["PYTHONPATH"] = str(tree)
            # Without byte code: a file that changes twice in one second would be read from the first one's.
            os.environ["PYTHONDONTWRITEBYTECODE"], sys.dont_write_bytecode = "1", True
            names = [f"tests/{test}" for test in tests]
            code = pytest.main([*OPTIONS, "-m", "not fuzz", *names])
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    said = log.read_text(encoding="utf-8", errors="replace")
    failed = [line.split(" - ")[0].split("tests/", 1)[1] for line in said.splitlines()
              if line.startswith(("FAILED ", "ERROR "))]  # fmt: skip
    return code, ", ".join(failed) or f"exit status {code}: {said[-2000:]}"


def is_there(test: str) -> bool:
    return (ROOT / "tests" / test.partition("::")[0]).is_file()


def obstacle(tree: Path, mutant: Mutant) -> str:
    """Why the mistake cannot be made in the tree, or ""."""
    absent = [test for test in mutant.tests if not is_there(test)]
    if absent:
        return f"there is no tests/{absent[0]}"
    path = tree / "fairaudit" / mutant.file
    honest = path.read_text(encoding="utf-8") if path.is_file() else ""
    found = honest.count(mutant.old)
    if found != 1:
        return f"its text stands {found} times in fairaudit/{mutant.file}"
    if mutant.new == mutant.old:
        return "it changes nothing"
    try:
        compile(honest.replace(mutant.old, mutant.new), str(path), "exec", dont_inherit=True)
    except SyntaxError as error:
        return f"it cannot be compiled: {error}"
    return ""


def attempt(tree: Path, mutant: Mutant) -> tuple[str, str]:
    """``caught``, ``SURVIVED`` or ``VOID`` (the mistake could not be made), and what says so."""
    why_not = obstacle(tree, mutant)
    if why_not:
        return "VOID", why_not
    path = tree / "fairaudit" / mutant.file
    honest = path.read_text(encoding="utf-8")
    try:
        path.write_text(honest.replace(mutant.old, mutant.new), encoding="utf-8")
        code, said = run_tests(tree, mutant.tests)
    finally:
        path.write_text(honest, encoding="utf-8")
    # A test that the mistake makes the interpreter die of has seen it.
    return "caught" if code < 0 else {0: "SURVIVED", 1: "caught"}.get(code, "VOID"), said


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("words", nargs="*", help="try those whose file or name holds one of these words")
    words = parser.parse_args().words
    chosen = [m for m in MUTANTS if not words or any(word in f"{m.file} {m.name}" for word in words)]
    counts: Counter[str] = Counter()
    for library in LIBRARIES:
        importlib.import_module(library)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = make_copy(Path(folder))
        tests = tuple(sorted({test for mutant in chosen for test in mutant.tests if is_there(test)}))
        code, said = run_tests(tree, tests)
        if code != 0:
            say(f"the tests fail without any mistake: {said}")
            return 2
        for mutant in chosen:
            began = time.monotonic()
            outcome, said = attempt(tree, mutant)
            counts[outcome] += 1
            took = time.monotonic() - began
            say(f"{outcome:8} {mutant.file}: {mutant.name} [{took:.0f} s] {said}")
    say(", ".join(f"{number} {outcome}" for outcome, number in sorted(counts.items())) or "none chosen")
    return 0 if set(counts) == {"caught"} else 1


if __name__ == "__main__":
    sys.exit(main())
