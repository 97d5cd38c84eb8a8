"""A copy of a frozen object with other fields, whichever library made its class."""

import dataclasses

from pydantic import BaseModel


def replace(made, **changes):
    """The object with these fields changed; a report's types are not checked again."""
    if isinstance(made, BaseModel):
        return made.model_copy(update=changes)
    return dataclasses.replace(made, **changes)
