import json
import os
import re
import shutil
import subprocess
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import click
import forked
import pytest
import yaml
from click.testing import CliRunner, Result
from http_server import Handler, http_server
from programs import write_program

from skillopt_ci.cli.config import survey
from skillopt_ci.cli.init import (
    PRESETS,
    Look,
    ask_server,
    choose,
    decide,
    init_command,
    make_repository,
)
from skillopt_ci.cli.options import Globals
from skillopt_ci.cli.scaffold import WORKFLOW
from skillopt_ci.config.loading import load
from skillopt_ci.errors import RepositoryError, UsageError
from skillopt_ci.git.process import Git

pytestmark = pytest.mark.integration

OWN = ["--target-model", "small", "--optimizer-model", "large"]
KEYS = ["run", "skill", "provider", "base_url", "target_model", "optimizer_model", "api_key_env"]


def init(folder: Path, *words: str) -> Result:
    settings = Globals(dict(os.environ), folder)
    return CliRunner().invoke(init_command, words, obj=settings, standalone_mode=False)


@pytest.mark.parametrize("provider", PRESETS)
def test_every_provider_makes_a_configuration_that_loads(provider, tmp_path):
    words = ("--provider", provider, "--base-url", "http://localhost:1/v1")
    result = init(tmp_path, *words, "--target-model", "small", "--optimizer-model", "large")
    assert result.return_value == 0, result.output
    assert load(tmp_path / "skillopt.yaml").config.model.optimizer.model == "large"


def test_what_may_not_exist_is_no_default_where_nobody_is_asked(tmp_path):
    words = ("--yes", "--provider", "ollama", "--base-url", "http://localhost:1/v1")
    result = init(tmp_path, *words)
    assert isinstance(result.exception, click.UsageError)
    assert "give --target-model" in result.exception.format_message()
    assert "did not list its models" in result.stderr
    assert list(tmp_path.iterdir()) == []
    assert "OPENAI_API_KEY is not set, so the models' names" in init(tmp_path, "--yes").stderr


def test_options_reach_the_configuration_and_it_says_what_comes_next(tmp_path):
    told = init(tmp_path, "--run", "r1", "--target-model", "small", "--api-key-env", "MY_KEY")
    config = load(tmp_path / "skillopt.yaml").config
    assert (config.run, config.skill) == ("r1", "skills/r1/SKILL.md")
    assert (config.model.target.model, config.model.optimizer.api_key_env) == ("small", "MY_KEY")
    for words in ("wrote     skillopt.yaml", "export MY_KEY=…", "skillopt-ci check"):
        assert words in told.output
    assert not (tmp_path / ".github").exists()


def test_existing_files_are_left_and_listed(tmp_path):
    (tmp_path / "AGENTS.md").write_text("mine", encoding="utf-8")
    (tmp_path / "tasks").mkdir()
    for split in ("train", "selection", "test"):
        (tmp_path / f"tasks/{split}.jsonl").write_text("{}", encoding="utf-8")
    told = init(tmp_path).output
    assert ("left      AGENTS.md" in told, "already know" in told) == (True, False)
    assert ("left      tasks/test.jsonl" in told, "the example tasks" in told) == (True, False)
    assert (tmp_path / "AGENTS.md").read_text(encoding="utf-8") == "mine"
    assert (init(tmp_path).return_value, "wrote" in init(tmp_path).output) == (3, False)
    (tmp_path / "skillopt.yaml").rename(tmp_path / "skillopt.yml")
    assert "Use it (--config skillopt.yml)" in str(init(tmp_path).exception)


def test_a_bare_repository_and_an_empty_configuration_are_refused(tmp_path, git):
    git(tmp_path, "init", "--quiet", "--bare", "bare")
    assert "repository is bare" in str(init(tmp_path / "bare", "-y").exception)
    assert not (tmp_path / "bare/skillopt.yaml").exists()
    with pytest.raises(RepositoryError, match="repository is bare"):
        survey(tmp_path / "bare")
    (tmp_path / "skillopt.yaml").touch()
    assert "run: missing" in str(init(tmp_path, "-y").exception)


def test_another_run_has_a_file_and_tasks_of_its_own(tmp_path, git):
    git(tmp_path, "init")
    init(tmp_path)
    assert "init -c NAME.skillopt.yaml" in init(tmp_path).output
    told = init(tmp_path, "--run", "two", "--skill", "two.md").exception
    assert isinstance(told, UsageError)
    assert "init -c NAME.skillopt.yaml" in told.hint
    own = ("-c", "two.skillopt.yaml")
    done = json.loads(init(tmp_path, *own, "--skill", "two.md", "--json").stdout)
    assert "tasks/two/train.jsonl" in done["written"]
    config = load(tmp_path / "two.skillopt.yaml").config
    assert (config.run, config.skill) == ("two", "two.md")
    third = init(tmp_path, "-c", "three.skillopt.yaml", "--skill", "./two.md").exception
    assert "another run trains ./two.md" in str(third)
    assert init(tmp_path, *own, "--run", "two").return_value == 3


def test_a_skill_given_as_a_folder_is_its_document_and_may_be_anywhere(tmp_path):
    (tmp_path / "skills/notes").mkdir(parents=True)
    assert "wrote     skills/notes/SKILL.md" in init(tmp_path, "--skill", "skills/notes").output
    (tmp_path / "My Notes").mkdir()
    (tmp_path / "My Notes/SKILL.md").write_text("# Notes\n", encoding="utf-8")
    (tmp_path / "a.md").write_text("# Notes\n", encoding="utf-8")
    places = {"My Notes": "SKILL.md", "./a.md": "../a.md", "a.md": "a.md", "My Notes/b.md": "b.md"}
    places |= {str(tmp_path / "a.md"): "../a.md", str(tmp_path / "new/c.md"): "../new/c.md"}
    for number, (path, skill) in enumerate(places.items()):
        done = init(tmp_path, "-c", f"My Notes/{number}.yaml", "--skill", path)
        assert (done.return_value, "warning: Agents will skip" in done.stderr) == (0, number == 0)
        assert load(tmp_path / f"My Notes/{number}.yaml").config.skill == skill
        assert "wrote     ../" not in init(tmp_path, f"-c{number}/a.yaml", "--skill", path).output


@pytest.mark.parametrize(
    ("folder", "skill", "name"),
    [(".", "übersicht/SKILL.md", "übersicht"), ("pkg/train", "../SKILL.md", "pkg")],
)
def test_a_starter_skill_has_its_folders_name(tmp_path, git, folder, skill, name):
    git(tmp_path, "init")
    assert "a.md is outside of the" in str(init(tmp_path, "--skill", "../a.md").exception)
    (root := tmp_path / folder).mkdir(parents=True, exist_ok=True)
    assert "warning" not in init(root, "--skill", skill).stderr
    assert f"\nname: {name}\n" in (root / skill).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-y", "--skill", "my notes/SKILL.md"], "'my notes' cannot be the folder of a SKILL.md"),
        (["-y", "--skill", "SKILL.md"], "'My_Work' cannot be the folder of a SKILL.md"),
        (["--provider", "compatible"], "give --base-url"),
        (["--run", "a b"], "'a b' may hold only letters"),
        (["--provider", "opena"], "'opena' is not one of"),
        (["-y", "--api-key-env", "sk-proj-x"], "expected the name of a variable"),
        (["-y", "--provider", "compatible", "--base-url", "x", *OWN], "base_url: expected an addr"),
    ],
)
def test_what_cannot_be_written_down_is_refused(words, message, tmp_path, git):
    git(tmp_path, "init")
    folder = tmp_path / "My_Work"
    folder.mkdir()
    result = init(folder, *words)
    assert isinstance(result.exception, click.UsageError | UsageError)
    told = f"{result.exception} {result.output}"
    assert message in told
    assert "sk-proj" not in told
    assert list(folder.iterdir()) == []


def answered(folder: Path, text: str, look: Look = lambda *_: ()) -> Result:
    @click.command()
    def ask() -> None:
        asking = partial(decide, dict.fromkeys(KEYS), asking=True)
        choices = choose(folder, asking, "usual", (), look)
        click.echo(f"{choices.run} {choices.skill} {json.dumps(choices.target)}")

    return CliRunner().invoke(ask, input=text)


def test_questions_have_defaults(tmp_path):
    last = answered(tmp_path, "notes\n" + "\n" * 6).stdout.splitlines()[-1]
    assert last.startswith("notes skills/notes/SKILL.md ")
    assert "OPENAI_API_KEY" in last


def test_a_wrong_answer_is_asked_again(tmp_path):
    last = answered(tmp_path, "a b\nnotes\n\nno\nollama\n\n\ntiny\ntiny\n").stdout.splitlines()[-1]
    assert last.startswith("notes ")
    assert all(one in last for one in ('"model": "tiny"', '"price": {"input": 0, "output": 0}'))
    assert "api_key_env" not in last


class Models(Handler):
    """A server that has two models, for whoever has the key."""

    listing: ClassVar[Any] = {"data": [{"id": "small"}, {"id": "large"}]}
    wanted = ("/v1/models", "Bearer sk-1")

    def respond(self) -> None:
        asked = (self.path, self.headers["Authorization"] or self.headers["x-api-key"])
        status = 200 if asked == self.wanted else 302 if self.path == "/old/models" else 401
        cut, headers = 3 if self.listing == "cut" else None, {"Location": "/v1/models"}
        self.answer(json.dumps(self.listing).encode(), status, headers, cut=cut)


def test_models_are_asked_of_the_address_and_checked(tmp_path):
    with http_server(Models) as url:
        words = ("notes", "", "compatible", f"{url}/v1", "MY_KEY", "smal", "small", "large")
        done = answered(tmp_path, "\n".join(words) + "\n", partial(ask_server, {"MY_KEY": "sk-1"}))
    assert "2 models there: small, large" in done.stderr
    assert "lists no model 'smal'. Did you mean 'small'?" in done.stderr
    assert '"model": "small"' in done.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    ("provider", "listing", "model"),
    [
        ("llamacpp", {"data": [{"id": "/m.gguf"}]}, "/m.gguf"),  # the only one is no guess
        ("anthropic", {"data": [{"id": "claude-haiku-4-5-20251001"}]}, "claude-haiku-4-5"),
        ("gemini", {"data": [{"id": "models/gemini-3-flash"}]}, "gemini-3-flash"),
        ("together", [{"id": "some/model"}], "some/model"),
        ("ollama", {"data": [{"id": "qwen3:8b"}, {"id": "gpt-oss:20b"}]}, "qwen3:8b"),
    ],
)
def test_servers_list_their_models_in_many_ways(tmp_path, provider, listing, model):
    wanted = ("/v1/models?limit=1000", "sk-1") if provider == "anthropic" else Models.wanted
    with http_server(type("Other", (Models,), {"listing": listing, "wanted": wanted})) as url:
        words = ("notes", "", provider, f"{url}/v1", "MY_KEY", "", "")
        done = answered(tmp_path, "\n".join(words) + "\n", partial(ask_server, {"MY_KEY": "sk-1"}))
    assert "warning" not in done.stderr
    assert json.loads(done.stdout.splitlines()[-1].split(" ", 2)[2])["model"] == model


@pytest.mark.parametrize(
    ("key", "root", "listing", "said"),
    [
        ("", "v1", "", "MY_KEY is not set"),
        ("wrong", "v1", "", "did not list its models: HTTP Error 401"),
        ("sk-1", "old", "", "did not list its models: HTTP Error 401"),  # no redirect gets the key
        ("sk-1", "v1", "cut", "did not list its models: IncompleteRead"),
        ("sk-1\n", "v1", {"data": None}, "0 models there: none"),  # Ollama without models
        ("sk-1", "v1", {}, "did not list its models: no list came back"),
        ("sk-\n1", "v1", {}, "MY_KEY holds U+000A (a control character) as character 4 of 5, so"),
    ],
)
def test_where_models_cannot_be_checked_none_is_offered(tmp_path, key, root, listing, said):
    with http_server(type("Other", (Models,), {"listing": listing})) as url:
        words = ("notes", "", "ollama", f"{url}/{root}", "MY_KEY", "", "own", "", "other")
        done = answered(tmp_path, "\n".join(words) + "\n", partial(ask_server, {"MY_KEY": key}))
    assert (said in done.stderr, "sk-" in done.stderr) == (True, False)
    assert '"model": "own"' in done.stdout.splitlines()[-1]


def test_github_writes_one_workflow_and_says_all_that_is_left_to_do(tmp_path):
    subprocess.run(["git", "init", "-q", "-b", "trunk", tmp_path], check=True)
    folder = tmp_path / "bots"
    folder.mkdir()
    told = init(folder, "--github", "--pages", "--api-key-env", "MY_KEY").output
    job = yaml.safe_load((tmp_path / WORKFLOW).read_text(encoding="utf-8"))["jobs"]["skillopt"]
    assert job["secrets"] == {"keys": "MY_KEY=${{ secrets.MY_KEY }}"}
    assert job["with"]["config"] == "bots/skillopt.yaml"
    left = [
        line.partition(". ")[2] or line.strip()
        for line in told.partition("Next:\n")[2].splitlines()
    ]
    words = [line for line in left if line.startswith(("git ", "gh ", "skillopt-ci ", "GITHUB_"))]
    assert words == [
        (
            "git add skillopt.yaml tasks skills/bots/SKILL.md ../.github/workflows/skillopt.yml"
            " && git commit -m 'Set up skill training'"
        ),
        "skillopt-ci check",
        f"gh repo create --private --source {tmp_path}",
        "gh secret set MY_KEY",
        (
            "gh api -X PUT repos/{owner}/{repo}/actions/permissions/workflow"
            " -F can_approve_pull_request_reviews=true"
        ),
        "gh api repos/{owner}/{repo}/pages -f build_type=workflow",
        "git push --set-upstream origin HEAD",
        "GITHUB_TOKEN=$(gh auth token) skillopt-ci check --github",
        "gh workflow run skillopt.yml",
    ]
    assert "--pages belongs to --github" in str(init(tmp_path, "--pages").exception)
    told = init(tmp_path, "--github", "-c", "new/skillopt.yaml").output
    assert not (tmp_path / "new/.github").exists()
    assert "skillopt-ci check --github -c new/skillopt.yaml\n" in told
    assert "List new/skillopt.yaml in .github/workflows/skillopt.yml, in a matrix" in told


def test_the_workflow_passes_on_every_key_of_an_existing_configuration(tmp_path):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    head = ("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/trunk")
    for words in (("remote", "add", "origin", "x"), head, ("checkout", "-q", "-b", "side")):
        subprocess.run(["git", "-C", tmp_path, *words], check=True)
    told = init(tmp_path, "--api-key-env", "ONE_KEY").output
    assert "5. git push\n  6. skillopt-ci check\n" in told
    file = tmp_path / "skillopt.yaml"
    text = file.read_text(encoding="utf-8").replace("ONE_KEY", "OTHER_KEY", 1)
    file.write_text(text, encoding="utf-8")
    told = init(tmp_path, "--github").output
    assert re.findall(r"gh secret set (\w+)", told) == ["ONE_KEY", "OTHER_KEY"]
    assert "A push to trunk starts the first step" in told
    assert "branches: ['trunk']" in (tmp_path / WORKFLOW).read_text(encoding="utf-8")
    assert not re.search("gh repo create|skillopt-ci check\n", told)


def test_each_of_several_runs_gets_a_job(tmp_path):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    init(tmp_path)
    file = tmp_path / "skillopt.yaml"
    text = file.read_text(encoding="utf-8")
    runs = "runs: [{run: ledger, skill: L.md}, {run: mail, skill: M.md}]\n"
    file.write_text(re.sub(r"(?m)^(run|skill):.*\n", "", text) + runs, encoding="utf-8")
    assert "with one run" in str(init(tmp_path, "--github", "--pages").exception)
    init(tmp_path, "--github")
    job = yaml.safe_load((tmp_path / WORKFLOW).read_text(encoding="utf-8"))["jobs"]["skillopt"]
    assert job["strategy"] == {"fail-fast": False, "matrix": {"run": ["ledger", "mail"]}}
    assert job["with"]["run"] == "${{ matrix.run }}"


def passes(folder: Path, *places: str) -> bool:
    """Whether the tests of ``folder`` pass, run as a person would who has no plugins."""
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", *places]
    done = forked.run(words, cwd=folder, env=alone)
    assert done.returncode == 0, done.stdout
    return True


def test_the_environment_passes_its_test_and_validates_at_once(cli, tmp_path):
    assert "number-words/environment.py" in cli(tmp_path, "new-env", 'Number """words').out
    assert cli(tmp_path, "new-env", "jobs", "more/jobs", "--kind", "yaml").code == 0
    assert passes(tmp_path, "number-words", "more/jobs")
    git = Git(tmp_path)
    git.run("init", "--quiet")
    git.run("add", ".")
    git.run("commit", "--quiet", "-m", "Begin")
    for place in ("number-words", "more/jobs"):
        found = cli(tmp_path, "check", "-c", f"{place}/skillopt.yaml", "--json").json
        wrong = [one for one in found["findings"] if one["level"] == "error"]
        assert all(one["part"].startswith(("model", "computer")) for one in wrong), wrong


def test_a_change_of_the_grading_fails_the_test(cli, tmp_path):
    cli(tmp_path, "new-env", "words")
    file = tmp_path / "words" / "environment.py"
    file.write_text(file.read_text().replace("right = answer in", "right = answer not in"))
    with pytest.raises(AssertionError, match="references_solve"):
        passes(tmp_path, "words")


def test_a_change_of_what_a_computer_grades_fails_the_test(cli, tmp_path):
    cli(tmp_path, "new-env", "jobs", "--kind", "yaml")
    config = tmp_path / "jobs" / "skillopt.yaml"
    config.write_text(config.read_text().replace("{type: sandbox}", "{type: unconfined}"))
    file = tmp_path / "jobs" / "tasks" / "train.yaml"
    file.write_text(file.read_text().replace("hello\n", "good day\n", 1))
    with pytest.raises(AssertionError, match="test_solutions_solve_their_tasks"):
        passes(tmp_path, "jobs")


def test_what_is_there_stays(cli, tmp_path):
    (tmp_path / "words").mkdir()
    (tmp_path / "words" / "environment.py").write_text("mine\n")
    assert cli(tmp_path, "new-env", "words", "--json").json["left"] == ["environment.py"]
    assert (tmp_path / "words" / "environment.py").read_text() == "mine\n"
    again = cli(tmp_path, "new-env", "words", "--json")
    assert (again.code, again.json["written"]) == (3, [])


SMALL = ("-o", "tasks.limit=12", "-o", "train.num_epochs=1", "-o", "train.batch_size=6")


@pytest.fixture
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A git that knows no user, signs with a key that is not there and runs a failing hook."""
    hooks = tmp_path / "hooks"
    for name in ("pre-commit", "reference-transaction"):
        write_program(hooks / name, "exit 1")
    file = tmp_path / "gitconfig"
    file.write_text(f"[commit]\ngpgSign = true\n[core]\nhooksPath = {hooks}\n", encoding="utf-8")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(file))
    return tmp_path


def test_a_whole_run_is_done_and_explained_in_40_lines(cli, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    done = cli(tmp_path, "quickstart", "a place", *SMALL, "--no-progress")
    assert (done.code, done.err) == (0, "")
    steps = re.findall(r"^Step (\d).* \(simulated models\): \w+", done.out, re.MULTILINE)
    assert steps == ["1", "2"]
    # the commands to go on with can be copied
    assert f"  cd '{tmp_path / 'a place'}'\n" in done.out
    assert 'bin:$PATH"\n' in done.out
    lines = done.out.splitlines()
    assert len(lines) <= 40
    assert max(len(line) for line in lines if not re.search(f"{tmp_path}|PATH", line)) <= 80
    assert not re.search(r"[ \t\r]$|\n\n\n|\x1b", done.out, re.MULTILINE)
    score = r"^Test score \(simulated models\): 0\.\d+ → .* n=12\nfresh attempts  Provisional: "
    assert re.search(score, done.out, re.MULTILINE)
    report = tmp_path / "a place" / "skillopt-report.html"
    assert lines[-1] == f"Report: {report.as_uri()}"
    assert "<html" in report.read_text(encoding="utf-8")


@pytest.mark.parametrize("programs", [("git",), ("git", "bwrap", "skillopt-ci")])
def test_what_needs_bubblewrap_is_told_to_be_left_out_there(cli, tmp_path, monkeypatch, programs):
    (tmp_path / "bin").mkdir()
    for program in programs:
        (tmp_path / "bin" / program).symlink_to(shutil.which(program) or "/bin/true")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("UV", "uv")  # uvx has the program on a path of its own
    done = cli(tmp_path, "quickstart", "place", *SMALL)
    assert (done.code, "export PATH" in done.out) == (0, True), done.err
    assert ("left out: training an agent in a sandbox" in done.out) == ("bwrap" not in programs)


def test_json_has_steps_and_epoch_ends_alone_and_a_browser_the_report(cli, tmp_path, monkeypatch):
    browser = write_program(tmp_path / "browser", f"echo $1 >{tmp_path}/opened")
    monkeypatch.setenv("BROWSER", str(browser))
    done = cli(tmp_path, "quickstart", "place", "--open", "--json", *SMALL)
    told = [json.loads(line) for line in done.out.splitlines()]
    kinds = [("step", 1), ("step", 2), ("slow_update", 2)]
    assert [(one["kind"], one["step"]) for one in told] == kinds
    assert "Report: file://" in done.err
    opened = (tmp_path / "opened").read_text(encoding="utf-8").strip()
    assert opened == (tmp_path / "place/skillopt-report.html").as_uri()


def test_it_works_whatever_git_knows_of_the_user(cli, nobody, git):
    done = cli(nobody, "-q", "quickstart", "place", *SMALL)
    assert done.code == 0, done.err
    authors = git(nobody / "place", "log", "--format=%an", "skillopt/quickstart")
    assert set(authors.splitlines()) == {"Quickstart"}


def test_a_folder_in_use_stays_and_a_new_one_has_one_clean_commit(tmp_path, git):
    (tmp_path / "skillopt.yaml").write_text("mine\n", encoding="utf-8")
    with pytest.raises(UsageError, match="nothing was written"):
        make_repository(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["skillopt.yaml"]
    with pytest.raises(UsageError, match="cannot be written: Not a directory"):
        make_repository(tmp_path / "skillopt.yaml")
    make_repository(tmp_path / "place")
    assert git(tmp_path / "place", "rev-list", "--count", "main") == "1"
    assert git(tmp_path / "place", "status", "--porcelain") == ""
