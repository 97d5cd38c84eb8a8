"""What this folder adds to audits."""

from fairaudit.capabilities import Capability

PAPERS = Capability(
    name="papers",
    presets="fairaudit.papers.presets:PRESETS",
    methods="fairaudit.papers.forms:ABLATION",
    variants="fairaudit.papers.forms:VARIANTS",
)
