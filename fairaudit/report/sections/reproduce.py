"""The commands that give this report again, and a model of what it is about."""

import shlex
from collections.abc import Iterator

from fairaudit.errors import numbered
from fairaudit.methods.catalog import Guarantee
from fairaudit.report.document import Block, Listing, Rank, Section, Text
from fairaudit.report.model import Report
from fairaudit.report.safe_names import plain


def section(report: Report) -> Section | None:
    """With the versions that decide its numbers."""
    versions = f"numerics {plain(report.numerics_version)}, report schema {report.schema_version}"
    blocks: tuple[Block, ...] = (
        Listing(plain(report.reproduce, 3000)),
        Text(f"fairaudit {plain(report.tool.version)}, {versions}."),
        *_training(report),
    )
    return Section("reproduce", "Reproduce", Rank.DETAIL, blocks)


def train_command(report: Report, path: str = "report.json") -> str:
    """What trains the first arm of a report that has a guarantee; "" where none has.

    Args:
        report: Of an audit.
        path: Of its ``report.json``.
    """
    if report.training is None:
        return ""
    trained = [arm for arm in report.arms if arm.source is None and "#" not in arm.key]
    arms = [arm for arm in trained if report.privacy[arm.key].guarantee is Guarantee.ESTABLISHED]
    if not arms:
        return ""
    arm = arms[0]
    words = ["fairaudit", "train", "--from", path, "--method", arm.method]
    words += ["--variant", arm.variant] if arm.variant else []
    alike = [other for other in trained if (other.method, other.variant) == (arm.method, arm.variant)]
    target = report.privacy[arm.key].target_epsilon
    words += ["--epsilon", f"{target:g}"] if target is not None and len(alike) > 1 else []
    words += ["--data", "FILE"] if report.config["data"].value is None else []
    return shlex.join([*words, "--out", "model"])


def _training(report: Report) -> Iterator[Block]:
    command = train_command(report)
    if not command:
        return
    told = "A model for release, with noise, batches and split from the operating system"
    if report.data.fitted:
        quantities = numbered(len(report.data.fitted), "quantity is", "quantities are")
        told += f" (it stops as long as {quantities} fitted on training rows: declare columns with --columns)"
    yield Text(f"{told}:")
    yield Listing(plain(command, 3000))
