"""The mistakes of a first try: each ends with a message that says what to do, and no trace."""

import json
import re
import subprocess
from collections.abc import Iterator

import pytest
from http_server import Handler, http_server

from tests.conftest import RULES, Checkout

pytestmark = pytest.mark.end_to_end

KEY, MODEL = "sk-right", "m"
FRONT_MATTER = "---\nname: skills\ndescription: How items are numbered, if there are some.\n---\n"


class _Provider(Handler):
    """Behaves as providers do: knows one key, one model and one path."""

    def respond(self) -> None:
        body = json.loads(self.content())
        if self.path == "/site/chat/completions":
            self._send(200, b"<!doctype html><title>Welcome</title>", "text/html")
        elif self.path == "/silent/chat/completions":
            self._reply("", "length" if "kind a" in str(body["messages"][1]) else "stop")
        elif self.path == "/short/chat/completions":
            self._error(400, "request (9704 tokens) exceeds the available context size (8192)")
        elif self.path == "/strict/chat/completions":
            flagged = "kind a" in str(body["messages"][1])
            self._error(400, "Your input was flagged") if flagged else self._reply("ready")
        elif self.path != "/v1/chat/completions":
            self._error(404, "Not Found")
        elif self.headers["Authorization"] != f"Bearer {KEY}":
            self._error(401, "Incorrect API key provided")
        elif body["model"] != MODEL:
            self._error(404, f"The model `{body['model']}` does not exist")
        else:
            self._reply("ready")

    def _reply(self, text: str, ended: str = "stop") -> None:
        choice = {"message": {"role": "assistant", "content": text}, "finish_reason": ended}
        self._send(200, json.dumps({"model": MODEL, "choices": [choice]}).encode())

    def _error(self, status: int, message: str) -> None:
        self._send(status, json.dumps({"error": {"message": message}}).encode())

    def _send(self, status: int, content: bytes, kind: str = "application/json") -> None:
        self.answer(content, status, {"Content-Type": kind})


@pytest.fixture
def provider() -> Iterator[str]:
    with http_server(_Provider) as url:
        yield url


def at(url: str, model: str = MODEL) -> tuple[str, ...]:
    """Overrides that send both roles to ``url``."""
    pairs = [(role, key) for role in ("target", "optimizer") for key in ("base_url", "model")]
    values = {"base_url": url, "model": model}
    return tuple(one for role, key in pairs for one in ("-o", f"model.{role}.{key}={values[key]}"))


def refused(
    done: subprocess.CompletedProcess[str], checkout: Checkout, code: int, *texts: str
) -> None:
    """Expect one message that says all of ``texts``, and nothing left behind."""
    assert done.returncode == code, done.stderr
    told = done.stdout + done.stderr
    assert all(text in told for text in texts), told
    assert "Traceback" not in told
    assert checkout.ref("skillopt/demo") == ""
    assert checkout.ref("skillopt-candidate/demo") == ""


@pytest.mark.parametrize(
    ("path", "model", "key", "code", "texts"),
    [
        ("/v1", MODEL, "sk-wrong", 2, ("refused the key in DEMO_KEY", "Put a valid key")),
        ("/v1", MODEL, "", 2, ("DEMO_KEY, which is empty", "Export DEMO_KEY")),
        ("/v1", "mm", KEY, 2, ("does not serve 'mm'", "Check model's spelling")),
        ("", MODEL, KEY, 2, ("base_url ends before /chat/completions (most end in /v1)",)),
        ("/site", MODEL, KEY, 5, ("is a web page", "base_url must be the root of an API")),
        ("/short", MODEL, KEY, 2, ("every selection task: The prompt is", "reword the skill")),
    ],
    ids=["wrong key", "empty key", "wrong model", "no /v1", "a web page", "too short a context"],
)
def test_models_that_cannot_answer(checkout, command, provider, path, model, key, code, texts):
    where = at(provider + path, model)
    refused(command(checkout, "step", *where, DEMO_KEY=key), checkout, code, *texts)


def test_a_step_says_that_all_answers_were_empty(checkout, command, provider):
    told = command(checkout, "step", *at(f"{provider}/silent")).stderr
    assert "All 8 answers of the target were empty. Check that it is a chat model" in told


def test_a_step_says_how_many_attempts_were_refused_and_where_to_look(checkout, command, provider):
    told = command(checkout, "step", *at(f"{provider}/strict")).stderr
    assert "2 of 8 selection attempts were refused, which scores 0. The content filter" in told
    assert "No selection task was solved. Look at an answer: `skillopt-ci trace " in told


def test_a_step_says_that_most_attempts_were_refused(checkout, command, model_server):
    lost, ends = (400, "Your input was flagged"), ("kind a", "kind b", "kind d")
    model_server.trouble = lambda text: lost if RULES["a"] in text and text.endswith(ends) else None
    done = command(checkout, "step", "-o", "evaluation.gate.early_stop=false")
    assert done.stderr.count("6 of 8 selection attempts were refused, which scores 0.") == 1


def test_three_tasks_only(checkout, command):
    for split in ("train", "selection", "test"):
        lines = (checkout.folder / f"tasks/{split}.jsonl").read_text().splitlines()[:3]
        checkout.write(f"tasks/{split}.jsonl", "\n".join(lines))
    told = command(checkout, "check").stdout
    assert all(f"only 3 {split} tasks" in told for split in ("training", "selection", "test"))
    assert "known to ±0.37 (95 %), with 20 to ±0.20" in told


def know_it_all(checkout: Checkout) -> None:
    checkout.write("skills/SKILL.md", "\n".join(RULES.values()))
    checkout.git("commit", "--quiet", "-am", "Know it all")


@pytest.mark.parametrize("word", ["step", "run", "step --until-candidate"])
def test_a_bare_model_solves_everything(checkout, command, model_server, word):
    know_it_all(checkout)
    done = command(checkout, *word.split())
    assert "stopped: There is nothing to learn" in done.stderr
    assert "all measured selection tasks (8) are solved" in done.stderr
    assert "Put harder tasks" in done.stderr
    assert (model_server.optimizer_prompts, len(model_server.prompts)) == ([], 8)
    assert (done.returncode, command(checkout, "plan").returncode) == (3, 3)
    tested = ("-o", "evaluation.eval_test=true")
    assert "nothing to pay for" in command(checkout, "estimate", *tested).stdout


def test_solving_everything_stops_nobody_who_wants_it_shorter(checkout, command):
    know_it_all(checkout)
    done = command(checkout, "step", "-o", "evaluation.ties=prefer_shorter")
    assert done.returncode == 0, done.stderr
    assert "training tasks of the first step were solved without training" in done.stderr


def test_a_skill_named_by_its_folder_is_the_document_in_it(checkout, command):
    done = command(checkout, "step", "--json", "-o", "skill=skills")
    assert done.returncode == 0, done.stderr
    assert json.loads(command(checkout, "status", "--json").stdout)["skill"] == "skills/SKILL.md"


def elsewhere(checkout: Checkout) -> None:
    checkout.write("docs/inner/SKILL.md", "# Inner\n")


def commit_nothing(checkout: Checkout) -> None:
    checkout.git("update-ref", "-d", "HEAD")


def forget_the_skill(checkout: Checkout) -> None:
    checkout.git("rm", "--quiet", "--cached", "skills/SKILL.md")
    checkout.git("commit", "--quiet", "-m", "Forget")


def remove_references(checkout: Checkout) -> None:
    tasks = (checkout.folder / "tasks/train.jsonl").read_text()
    checkout.write("tasks/train.jsonl", re.sub(r', "references": "\w+"', "", tasks))


def repeat_an_id(checkout: Checkout) -> None:
    tasks = (checkout.folder / "tasks/train.jsonl").read_text()
    checkout.write("tasks/train.jsonl", tasks.replace('"id": "b1"', '"id": "a0"'))


def stand_on_the_skills_branch(checkout: Checkout) -> None:
    checkout.git("checkout", "--quiet", "-b", "skillopt/other")


@pytest.mark.parametrize(
    ("mistake", "options", "texts"),
    [
        (elsewhere, ("-o", "skill=docs"), ("a folder without a SKILL.md", "docs/inner/SKILL.md")),
        (elsewhere, ("-c", "conf.yaml"), ("conf.yaml: there is no such file", "skillopt-ci init")),
        (elsewhere, ("-c", "docs/skillopt.yaml"), ("another one: --config skillopt.yaml",)),
        (elsewhere, ("-o", "skill=skill.md"), ("is not in the commit", "fix the key `skill`")),
        (commit_nothing, (), ("no commit yet", "Commit the skill")),
        (forget_the_skill, (), ("git add skills/SKILL.md && git commit",)),
        (remove_references, (), ("train.jsonl:1: task 'a0'", "`references`")),
        (repeat_an_id, (), ("train.jsonl:2: id 'a0' is already used",)),
        (
            stand_on_the_skills_branch,
            ("-o", "run=other"),
            ("cannot be 'skillopt/other'", "git switch main"),
        ),
        (elsewhere, ("-o", "model.target.base_url=localhost:8000/v1"), ("begins with https://",)),
    ],
)
def test_what_is_not_there_or_not_meant(checkout, command, mistake, options, texts):
    mistake(checkout)
    refused(command(checkout, "step", *options), checkout, 2, *texts)
    assert command(checkout, "check", *options).returncode == 2


def test_a_skill_without_front_matter_is_told_how_to_begin(checkout, command):
    done = command(checkout, "check")
    assert done.returncode == 0, done.stdout
    assert "name: skills\n" in done.stdout
    assert "description: " in done.stdout
    warning = "Agents will skip skills/SKILL.md: SKILL.md must start with YAML frontmatter"
    assert command(checkout, "step", "-q").stderr.count(warning) == 1
    assert warning not in command(checkout, "step").stderr


def test_a_skill_is_known_by_the_link_that_leads_to_it(checkout, command):
    checkout.write("skills/SKILL.md", FRONT_MATTER)
    checkout.git("mv", "skills", "shared")
    (checkout.folder / "skills").symlink_to("shared")
    checkout.git("add", "--all")
    checkout.git("commit", "--quiet", "--message", "Link")
    done = command(checkout, "step", "-q")
    assert (done.returncode, "will skip" in done.stderr) == (0, False), done.stderr


def test_init_tells_at_once_what_a_skill_lacks(checkout, command):
    (checkout.folder / "skillopt.yaml").unlink()
    done = command(checkout, "init", "--yes", "--skill", "skills")
    assert done.returncode == 0, done.stderr
    assert "! warning: Agents will skip skills/SKILL.md: " in done.stderr
    checkout.write("skills/SKILL.md", FRONT_MATTER)
    (checkout.folder / "skillopt.yaml").unlink()
    assert "warning" not in command(checkout, "init", "--yes", "--skill", "skills").stderr


def test_git_does_not_know_who_commits(checkout, command, model_server):
    done = command(checkout, "step", GIT_CONFIG_GLOBAL="/dev/null")
    refused(done, checkout, 2, "git config --global user.name", "git.author_name")
    assert model_server.prompts == []


def test_windows_line_endings_are_as_good(checkout, command):
    for name in ("skillopt.yaml", "tasks/train.jsonl", "tasks/selection.jsonl", "skills/SKILL.md"):
        file = checkout.folder / name
        file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    checkout.git("commit", "--quiet", "-am", "From Windows")
    done = command(checkout, "step")
    assert done.returncode == 0, done.stderr
    lines = checkout.git("show", "skillopt/demo:skills/SKILL.md", keep_end=True).splitlines(True)
    assert len(lines) > 1
    assert {line[-2:] for line in lines} == {"\r\n"}


def test_init_begins_without_git_and_its_examples_are_known(checkout, command, tmp_path_factory):
    fresh = type(checkout)(tmp_path_factory.mktemp("nowhere"))
    assert "1. git init" in command(fresh, "init", "--yes", "--provider", "simulated").stdout
    told = command(fresh, "check")
    assert told.returncode == 2
    assert "not inside a git repository" in told.stdout
    assert "tasks/test.jsonl still hold the examples of `init`" in told.stdout
