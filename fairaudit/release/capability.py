"""What this folder adds to audits."""

from fairaudit.capabilities import Capability

RELEASE = Capability(
    name="release",
    commands="fairaudit.release.commands:COMMANDS",
    next_command="fairaudit.release.next_command:next_command",
)
