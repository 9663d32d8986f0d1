"""Kill, race, disturb and fuzz skillopt-ci for some minutes; say what was tried and what survived.

``python scripts/campaign.py --minutes 60`` trains one small run again and again, each time in a
new clone with a new remote, against scripted models on a socket. An undisturbed run comes first:
however a trial disturbs its own run, in the end the branch must hold the same trees. Four kinds:

- kill: signals to the whole process group at random instants, then the same command again
- race: two clones of one remote train the same run at once
- fault: failing models, remotes, disks, refs, caches and terminals, then an undisturbed command
- fuzz: damaged configurations, tasks and skills; what cannot be read is refused in a sentence

A trial fails on a wrong tree, an answer asked for again, an undocumented exit code, a traceback or
a command that hangs. It prints its seed, and its folder is kept. Ends with 1 if any trial failed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from pathlib import Path

from step_depth import CONFIG, Models, answer, make_repository

BRANCH = "skillopt/depth"
#: What a command may end with besides a signal; 1 is a defect.
DOCUMENTED = {0, 2, 3, 4, 5, 6, 130}
#: Seconds after which a command hangs.
PATIENCE = 120.0
#: What ends a process, the rude way as often as the polite ones.
SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
#: The most calls that can be under way at a kill, and so be paid twice.
CALLS_AT_ONCE = 16
#: How often a failed call is tried again.
RETRIES = 3

NASTY = (
    *(
        "\x00",
        "\ufeff",
        "\u202e",
        "\ud7ff",
        "💥",
        "\r",
        "\t",
        "'",
        '"',
        "`",
        "{{",
        "${{ x }}",
        "<b>",
    ),
    *(
        "---\n",
        "<<: *a\n",
        "&a [*a]",
        "!!python/object:x",
        ": ",
        "- ",
        "[" * 300,
        "9" * 400,
        "null",
    ),
    *("${{ x }}", "<b>", "null", "NaN", "-1", "1e999", "true", "/dev/zero", "../" * 20),
)


class Failed(Exception):
    """A trial found a fault."""


@dataclass
class Trouble:
    """How the models treat one trial's calls, and whom they answered."""

    dice: random.Random
    fault_rate: float = 0.0
    damage_rate: float = 0.0
    answered: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def fault(self, body: str) -> str:
        """Draw what befalls a call; empty for nothing.

        Below a rate of 1 the last try succeeds: a call that fails for good costs its task, and
        the records say so, which the undisturbed twin's do not.
        """
        with self.lock:
            if self.dice.random() >= self.fault_rate or (
                self.fault_rate < 1 and self.failed[body] == RETRIES
            ):
                return ""
            self.failed[body] += 1
            return self.dice.choice(("429", "500", "503", "cut", "half", "garbage", "null"))

    def damaged(self, text: str) -> str:
        """Return an answer, damaged now and then."""
        with self.lock:
            return damaged(self.dice, text) if self.dice.random() < self.damage_rate else text


class Disturbed(Models):
    """The scripted models; each trial has a key of its own and is troubled by it."""

    def do_POST(self) -> None:  # noqa: N802 - the library calls it so
        """Answer a chat completion, or fail to."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        trouble = TROUBLES[self.headers["Authorization"].removeprefix("Bearer ")]
        fault = trouble.fault(body.decode())
        if fault == "cut":
            self.connection.close()
            self.close_connection = True
            return
        if fault.isdigit():
            self.reply(int(fault), b'{"error": {"message": "come back later", "code": "busy"}}')
            return
        messages = json.loads(body)["messages"]
        said = answer(messages[0]["content"], messages[-1]["content"])
        content = None if fault == "null" else trouble.damaged(said)
        message = {"role": "assistant", "content": content}
        # an empty answer that bills nothing: what is billed is booked, so the trees would differ
        usage = None if content is None else {"prompt_tokens": 10, "completion_tokens": 5}
        choice = {"message": message, "finish_reason": "stop"}
        whole = json.dumps({"model": "m", "choices": [choice], "usage": usage}).encode()
        if fault in {"half", "garbage"}:
            self.reply(200, whole[: len(whole) // 2] if fault == "half" else b"<html>proxy</html>")
            return
        self.reply(200, whole)
        if content is not None:
            with trouble.lock:
                trouble.answered[body.decode()] += 1

    def reply(self, status: int, content: bytes) -> None:
        """Send a whole response; whoever asked may be dead."""
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
        except OSError:
            self.close_connection = True


class Server(ThreadingHTTPServer):
    """A server to which callers that die in mid-call are no news."""

    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_: object) -> None:
        """Tell of defects only."""
        if not isinstance(sys.exception(), OSError):
            traceback.print_exc()


#: By key. The one thing that the server's threads and the trials share.
TROUBLES: dict[str, Trouble] = {}


@dataclass(frozen=True)
class Twin:
    """What an undisturbed run left behind."""

    trees: tuple[str, ...]
    skill: str
    verdicts: tuple[str, ...]
    calls: int
    seconds: float


@dataclass(frozen=True)
class Trial:
    """One clone with a remote and models of its own."""

    folder: Path
    key: str
    dice: random.Random
    trouble: Trouble

    @property
    def clone(self) -> Path:
        """The first clone."""
        return self.folder / "clone"

    @property
    def remote(self) -> Path:
        """The bare repository."""
        return self.folder / "remote.git"

    def another_clone(self, name: str) -> Path:
        """Clone the remote as another machine would."""
        git(self.folder, "clone", "--quiet", str(self.remote), name)
        return self.folder / name

    def begin(self, *words: str, clone: Path | None = None, **options: object) -> Process:
        """Start a command in a process group of its own."""
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        return subprocess.Popen(  # type: ignore[call-overload,no-any-return]
            [sys.executable, "-m", "skillopt_ci", "--no-progress", *words],
            cwd=clone or self.clone,
            env={**environment(self.folder), "DEPTH_KEY": self.key},
            text=True,
            errors="replace",
            start_new_session=True,
            **options,
        )

    def run(self, *words: str, clone: Path | None = None, **options: object) -> int:
        """Run a command to its end and return its exit code, a documented one."""
        return ended(self.begin(*words, clone=clone, **options))


Process = subprocess.Popen[str]


def ended(
    process: Process, documented: Iterable[int] = DOCUMENTED, seconds: float = PATIENCE
) -> int:
    """Wait for a command's end and hold what it said against what is promised of every command."""
    try:
        _, complaints = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise Failed(f"{' '.join(map(str, process.args[3:]))} hangs") from None  # type: ignore[index]
    code = process.returncode
    if code not in documented or "Traceback (most recent" in (complaints or ""):
        raise Failed(f"exit {code}: {(complaints or '')[-1500:]}")
    return code


def environment(home: Path) -> dict[str, str]:
    """Variables of a machine where nobody has set anything."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    who = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER")
           for what, value in (("NAME", "Ada"), ("EMAIL", "ada@example.org"))}  # fmt: skip
    return {**kept, **who, "HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1"}


def git(folder: Path, *words: str) -> str:
    """Run git and return what it printed."""
    done = subprocess.run(
        ["git", *words],  # noqa: S607 - whichever git
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise Failed(f"git {words[0]}: {done.stderr.strip()}")
    return done.stdout.strip()


def record_of(repository: Path, calls: int = 0, seconds: float = 0.0) -> Twin:
    """Read what a run left on its branch, local or remote."""
    commits = git(repository, "rev-list", "--reverse", "--first-parent", BRANCH).split()
    history = git(repository, "show", f"{BRANCH}:.skillopt/depth/history.jsonl")
    entries = [json.loads(line) for line in history.splitlines()]
    return Twin(
        tuple(git(repository, "rev-parse", f"{commit}^{{tree}}") for commit in commits),
        git(repository, "show", f"{BRANCH}:skills/SKILL.md"),
        tuple(entry["reason"] for entry in entries if entry["kind"] != "set_aside"),
        calls,
        seconds,
    )


def finish(trial: Trial, twin: Twin, *, lost_calls: int = 0, same_trees: bool = True) -> None:
    """Train the rest undisturbed; hold the branch, here and on the remote, against the twin's."""
    trial.trouble.fault_rate = trial.trouble.damage_rate = 0.0
    # a kill of the whole group takes the remote's git along, which no code host's dies of
    for lock in trial.remote.rglob("*.lock"):
        lock.unlink()
    ended(trial.begin("run"), {0, 3})
    for repository in (trial.clone, trial.remote):
        left = record_of(repository)
        if left.skill != twin.skill or left.verdicts != twin.verdicts:
            raise Failed(f"another skill or other verdicts in {repository}")
        if same_trees and left.trees != twin.trees:
            raise Failed(f"other trees in {repository}")
    again = sum(trial.trouble.answered.values()) - twin.calls
    if again > lost_calls:
        raise Failed(f"{again} answers were paid for again; at most {lost_calls} can be lost")


def kill(trial: Trial, twin: Twin) -> None:
    """Send signals at random instants, up to four times."""
    kills = 0
    for _ in range(trial.dice.randint(1, 4)):
        process = trial.begin("run")
        try:
            process.wait(trial.dice.uniform(0.2, 1.2 * twin.seconds))
        except subprocess.TimeoutExpired:
            kind = trial.dice.choice(SIGNALS)
            os.killpg(process.pid, kind)
            kills += 1
            if kind == signal.SIGKILL:
                process.communicate()
                continue
        ended(process, DOCUMENTED | {-signal.SIGTERM, -signal.SIGINT})
    finish(trial, twin, lost_calls=CALLS_AT_ONCE * kills)


def race(trial: Trial, twin: Twin) -> None:
    """Train the same run in two clones at once; whoever loses says so and comes again."""
    clones = [trial.clone, trial.another_clone("other")]
    for _ in range(12):
        words = trial.dice.choice((("run",), ("step",)))
        both = [trial.begin(*words, clone=clone) for clone in clones]
        codes = {ended(process, {0, 3, 6}) for process in both}
        if codes == {3}:
            break
    # A loser's candidate may be found later and set aside, which the history tells.
    finish(trial, twin, lost_calls=twin.calls, same_trees=False)


def failing_models(trial: Trial) -> None:
    """Calls fail in one of seven ways: some, most, or all of them."""
    trial.trouble.fault_rate = trial.dice.choice((0.1, 0.3, 0.9, 1.0))
    trial.run("run")


def refusing_remote(trial: Trial) -> None:
    """The remote refuses every other push."""
    hook = trial.remote / "hooks" / "pre-receive"
    hook.write_text('#!/bin/bash\n(( RANDOM % 2 )) || { echo "disk quota exceeded"; exit 1; }\n')
    hook.chmod(0o755)
    for _ in range(3):
        trial.run("run")
    hook.unlink()


def absent_remote(trial: Trial) -> None:
    """The remote is away from the beginning, or from some instant on."""
    process = trial.begin("run")
    time.sleep(trial.dice.uniform(0, 3))
    trial.remote.rename(trial.folder / "away.git")
    ended(process)
    trial.run("run")
    trial.run("status")
    (trial.folder / "away.git").rename(trial.remote)


def left_locks(trial: Trial) -> None:
    """A killed git left its locks."""
    interrupted(trial)
    old = time.time() - 86_400
    for name in ("packed-refs", f"refs/heads/{BRANCH}", f"refs/remotes/origin/{BRANCH}"):
        lock = trial.clone / ".git" / f"{name}.lock"
        lock.parent.mkdir(parents=True, exist_ok=True)
        lock.touch()
        os.utime(lock, (old, old))


def broken_refs(trial: Trial) -> None:
    """A power cut emptied a ref that had not reached the disk."""
    interrupted(trial)
    refs = trial.clone / ".git" / "refs"
    for ref in (refs / "heads" / BRANCH, refs / "remotes" / "origin" / BRANCH):
        if ref.exists() and trial.dice.choice((True, True, False)):
            ref.write_bytes(trial.dice.choice((b"", b"\0" * 41, b"garbage\n")))


def broken_cache(trial: Trial) -> None:
    """The file of paid answers is cut, damaged or gone."""
    interrupted(trial)
    for file in trial.clone.rglob(".git/skillopt-ci/**/*"):
        if file.is_file():
            content = bytearray(file.read_bytes())
            for _ in range(40):
                if content:
                    content[trial.dice.randrange(len(content))] = trial.dice.randrange(256)
            file.write_bytes(content[: trial.dice.randint(0, len(content))])


def full_disk(trial: Trial) -> None:
    """No file may grow past some kilobytes."""
    size = trial.dice.choice((0, 1_000, 20_000, 100_000))
    trial.run("run", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)))


def few_files(trial: Trial) -> None:
    """Only a few files may be open at once."""
    most = trial.dice.choice((12, 20, 40))
    trial.run("run", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (most, most)))


def odd_terminal(trial: Trial) -> None:
    """Standard output is closed, full, or read by nobody."""
    kind = trial.dice.choice(("closed", "full", "unread"))
    if kind == "closed":
        trial.run("run", stdout=None, preexec_fn=lambda: os.close(1))
    elif kind == "full":
        with Path("/dev/full").open("w") as full:
            trial.run("run", stdout=full)
    else:
        process = trial.begin("run")
        with process.stdout or nullcontext():
            process.stdout = None
        ended(process, DOCUMENTED | {128 + signal.SIGPIPE})


def interrupted(trial: Trial) -> None:
    """Kill a run somewhere."""
    process = trial.begin("run")
    try:
        process.communicate(timeout=trial.dice.uniform(1, 5))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


FAULTS = (failing_models, refusing_remote, absent_remote, left_locks, broken_refs, broken_cache,
          full_disk, few_files, odd_terminal)  # fmt: skip


def fault(trial: Trial, twin: Twin) -> None:
    """Disturb a run in one way, then train the rest undisturbed."""
    disturb = trial.dice.choice(FAULTS)
    try:
        disturb(trial)
        # What a lost cache held is paid for again, and told so in the records.
        lost = disturb in {broken_cache, full_disk, few_files}
        finish(trial, twin, lost_calls=3 * twin.calls if lost else 10 * CALLS_AT_ONCE,
               same_trees=not lost)  # fmt: skip
    except Failed as failure:
        raise Failed(f"{disturb.__name__}: {failure}") from None


def fuzz(trial: Trial, _: Twin) -> None:
    """Damage files and have commands read them; damage the models' answers and train on them."""
    for _number in range(6):
        file = trial.dice.choice(("skillopt.yaml", "tasks/train.jsonl", "skills/SKILL.md"))
        path = trial.clone / file
        before = path.read_bytes()
        path.write_text(damaged(trial.dice, before.decode()), encoding="utf-8", errors="replace")
        kept = path.read_bytes()
        command = trial.dice.choice(("check", "status", "estimate", "config"))
        try:
            ended(trial.begin(command), seconds=30)
        except Failed as failure:
            (trial.folder / "damaged").write_bytes(kept)
            raise Failed(f"{command} on the damaged {file}: {failure}") from None
        path.write_bytes(before)
    trial.trouble.damage_rate = 0.3
    trial.run("step")


def damaged(dice: random.Random, text: str) -> str:
    """Cut, double, shuffle or poison a text in one to four places."""
    for _ in range(dice.randint(1, 4)):
        start, end = sorted((dice.randint(0, len(text)), dice.randint(0, len(text))))
        lines = text.splitlines(keepends=True)
        dice.shuffle(lines)
        text = dice.choice(
            (
                text[:start] + text[min(end, start + 30) :],
                text[:start] + dice.choice(NASTY) + text[start:],
                text[:end] + text[start:end] + text[end:],
                text[:start],
                "".join(lines),
            )
        )
    return text


KINDS: dict[str, Callable[[Trial, Twin], None]] = {
    "kill": kill, "race": race, "fault": fault, "fuzz": fuzz,
}  # fmt: skip


@dataclass
class Campaign:
    """The template of all trials and the tally of what came of them."""

    folder: Path
    url: str
    seed: int
    tried: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)

    def open_trial(self, name: str) -> Trial:
        """Make a remote and a clone of it, with models that behave so far."""
        folder = self.folder / name
        folder.mkdir()
        git(folder, "clone", "--quiet", "--bare", str(self.folder / "template"), "remote.git")
        git(folder, "clone", "--quiet", "remote.git", "clone")
        dice = random.Random(f"{self.seed}/{name}")
        trial = Trial(folder, f"sk-{name}", dice, Trouble(random.Random(dice.random())))
        TROUBLES[trial.key] = trial.trouble
        return trial

    def make_twin(self) -> Twin:
        """Train undisturbed, and train nothing more."""
        make_repository_once(self.folder / "template", self.url)
        trial, begun = self.open_trial("twin"), time.monotonic()
        if trial.run("run") != 0:
            raise Failed("the undisturbed run fails")
        seconds = time.monotonic() - begun
        return record_of(trial.clone, sum(trial.trouble.answered.values()), seconds)

    def attempt(self, kind: str, number: int, twin: Twin) -> None:
        """Try once; tell a failure, keep its folder."""
        name = f"{kind}-{number}"
        self.tried[kind] += 1
        trial = self.open_trial(name)
        try:
            KINDS[kind](trial, twin)
            shutil.rmtree(trial.folder)
        except Failed as failure:
            self.failed[kind] += 1
            print(f"{name} failed (kept in {trial.folder}; --seed {self.seed} --only {kind} "
                  f"--first {number}): {failure}", flush=True)  # fmt: skip
        except Exception:  # noqa: BLE001 - the campaign's own fault; the others go on
            self.failed[kind] += 1
            print(f"{name} could not be tried:\n{traceback.format_exc()}", flush=True)
        finally:
            TROUBLES.pop(trial.key, None)


def make_repository_once(folder: Path, url: str) -> None:
    """Commit the material, with retries as a user has them, only quicker."""
    folder.mkdir()
    config = CONFIG.replace("retries: 0", f"retries: {RETRIES}")
    os.environ.update(environment(folder.parent))
    make_repository(folder, url, config)


def main() -> None:
    """Run trials for the given minutes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", choices=KINDS, action="append", help="kinds of trials (all)")
    parser.add_argument("--first", type=int, default=0, help="number of the first trial (0)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2, help="trials at once")
    asked = parser.parse_args()
    kinds = asked.only or list(KINDS)
    with Server(("127.0.0.1", 0), Disturbed) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{http.server_address[1]}/v1"
        campaign = Campaign(Path(tempfile.mkdtemp(prefix="campaign-")), url, asked.seed)
        twin = campaign.make_twin()
        end = time.monotonic() + 60 * asked.minutes

        def work(start: int) -> None:
            number = start
            while time.monotonic() < end:
                campaign.attempt(kinds[number % len(kinds)], number, twin)
                number += asked.jobs

        with ThreadPoolExecutor(asked.jobs) as pool:
            list(pool.map(work, range(asked.first, asked.first + asked.jobs)))
        http.shutdown()
    print(f"{'kind':8}{'tried':>8}{'survived':>10}{'failed':>8}   (seed {asked.seed})")
    for kind in kinds:
        tried, failed = campaign.tried[kind], campaign.failed[kind]
        print(f"{kind:8}{tried:8}{tried - failed:10}{failed:8}")
    if not campaign.failed:
        shutil.rmtree(campaign.folder)
    sys.exit(int(bool(campaign.failed)))


if __name__ == "__main__":
    main()
