"""What a run of skillopt-ci leaves in its repository, judged by the world."""

import hashlib
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.critical_path import UNTIMED, Timed
from bench.outcome import Outcome, Trial, judged, refuse_misunderstood
from bench.serving import ROOT
from bench.world.world import World
from skillopt_ci.skill.regions import as_read

SKILL = "skills/cases/SKILL.md"
RUN = "bench"
TIP = f"refs/heads/skillopt/{RUN}"


def environment() -> dict[str, str]:
    """The environment of the run's programs, which import the package that lies beside ours."""
    who = {"NAME": "Bench", "EMAIL": "bench@example.org"}
    person = {
        f"GIT_{role}_{key}": text for role in ("AUTHOR", "COMMITTER") for key, text in who.items()
    }
    here = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": "/nonexistent"}
    return {**here, "BENCH_KEY": "none", **person}


def outcome_of(
    world: World,
    name: str,
    root: Path,
    stats: Mapping[str, Mapping[str, int]],
    seconds: float,
    timed: Timed = UNTIMED,
) -> Outcome:
    """What the finished run in the repository ``root`` amounts to."""
    refuse_misunderstood(stats)
    best = _git(root, "show", f"{TIP}:.skillopt/{RUN}/best_skill.md")
    texts, history = _texts(root), _history(root)
    curve = _curve(world, history, texts)
    return judged(
        world, name, best, trials(history, texts), stats, seconds, curve=curve, timed=timed
    )


def _history(root: Path) -> list[dict[str, Any]]:
    lines = _git(root, "show", f"{TIP}:.skillopt/{RUN}/history.jsonl").splitlines()
    return [json.loads(line) for line in lines]


def trials(history: Sequence[Mapping[str, Any]], texts: Mapping[str, str]) -> list[Trial]:
    """Every measured candidate with the skill that it was to replace.

    One that the target reads the same, such as the empty place for guidance, is no trial.
    """
    found, current = [], ""
    for entry in history:
        candidate, after = entry.get("candidate_sha256") or "", entry["skill_sha256"]
        measured = entry.get("score_after") is not None and candidate in texts
        if current and measured and _differ(texts[current], texts[candidate]):
            gated = entry["action"] != "force_accept"
            found.append(Trial(texts[current], texts[candidate], after == candidate, gated))
        current = after
    return found


def _differ(one: str, other: str) -> bool:
    return as_read(one).strip() != as_read(other).strip()


def _curve(
    world: World, history: Sequence[Mapping[str, Any]], texts: Mapping[str, str]
) -> tuple[tuple[int, float], ...]:
    """Calls made so far, and the true score of the skill that then stands, after each event."""
    paid, points = 0, []
    for entry in history:
        paid += entry["usage"]["calls"]
        points.append((paid, world.true_score(texts[entry["skill_sha256"]])))
    return tuple(points)


def _texts(root: Path) -> dict[str, str]:
    """Every version of the skill that any commit has, by its hash."""
    commits = _git(root, "log", "--all", "--format=%H", "--", SKILL).split()
    texts = [_git(root, "show", f"{commit}:{SKILL}") for commit in commits]
    return {hashlib.sha256(text.encode()).hexdigest(): text for text in texts}


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments],
        cwd=root,
        env=environment(),
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout
