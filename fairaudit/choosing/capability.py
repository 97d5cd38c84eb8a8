"""What this folder adds to audits."""

from fairaudit.capabilities import Capability

CHOOSING = Capability(
    name="choosing",
    commands="fairaudit.choosing.commands:COMMANDS",
    study="fairaudit.choosing.choice:Choice",
)
