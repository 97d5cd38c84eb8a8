"""PATE's soft labels as printed."""

from fairaudit.methods.teachers import PateSoft


class PateSoftUnprojected(PateSoft):
    """Labels are not projected to the simplex; the privacy is that of the default.

    Source: Tran and Fioretto 2023; docs/methods.md 5.2.
    """

    keeps_the_simplex = False
