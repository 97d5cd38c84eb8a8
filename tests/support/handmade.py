"""A small audit written by hand: every number is known, nothing is trained."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from changed import replace

from fairaudit.analysis.build import RunMetadata, build_report
from fairaudit.config.value_sources import resolve_config
from fairaudit.data.dataset import Dataset, Grouping
from fairaudit.messages.base import Message
from fairaudit.methods.catalog import Guarantee
from fairaudit.metrics.compare import SEVERAL_SPLITS
from fairaudit.planning.arms import Arm
from fairaudit.planning.flow import Audit
from fairaudit.planning.plan import Job, Plan
from fairaudit.privacy.events import NoisyRelease, SampledGaussian
from fairaudit.report.types.facts import ArmPrivacy, Epsilon, TrainingFacts
from fairaudit.results.estimates import Estimate, Gap, GroupMeasure, Measured
from fairaudit.results.jobs import JobResult

SEEDS = 5
GROUPS = ("F", "M")


@dataclass(frozen=True, slots=True)
class HandmadeNotice(Message):
    code = "duplicate_rows"
    level = "notice"
    when = "a report is made by hand"

    rows: int

    @property
    def text(self):
        return f"{self.rows} rows repeat an earlier row"


def resolved(**options):
    return resolve_config(
        {"data": "loans.parquet", "group": ["sex"], "method": ["global-adapt"], **options}
    )


def dataset(names=GROUPS, *, missing=None):
    n = 10 * len(names)
    groups = np.arange(n, dtype=np.int64) % len(names)
    return Dataset(
        name="loans.parquet",
        format="parquet",
        digest="3f9a" + "0" * 58 + "c1",
        features=pa.table({"income": np.zeros(n), "age": np.zeros(n)}),
        labels=np.arange(n, dtype=np.int64) // len(names) % 2,
        classes=("0", "1"),
        label="approved",
        label_origin="declared in the file",
        positive=1,
        favourable=1,
        favourable_origin="declared in the file",
        groupings=(Grouping("sex", groups, names, missing),),
        split=None,
        rows_read=n + 3,
        columns_read=5,
        dropped_rows={"label missing": {names[0]: 3}},
        missing={"income": {names[0]: 2, names[-1]: 1}},
        dropped_columns={"id": "looks like an id"},
        duplicate_rows=4,
        notices=(HandmadeNotice(4),),
    )


def privacy(
    guarantee=Guarantee.ESTABLISHED,
    reason="",
    *,
    pld=3.1348761234,
    rdp=3.4435912345,
    target_epsilon=3.2,
):
    if not guarantee.has_epsilon:
        return ArmPrivacy(guarantee=guarantee, reason=reason)
    event = SampledGaussian(92, 1840, (NoisyRelease("gradient", 1.0), NoisyRelease("count", 10.0)))
    return ArmPrivacy(
        guarantee=guarantee,
        reason=reason,
        event=event,
        epsilon=Epsilon(pld=pld, rdp=rdp),
        target_epsilon=target_epsilon,
        delta=1e-6,
        not_covered=("stratified random split",),
    )


def training(**kept):
    made = TrainingFacts(
        n_public=23512,
        steps_per_epoch=92,
        epochs=20,
        model="logistic",
        parameters=None,
        gradients="the layer table",
        own_model="",
        public_data=None,
        student_pool=2939,
        delta=1e-6,
        seeds=SEEDS,
        repeats=1,
        rules={"epochs": "20 by rule"},
        epsilon_if_all_released=9.8765432198,
        accountant="dp-accounting",
    )
    return replace(made, **kept)


def arm(key, *, reference="sgd", source=None, **kept):
    method = key.split("@")[0].split(":")[0].split("#")[0]
    made = Arm(
        key=key,
        method=method,
        variant=None,
        settings={"learning_rate": 0.2},
        privacy=privacy(Guarantee.NONE, "not private") if reference is None else privacy(),
        reference=reference,
        source=source,
        reads_groups=False,
        trainer="fairaudit.methods.sgd:Sgd",
        repeats=1,
    )
    return replace(made, **kept)


def plan(config, arms=None):
    arms = arms or (arm("sgd", reference=None), arm("global-adapt"))
    return Plan(
        config=config,
        digest="3f9a" + "0" * 58 + "c1",
        training=training(seeds=config.seeds, repeats=config.repeats),
        arms=arms,
        jobs=tuple(
            Job(f"{each.key}-{seed}", each.key, seed, 1)
            for seed in range(config.seeds)
            for each in arms
        ),
        notices=(),
    )


def job_result(job_id, *, sklearn_baseline=None, groups=2):
    rows = np.arange(8, dtype=np.int64)
    right = np.eye(2, dtype=np.float32)[rows // groups % 2]
    facts: dict[str, object] = {
        "n_train": 16,
        "event": None,
        "params_sha256": "0" * 64,
        "inputs": ["income", "age"],
        "fitted": ["mean of income", "mean of age"],
        "merged": {"job": 2},
        "duplicates_across_split": 1,
        "seconds": 1.5,
    }
    if sklearn_baseline is not None:
        facts["sklearn_baseline"] = {"accuracy": sklearn_baseline}
    arrays = {
        "test_rows": rows,
        "probabilities": right[None],
        "trace.loss": np.array([[[0.7, 0.6]], [[0.5, np.nan]]], dtype=np.float32),
        "trace_steps.loss": np.array([91, 183]),
        "trace.threshold": np.linspace(50, 3, 400, dtype=np.float32)[:, None],
        "trace_steps.threshold": np.arange(400),
    }
    return JobResult(job_id, arrays, facts)


def results(made, *, sklearn_baseline=1.0):
    return {
        job.id: job_result(
            job.id,
            sklearn_baseline=sklearn_baseline if made.arm(job.arm).reference is None else None,
        )
        for job in made.jobs
    }


def estimate(value, half=None, unit="fraction", **kept):
    bounded = value is not None and half is not None
    made = Estimate(
        value=value,
        low=value - half if bounded else None,
        high=value + half if bounded else None,
        training_sd=0.004 if bounded else None,
        records_sd=0.006 if bounded else None,
        n_seeds=SEEDS,
        n_test=382,
        unit=unit,
        reason="" if value is not None else "no row of the class",
        by_seed=(value,) * SEEDS if value is not None else (),
    )
    return replace(made, **kept)


def measure(group, cost, *, n_test=382, gated=True, reason=""):
    before = 0.842109876
    estimates = {
        "privacy_cost": estimate(cost, 0.0141234567),
        "excess_risk": estimate(cost * 2, 0.0212345678, "nats"),
        "accuracy": estimate(before - cost, 0.02),
        "reference.accuracy": estimate(before, 0.02),
        "selection_rate": estimate(0.3 if group == "F" else 0.5, 0.02),
        "reference.selection_rate": estimate(0.4, 0.02),
        "impact_ratio": estimate(0.6 if group == "F" else 1.0, 0.05, "ratio"),
        "reference.impact_ratio": estimate(1.0, 0.05, "ratio"),
        "tpr": estimate(None),
        "reference.tpr": estimate(0.7, 0.03),
    }
    return GroupMeasure(
        group=group, n_test=n_test, n_train=1530.2, gated=gated, reason=reason, estimates=estimates
    )


def gap(a, b, value, half=0.017123456, *, metric="privacy_cost", **kept):
    signed = estimate(value, half)
    is_apart = abs(value) > half
    direction = f"worse for {a if value > 0 else b}" if is_apart else ""
    made = Gap(
        metric=metric,
        kind="pair",
        a=a,
        b=b,
        signed=signed,
        direction=direction,
        minimum_detectable=0.0251,
        gated=True,
        reason="",
        reading="detected" if is_apart else "not detected",
    )
    return replace(made, **kept)


def comparison(
    key="global-adapt", costs=(0.041, 0.012), *, names=GROUPS, half=0.017123456, reference="sgd"
):
    first, last = names[0], names[-1]
    gaps = [gap(first, last, costs[0] - costs[-1], half)]
    gaps.append(gap(first, last, -0.06, 0.01, metric="change.fpr"))
    return Measured(
        arm=key,
        reference=reference,
        grouping="sex",
        estimand=SEVERAL_SPLITS,
        overall=measure("", sum(costs) / len(costs)),
        by_group=tuple(measure(name, cost) for name, cost in zip(names, costs, strict=True)),
        gaps=tuple(gaps),
        divided_by={"impact_ratio": last, "reference.impact_ratio": first},
    )


def findings(**options):
    """One reference, one private arm, all seeds finished."""
    settled = resolved(**options)
    made = plan(settled.config)
    return Audit(settled, made, dataset(), results(made), {}, (comparison(),))


def metadata(**kept):
    made = RunMetadata(
        version="0.1.0",
        created_utc="2026-01-02T03:04:05+00:00",
        command=("fairaudit", "run"),
        environment={"python": "3.11.0"},
        workers=2,
        seconds={"training": 1.23456789},
    )
    return replace(made, **kept)


def built(found=None):
    """The report of an audit: by default, of ``findings``."""
    return build_report(found or findings(), metadata())
