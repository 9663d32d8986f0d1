"""A promptfoo configuration, as far as it describes tests."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


def _listed(value: object) -> object:
    return value if isinstance(value, list) else [value]


class Shape(BaseModel):
    """A mapping of which other keys (providers, outputPath, …) are not our business."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class AssertionShape(Shape):
    """One assertion, or a set of them."""

    type: str
    value: Any = None
    threshold: float | None = None
    weight: float = Field(default=1.0, ge=0)
    transform: Any = None
    assertions: tuple["AssertionShape", ...] = Field(default=(), alias="assert")


class OptionsShape(Shape):
    """The options of a test that change what is asked or graded."""

    prefix: str = ""
    suffix: str = ""
    transform: Any = None
    disable_var_expansion: bool = Field(default=False, alias="disableVarExpansion")


class TestShape(Shape):
    """One test, or the default of all."""

    __test__ = False  # nothing for pytest

    description: str = ""
    vars: dict[str, Any] = Field(default_factory=dict)
    assertions: tuple[AssertionShape, ...] = Field(default=(), alias="assert")
    threshold: float | None = None
    options: OptionsShape = OptionsShape()
    metadata: dict[str, Any] = Field(default_factory=dict)


class PromptShape(Shape):
    """A prompt with a name."""

    raw: str | None = None
    id: str | None = None
    label: str = ""


class FileShape(Shape):
    """The file."""

    prompts: Annotated[list[str | PromptShape], BeforeValidator(_listed)]
    tests: Annotated[list[str | TestShape], BeforeValidator(_listed)]
    default: TestShape = Field(default=TestShape(), alias="defaultTest")
    scenarios: list[Any] = Field(default_factory=list)
