"""What this folder adds to audits."""

from fairaudit.capabilities import Capability

PAPERS = Capability(
    name="papers",
    presets="fairaudit.papers.presets:PRESETS",
    methods="fairaudit.papers.forms:ABLATION",
    additions="fairaudit.papers.forms:ADDITIONS",
    checkpoint_series="fairaudit.papers.bounds:read",
    causes="fairaudit.papers.causes:bounds_of_arm",
    claims="fairaudit.papers.claims:claims",
    findings="fairaudit.papers.taken_apart:findings",
    phrases="fairaudit.papers.taken_apart:PHRASES",
)
