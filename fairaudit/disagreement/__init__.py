"""Decided by chance: who another training on the same rows would decide differently."""
