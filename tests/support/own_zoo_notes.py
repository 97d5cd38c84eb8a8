"""Another module, in which models of the zoo keep what they saw."""

SCALE = 20.0
METER = [0.0, 0.0]
UNSPOKEN = 0.0
