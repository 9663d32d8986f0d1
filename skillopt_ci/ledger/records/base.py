"""What every record has in common."""

from pydantic import BaseModel, ConfigDict

#: Version of these files; a newer one is refused rather than misread.
RECORD_VERSION = 1


class Record(BaseModel):
    """Immutable; unknown keys of a later version are an error, not silently lost."""

    model_config = ConfigDict(extra="forbid", frozen=True)
