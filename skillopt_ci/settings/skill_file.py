"""The document that `skill` means: a skill named by its folder is the `SKILL.md` inside."""

from pathlib import Path, PurePosixPath

from skillopt_ci.errors import ConfigError
from skillopt_ci.settings.config import Config

_NAME = "SKILL.md"


def with_skill_file(config: Config, file: Path) -> Config:
    """``config``, which stands in ``file``, with the path of the document itself.

    Raises :class:`~skillopt_ci.errors.ConfigError` for a folder that holds no `SKILL.md`. Whether
    a file exists is not looked at: it may be in git alone.
    """
    place = file.absolute().parent / config.skill
    if not place.is_dir():
        return config
    if (place / _NAME).is_file():
        return config.model_copy(update={"skill": f"{PurePosixPath(config.skill) / _NAME}"})
    raise ConfigError(
        f"skill: {config.skill} is a folder without a {_NAME}",
        file=file,
        hint=_inside(place, config.skill),
    )


def _inside(place: Path, name: str) -> str:
    found = sorted(place.glob(f"*/{_NAME}"))
    if not found:
        return "Name the Markdown file that is to be trained."
    inner = found[0].relative_to(place).as_posix()
    return f"Did you mean {PurePosixPath(name) / inner}?"
