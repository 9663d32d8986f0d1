"""What the runner tells a job about itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from skillopt_ci.errors import UsageError


@dataclass(frozen=True, slots=True)
class Runner:
    """The job's surroundings, from the variables that every runner sets."""

    workspace: Path
    event_name: str
    event_path: Path
    repository: str
    server_url: str
    api_url: str
    run_url: str
    output: Path | None
    summary: Path | None
    debug: bool

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> "Runner":
        """Read the variables; raises UsageError that names those that are missing."""
        needed = ("GITHUB_WORKSPACE", "GITHUB_EVENT_NAME", "GITHUB_EVENT_PATH", "GITHUB_REPOSITORY")
        missing = [name for name in needed if not environ.get(name)]
        if missing:
            raise UsageError(
                f"this is no job of a GitHub runner: {', '.join(missing)} not set",
                hint="Elsewhere, call the command line: `skillopt-ci --help`.",
            )
        server = environ.get("GITHUB_SERVER_URL") or "https://github.com"
        repository = environ["GITHUB_REPOSITORY"]
        return cls(
            workspace=Path(environ["GITHUB_WORKSPACE"]),
            event_name=environ["GITHUB_EVENT_NAME"],
            event_path=Path(environ["GITHUB_EVENT_PATH"]),
            repository=repository,
            server_url=server,
            api_url=environ.get("GITHUB_API_URL") or "https://api.github.com",
            run_url=_run_url(f"{server}/{repository}", environ.get("GITHUB_RUN_ID", "")),
            output=_file(environ, "GITHUB_OUTPUT"),
            summary=_file(environ, "GITHUB_STEP_SUMMARY"),
            debug=environ.get("RUNNER_DEBUG") == "1",
        )


def _run_url(repository: str, run: str) -> str:
    return f"{repository}/actions/runs/{run}" if run else ""


def _file(environ: Mapping[str, str], name: str) -> Path | None:
    return Path(environ[name]) if environ.get(name) else None
