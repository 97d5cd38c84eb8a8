"""What this folder adds to audits: nothing. A loop of a user's own imports it by its name."""

from fairaudit.capabilities import Capability

OPACUS = Capability(name="opacus")
