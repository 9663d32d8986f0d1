"""Make the fixtures anew with whichever version is installed, by hand: ``make_fixture.py [NAME…]``.

Run as ``python -m tests.pins.make_fixture`` from the top of the repository. Only the version that
the pins are to hold later ones to should ever do this; see README.md.
"""

from __future__ import annotations

import json
import shutil
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.pins.surface import SCENES, make_surface
from tests.pins.world import (
    BRANCH,
    CANDIDATE,
    FIXTURES,
    HARMFUL,
    KINDS,
    MODELS,
    RULES,
    RUN,
    SKILL,
    Case,
    Deadly,
    Models,
    Place,
    Script,
    differences,
    go_on,
    pack,
    serving,
    unpack,
)

RUN_ON = (("run", "--json", "--no-progress"),)
ENDS = {"optimizer": {"use_slow_update": True, "use_meta_skill": True}}
NOTE = "Look at the kind again."
GUIDED = Script(guidance=f"- {RULES['d']}", memory="- Name one kind in each rule.")
MISLED = Script(guidance=f"- {HARMFUL}", memory="- Name one kind in each rule.")
BROAD = Script(plan=(*RULES.values(), HARMFUL), at_once=5)
#: One attempt after the other and none early: where the program dies is then no matter of chance.
SLOWLY = ("-o", "model.target.max_concurrency=1", "-o", "schedule.ahead=none")


def role() -> dict[str, object]:
    return {
        "provider": "openai",
        "model": "m",
        "base_url": MODELS,
        "api_key_env": "DEMO_KEY",
        "retries": 0,
    }


def base() -> dict[str, Any]:
    return {
        "run": RUN,
        "skill": SKILL,
        "tasks": {split: f"tasks/{split}.jsonl" for split in ("train", "selection", "test")},
        "scorer": {"type": "exact", "answer": "tag"},
        "model": {"target": role(), "optimizer": role()},
        "train": {"num_epochs": 2, "batch_size": 4},
        "gradient": {"minibatch_size": 2},
        "optimizer": {"use_slow_update": False, "use_meta_skill": False},
    }


def merged(into: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    for key, value in changes.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            merged(into[key], value)
        else:
            into[key] = value
    return into


def task(number: int, kind: str, graded: bool) -> str:
    line: dict[str, object] = {"id": f"{kind}{number}", "prompt": f"Item {number} of kind {kind}"}
    if graded:
        files = {"wanted.txt": f"{kind}{number}"}
        command = 'test "$(cat answer.txt)" = "$(cat wanted.txt)"'
        line["scorer"] = {"type": "computer", "command": command, "files": files}
    else:
        line["references"] = f"{kind}{number}"
    return json.dumps(line) + "\n"


@dataclass(frozen=True)
class Recipe:
    """How a fixture comes about: a repository, what happens to it, and how it is gone on from."""

    script: Script = field(default_factory=Script)
    config: Mapping[str, Any] = field(default_factory=dict)
    before: Callable[[Place, Models], None] = lambda place, models: None
    commands: Sequence[Sequence[str]] = RUN_ON
    remote: bool = False
    graded: bool = False
    skill: str = "# Items\n"
    likely: bool = False


def make_repository(folder: Path, recipe: Recipe) -> Place:
    place = Place(folder)
    place.repository.mkdir(parents=True)
    place.write(SKILL, recipe.skill)
    config = merged(base(), recipe.config)
    if config["scorer"] is None:
        del config["scorer"]
    place.write("skillopt.yaml", json.dumps(config, indent=1) + "\n")
    for offset, split in enumerate(("train", "selection", "test")):
        lines = [task(offset * 100 + n, KINDS[n % 4], recipe.graded) for n in range(8)]
        place.write(f"tasks/{split}.jsonl", "".join(lines))
    place.git("init", "--quiet", "--initial-branch=main")
    place.git("add", ".")
    place.git("commit", "--quiet", "-m", "Begin")
    if recipe.remote:
        place.git("clone", "--quiet", "--bare", "repository", "origin.git", at=".")
        place.git("remote", "add", "origin", (folder / "origin.git").as_uri())
        place.git("fetch", "--quiet", "origin")
        place.git("remote", "set-head", "origin", "main")
    return place


# What happens before


def steps(count: int) -> Callable[[Place, Models], None]:
    """Do that many steps."""

    def do(place: Place, models: Models) -> None:
        for _ in range(count):
            done = place.command("step", "-q", *SLOWLY)
            assert done.returncode == 0, done.stderr

    return do


def after(*parts: Callable[[Place, Models], None]) -> Callable[[Place, Models], None]:
    def do(place: Place, models: Models) -> None:
        for part in parts:
            part(place, models)

    return do


def killed(deadly: Deadly, *options: str) -> Callable[[Place, Models], None]:
    """Run until a request kills the program."""

    def do(place: Place, models: Models) -> None:
        models.deadly = deadly
        with place.start("run", "-q", *(options or SLOWLY)) as process:
            models.victim = process.pid
            told = process.communicate()
        assert process.returncode == -9, (process.returncode, told)
        time.sleep(0.5)  # until git's processes have seen it

    return do


def killed_by_hook(ref: str, time_of: str, count: int) -> Callable[[Place, Models], None]:
    """Run until a ref is moved for the ``count``-th time: at once before or after that."""

    def do(place: Place, models: Models) -> None:
        hook = place.repository / ".git" / "hooks" / "reference-transaction"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(
            f'#!/bin/sh\ntest "$1" = {time_of} || exit 0\ngrep -q " {ref}$" || exit 0\n'
            f'echo >> "$HOME/moved"\ntest "$(wc -l < "$HOME/moved")" -ge {count} || exit 0\n'
            "kill -9 $MORTAL\nexit 1\n"
        )
        hook.chmod(0o755)
        with place.start("run", "-q", *SLOWLY) as process:
            told = process.communicate()
        assert process.returncode == -9, (process.returncode, told)
        time.sleep(0.5)
        hook.unlink()

    return do


def nth(count: int, wanted: Deadly) -> Deadly:
    """The ``count``-th request of a sort."""
    seen = []

    def deadly(system: str, prompt: str) -> bool:
        if wanted(system, prompt):
            seen.append(prompt)
        return len(seen) == count

    return deadly


def stage(name: str) -> Deadly:
    return lambda system, prompt: f"Stage: {name}" in system


def items(split: int, line: str = "") -> Deadly:
    """Tasks of a split (0, 1, 2), under a skill that has ``line``."""
    numbers = tuple(f"Item {n} " for n in range(split * 100, split * 100 + 8))
    return lambda system, prompt: (
        "Stage:" not in system and prompt.startswith(numbers) and line in system
    )


def person_changes_skill(place: Place, _: Models) -> None:
    text = place.git("cat-file", "blob", f"{BRANCH}:{SKILL}") + "\n\nNumbers have no zeros.\n"
    place.commit(SKILL, text, BRANCH)
    place.git("push", "--quiet", "origin", BRANCH)


def base_changes_skill(place: Place, _: Models) -> None:
    text = place.git("cat-file", "blob", f"main:{SKILL}")
    text = text.replace("# Items", "# Items\n\nAn introduction by a person.") + "\n"
    place.commit(SKILL, text, "main")
    place.git("push", "--quiet", "origin", "main")


def squash_merged(place: Place, _: Models) -> None:
    tree = place.git("rev-parse", f"{BRANCH}^{{tree}}")
    made = place.git("commit-tree", tree, "-p", "main", "-m", "Train the skill (#1)")
    place.git("update-ref", "refs/heads/main", made)
    place.git("push", "--quiet", "origin", "main")
    place.git("push", "--quiet", "origin", "--delete", BRANCH)


def shards_made(place: Place, _: Models) -> None:
    for number in (1, 2):
        done = place.command(
            "rollout", "--shard", f"{number}/2", "-q", "-O", f"answers-{number}.jsonl",
            "-o", f"cache.path=../machine-{number}.sqlite",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    for number in (1, 2):
        for file in place.folder.glob(f"machine-{number}*"):
            file.unlink()


LONGER = "# Items\n\nThey are numbered.\n\nThey have kinds.\n"
RACE = {
    "optimizer": {"learning_rate": 9},
    "evaluation": {"race": {"arms": 8, "tasks": 4, "heats": 1}, "gate": {"look_every": 2}},
}
SEQUENTIAL = {
    "evaluation": {
        "gate": {
            "policy": "sequential",
            "attempts": 2,
            "confidence": 0.5,
            "look_every": 2,
            "remeasure": True,
        }
    }
}
MIXED = {
    "train": {"accumulation": 2},
    "evaluation": {"gate_metric": "mixed", "use_semantic_density": True},
    "gradient": {"merge_batch_size": 2, "minibatch_size": 1},
    **ENDS,
}
AWARE = {"optimizer": {"use_skill_aware_reflection": True, "skill_aware_consolidate_threshold": 1}}
AGENT = {
    "scorer": None,
    "rollout": {"solver": {"type": "agent"}, "computer": {"type": "unconfined"}},
}
RUBRIC = {"scorer": {"type": "rubric", "rubric": "A number with the letter of its kind."}}
STALE = {"train": {"staleness": 1}}
LIKELY = {"schedule": {"ahead": "likely"}}
WIDE = ("-o", "model.target.max_concurrency=2")

RECIPES: dict[str, Recipe] = {
    # nothing done before: what a run is from its first call, and every key that it stores
    "fresh": Recipe(GUIDED, ENDS),
    "fresh-mixed": Recipe(GUIDED, MIXED),
    "fresh-agent": Recipe(Script(), merged({"train": {"num_epochs": 1}}, AGENT), graded=True),
    "fresh-rubric": Recipe(Script(garbled=True), merged({"train": {"num_epochs": 1}}, RUBRIC)),
    "fresh-suggestions": Recipe(
        Script(at_once=2),
        {
            "optimizer": {
                "skill_update_mode": "rewrite_from_suggestions",
                "lr_control_mode": "autonomous",
            }
        },
    ),
    "fresh-documents": Recipe(
        Script(),
        {"optimizer": {"skill_update_mode": "full_rewrite_minibatch", "lr_control_mode": "none"}},
    ),
    # each durable point, with a remote
    "killed-in-baseline": Recipe(before=killed(nth(4, items(1))), remote=True),
    "killed-before-baseline-lands": Recipe(
        before=killed_by_hook(f"refs/heads/{BRANCH}", "prepared", 1), remote=True
    ),
    "killed-after-baseline": Recipe(before=killed(nth(1, items(0))), remote=True),
    "killed-in-rollout": Recipe(before=after(steps(1), killed(nth(3, items(0)))), remote=True),
    "killed-in-reflection": Recipe(before=killed(nth(2, stage("analyst"))), remote=True),
    "killed-while-candidate-is-pushed": Recipe(
        before=killed_by_hook(f"refs/heads/{CANDIDATE}", "prepared", 1), remote=True
    ),
    "killed-with-candidate": Recipe(
        before=after(steps(1), killed(nth(1, items(1, HARMFUL)))), remote=True
    ),
    "killed-in-evaluation": Recipe(before=killed(nth(5, items(1, RULES["a"]))), remote=True),
    "killed-while-verdict-is-pushed": Recipe(
        before=after(steps(2), killed_by_hook(f"refs/heads/{BRANCH}", "prepared", 1)), remote=True
    ),
    "killed-in-finish": Recipe(before=killed(nth(11, items(2))), remote=True),
    # an epoch's end
    "epoch-end": Recipe(
        GUIDED, ENDS, after(steps(3), killed(nth(1, stage("slow_update")))), remote=True
    ),
    "epoch-end-in-flight": Recipe(
        GUIDED, ENDS, after(steps(4), killed(nth(1, items(1, RULES["d"])))), remote=True
    ),
    "epoch-end-that-harms": Recipe(
        MISLED, ENDS, after(steps(4), killed(nth(2, items(1, HARMFUL)))), remote=True
    ),
    # what people do
    "person-on-the-branch": Recipe(
        before=after(steps(2), person_changes_skill), remote=True
    ),
    "person-on-base": Recipe(
        before=after(steps(1), base_changes_skill), remote=True, skill=LONGER
    ),
    "conflict-with-base": Recipe(before=after(steps(1), base_changes_skill), remote=True),
    "squash-merged": Recipe(before=after(steps(2), squash_merged), remote=True),
    # ways to train
    "race": Recipe(BROAD, RACE, killed(nth(10, items(0)))),
    "sequential": Recipe(Script(), SEQUENTIAL, after(steps(1), killed(nth(3, items(1))))),
    "notes": Recipe(
        Script(notes=(NOTE, "Read the item twice.")),
        AWARE,
        after(steps(1), killed(nth(2, items(1, HARMFUL)))),
    ),
    "staleness": Recipe(GUIDED, merged(merged({}, STALE), ENDS), after(steps(1), killed(
        nth(3, items(0))
    ))),
    "likely": Recipe(
        GUIDED,
        merged(merged({}, LIKELY), ENDS),
        after(steps(1), killed(nth(2, items(1)), *WIDE)),
        likely=True,
    ),
    "agent": Recipe(
        Script(),
        merged({"train": {"num_epochs": 1}}, AGENT),
        killed(nth(14, lambda system, prompt: "Stage:" not in system)),
        graded=True,
    ),
    "shards": Recipe(
        before=after(steps(1), shards_made),
        commands=(
            (
                "step", "--json", "--no-progress",
                "--rollouts", "answers-1.jsonl", "--rollouts", "answers-2.jsonl",
            ),
        ),
    ),
}  # fmt: skip


def make(name: str, recipe: Recipe, scratch: Path) -> None:
    """Make a fixture, go on from it twice, and see that both times the same is observed."""
    place = make_repository(scratch / "made", recipe)
    # not deflated, so that the archive can be compressed as a whole
    for at in ("repository", *(["origin.git"] if recipe.remote else [])):
        place.git("config", "core.compression", "0", at=at)
    with serving(recipe.script) as models:
        recipe.before(place.via(models), models)
    for file in ("gitconfig", "moved"):
        (place.folder / file).unlink(missing_ok=True)
    names = sorted(found.name for found in place.folder.iterdir())
    file = FIXTURES / f"{name}.tar.xz"
    pack(place.folder, file, names)
    case = Case(recipe.script, recipe.commands, {}, likely=recipe.likely)
    observed = [go_on(unpack(name, scratch / f"again-{n}"), case) for n in range(2)]
    first, second = observed
    told = differences(first, second, likely=recipe.likely)
    assert not told, "\n".join([name, *told[:40]])
    if not recipe.likely:
        assert (first["asked"], first["keys"]) == (second["asked"], second["keys"]), name
    case = Case(recipe.script, recipe.commands, first, likely=recipe.likely)
    (place.folder / "case.json").write_text(case.dump(), encoding="utf-8")
    pack(place.folder, file, ["case.json", *names])
    codes = [told["code"] for told in first["told"]]
    heads = [one["message"].split("\n")[1] for one in first["commits"]]
    print(name, file.stat().st_size, "asked", [o["asked"] for o in observed], "codes", codes)  # noqa: T201
    for head in heads:
        print("   ", head)  # noqa: T201


def accept(name: str, scratch: Path) -> None:
    """Take what going on from a fixture comes to now for what is expected; its state stays."""
    case = _played(name, scratch / "again")
    with tarfile.open(FIXTURES / f"{name}.tar.xz") as archive:
        archive.extractall(scratch / "kept", filter="data")
    (scratch / "kept" / "case.json").write_text(case.dump(), encoding="utf-8")
    names = sorted(found.name for found in (scratch / "kept").iterdir())
    pack(scratch / "kept", FIXTURES / f"{name}.tar.xz", names)


def _played(name: str, scratch: Path) -> Case:
    place = unpack(name, scratch)
    case = Case.load((scratch / "case.json").read_text(encoding="utf-8"))
    return replace(case, expected=go_on(place, case))


def main(names: Sequence[str]) -> None:
    FIXTURES.mkdir(exist_ok=True)
    accepting, *accepted = names or [""]
    if accepting == "--accept":
        for name in accepted:
            with tempfile.TemporaryDirectory(prefix="pins-") as scratch:
                accept(name, Path(scratch))
        return
    for name in names or (*RECIPES, *SCENES):
        scratch = Path(tempfile.mkdtemp(prefix="pins-"))
        try:
            if name in SCENES:
                make_surface(scratch, [name])
            else:
                make(name, RECIPES[name], scratch)
        finally:
            shutil.rmtree(scratch)


if __name__ == "__main__":
    main(sys.argv[1:])
