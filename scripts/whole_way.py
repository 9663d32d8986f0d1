"""From an empty folder to a merged pull request, as README and tutorial say, timed and measured.

``python scripts/whole_way.py`` runs the README's quickstart, types what the tutorial says into an
empty folder, pushes that to an emulated GitHub and lets the workflow that `init --github` wrote do
the rest: scheduled steps, the pull request, comments of a person, the merge. It prints how long
each part took and how large its results are; anything that fails ends it. ``--pictures FOLDER``
also takes the pull request and the report, light and dark, at 400 and 1280 pixels.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts"), str(ROOT / "tests" / "support")]

import pictures  # noqa: E402
from action_world import Finished, World  # noqa: E402
from doc_blocks import read_blocks, run_in  # noqa: E402
from doc_walk import Scratch, scratch  # noqa: E402
from github_server.bare import Bare  # noqa: E402
from github_server.server import serving  # noqa: E402
from github_server.state import Hub  # noqa: E402
from playwright.sync_api import sync_playwright  # noqa: E402
from workflow_runner import INSTALLED, Runner, github_runner  # noqa: E402

from skillopt_ci.cli.scaffold import WORKFLOW  # noqa: E402

TUTORIAL, BRANCH = ROOT / "docs" / "tutorial.md", "skillopt/ledger"
ADA = {"login": "ada", "type": "User"}
#: What a person writes below the pull request, and how the job for it is to end.
COMMENTS = {
    "/skillopt note Vendors keep their own spelling": "skipped",  # the next step reads it
    "/skillopt status": "done",
    "/skillopt report": "done",
    "/skillopt revert capital letters": "done",
    "/skillopt apply": "skipped",  # not confirmed
    "/skillopt apply anyway": "done",
}


class Clock:
    """Prints a line for each part, with the seconds since the one before."""

    def __init__(self) -> None:
        self.last = self.start = time.monotonic()

    def tell(self, part: str, found: str = "") -> None:
        now = time.monotonic()
        print(f"{now - self.last:6.1f} s  {part:<50}{found}", flush=True)
        self.last = now


def git(*words: str | Path) -> None:
    subprocess.run(["git", *words], check=True)  # noqa: S607 - the reader's own git


def size(*files: Path) -> str:
    return f"{sum(file.stat().st_size for file in files) / 1000:,.0f} kB"


def follow_readme(folder: Path, clock: Clock) -> None:
    said = pictures.train(folder)
    clock.tell("README: quickstart", f"{len(said.splitlines())} lines")
    page = pictures.report(folder)
    clock.tell("README: its report", f"{len(page.encode()) / 1000:,.0f} kB")


def follow_tutorial(home: Path, clock: Clock) -> Scratch:
    home.mkdir()
    place = scratch(home, run_in(TUTORIAL))
    for block in read_blocks(TUTORIAL):
        if not block.not_run:
            place.do(block)
    lines = len((place.where / WORKFLOW).read_text(encoding="utf-8").splitlines())
    clock.tell("tutorial: empty folder to push", f"workflow of {lines} lines")
    return place


def put_on_github(place: Scratch, hub: Hub, home: Path) -> World:
    """The repository that the tutorial pushed, and a runner's checkout of it."""
    git("-C", home / "origin.git", "push", "--quiet", "--mirror", hub.bare.folder)
    world = World(hub, place.where.parent / "runner", place.where.parent / "files")
    world.files.mkdir()
    git("clone", "--quiet", hub.bare.folder, world.workspace)
    world.git("remote", "set-url", "origin", f"{hub.url}/{hub.name}.git")
    return world


def job(github: Runner, event: str, payload: dict[str, Any], result: str) -> Finished:
    """Let an event start its one training job, and expect its result."""
    ran = github.fire(event, payload | {"sender": ADA})
    done = next(iter(ran.values())).done
    if done is None or done.outputs.get("result") != result:
        raise SystemExit(f"{event} {payload} was to be {result!r}:\n{done and done.log}")
    return done


def comment(github: Runner, said: str, result: str) -> None:
    hub = github.world.hub
    ((number, _),) = hub.pulls.items()
    written = {"id": hub.say("ada", said, number), "body": said, "author_association": "OWNER"}
    issue = {"number": number, "state": "open", "pull_request": {}}
    hub.push(BRANCH, hub.bare.tip(BRANCH) or "", hub.moment())
    later = {"created_at": "2999-01-01T00:00:00Z"}
    payload = {"action": "created", "issue": issue, "comment": written | later}
    job(github, "issue_comment", payload, result)


def on_github(github: Runner, clock: Clock) -> None:
    hub = github.world.hub
    for part in ("a scheduled step", "the next one"):
        done = job(github, "schedule", {"schedule": "17 3 * * 1-5"}, "done")
        clock.tell(f"GitHub: {part}", f"step {done.outputs['step']}, {done.outputs['action']}")
    (pull,) = hub.pulls.values()
    told = f"{len(pull['title'])} characters, body {len(pull['body'].encode()) / 1000:,.1f} kB"
    clock.tell(f"GitHub: pull request #{pull['number']}", f"title of {told}")
    for said, result in COMMENTS.items():
        comment(github, said, result)
        clock.tell(f"GitHub: {said}", result)
    if not pull["merged_at"] or hub.bare.git("diff", "main", BRANCH, "--", "skills", ".skillopt"):
        raise SystemExit("the pull request was not merged")
    files = hub.bare.git("ls-tree", "-r", "--name-only", "main").split()
    clock.tell("GitHub: merged", f"{len(files)} files on main")


def take_pictures(pull: dict[str, Any], told: str, page: str, folder: Path, clock: Clock) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    shown = {
        "pull-request": pictures.github_page("opened this", pull["body"], pull["title"]),
        "comment": pictures.github_page("commented", told),
        "report": page,
    }
    with sync_playwright() as playwright:
        browser = pictures.launch(playwright)
        for name, html in shown.items():
            for scheme in pictures.SCHEMES:
                for width in (400, 1280):
                    file = folder / f"{name}-{scheme}-{width}.webp"
                    file.write_bytes(pictures.shoot(browser, html, scheme, width=width))
        browser.close()
    clock.tell("pictures", size(*folder.glob("*.webp")))


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="take pictures, too")
    chosen = parser.parse_args(arguments)
    clock = Clock()
    os.environ.pop("GITHUB_ACTIONS", None)  # CI's own surroundings are not the reader's
    with TemporaryDirectory(prefix="skillopt-ci-way-") as place:
        root = Path(place)
        follow_readme(root / "quickstart", clock)
        home = root / "home"
        scene = follow_tutorial(home, clock)
        if not INSTALLED:
            raise SystemExit("GitHub's expressions are missing: npm ci")
        bare = Bare(root / "github" / "octo" / "skills.git")
        git("init", "--quiet", "--bare", "--initial-branch=main", bare.folder)
        bare.git("config", "http.receivepack", "true")
        with serving(Hub(bare)) as hub:
            world = put_on_github(scene, hub, home)
            with github_runner(world, world.workspace / WORKFLOW) as github:
                on_github(github, clock)
            if hub.problems:
                raise SystemExit("\n".join(map(str, hub.problems)))
            if chosen.pictures:
                (pull,) = hub.pulls.values()
                page = pictures.report(scene.where)
                take_pictures(pull, hub.own_comments()[0], page, chosen.pictures, clock)
    print(f"{time.monotonic() - clock.start:6.1f} s  in all")


if __name__ == "__main__":
    main(sys.argv[1:])
