"""The public names for a method of one's own, and for what a capability adds.

A method: what it is, its settings, its rule and its objective. A capability: presets, methods, and
published forms of other methods.

Importing this module does not import torch, and a method's file need not either:
``docs/extending.md``.
"""

from fairaudit.config.presets import Preset
from fairaudit.engine.rules import ClippingRule, FlatClip, NoClip, Objective, PublicFacts
from fairaudit.methods.base import Method, Task, TrainedReplicates
from fairaudit.methods.defaults import (
    COUNT_NOISE_MULTIPLIER,
    FLAT,
    LEARNING_RATE,
    MAX_GRAD_NORM,
    NOISE_MULTIPLIER,
    THRESHOLD,
    PublicSizes,
    Rule,
    Search,
    Setting,
)
from fairaudit.methods.gradient import GradientMethod
from fairaudit.methods.spec import Conversion, Guarantee, MethodSpec, Need, Variant

__all__ = [
    "COUNT_NOISE_MULTIPLIER",
    "FLAT",
    "LEARNING_RATE",
    "MAX_GRAD_NORM",
    "NOISE_MULTIPLIER",
    "THRESHOLD",
    "ClippingRule",
    "Conversion",
    "FlatClip",
    "GradientMethod",
    "Guarantee",
    "Method",
    "MethodSpec",
    "Need",
    "NoClip",
    "Objective",
    "Preset",
    "PublicFacts",
    "PublicSizes",
    "Rule",
    "Search",
    "Setting",
    "Task",
    "TrainedReplicates",
    "Variant",
]
