"""The common base of every configuration section."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """An immutable section; a key that it does not know is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
