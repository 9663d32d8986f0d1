import os
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from skillopt_ci.cli.build import as_begun, check_computers, open_run
from skillopt_ci.cli.options import Globals
from skillopt_ci.cli.read import find_skill
from skillopt_ci.config.config import Config
from skillopt_ci.config.loading import Loaded, load
from skillopt_ci.config.rollout import ComputerBlock
from skillopt_ci.errors import SkilloptError, UsageError
from skillopt_ci.messages import Message
from skillopt_ci.progress import Event, Note, silent
from skillopt_ci.redaction import HIDDEN, Redactor
from skillopt_ci.rollout.computer_pool import open_computer_pool
from skillopt_ci.tasks.task import ComputerTask, Splits, Task
from skillopt_ci.training.fingerprint import run_secrets


@pytest.fixture
def settings(untrained: Path) -> Globals:
    return Globals(environ=dict(os.environ), cwd=untrained)


def test_the_parts_are_those_of_the_configuration(settings, untrained):
    session = open_run(settings, silent)
    assert (session.config.run, session.skill_path) == ("quickstart", "skills/ledger/SKILL.md")
    assert [*map(len, (session.splits.train, session.selection, session.test))] == [16, 16, 16]
    assert session.ledger.git.folder == untrained.resolve()
    assert session.simulated

    def cache(*overrides: str) -> Path | None:
        return open_run(replace(settings, overrides=overrides), silent).cache_path

    assert cache() == untrained.resolve() / ".git/skillopt-ci/calls.sqlite"
    assert cache("cache.path=~/calls.db") == Path(settings.environ["HOME"], "calls.db")
    assert cache("cache.path=calls.db") == untrained / "calls.db"
    assert cache("cache.enabled=false") is None


def test_a_new_run_is_planned_by_its_tokens_but_held_to_no_calls(settings, fresh):
    file = fresh / "skillopt.yaml"
    file.write_text(file.read_text().partition("\ntrain:\n")[0])

    def begun(tokens: int) -> Config:
        given = replace(settings, cwd=fresh, overrides=(f"budget.run.tokens={tokens}",))
        return as_begun(open_run(given, silent)).config

    few, many = begun(30_000), begun(900_000)
    assert few.optimizer.learning_rate > many.optimizer.learning_rate  # for few steps
    assert few.budget.run.calls is None


def test_a_configuration_in_a_subfolder_starts_its_paths_there(settings, fresh):
    (fresh / "skillopt.yaml").rename(fresh / "skills" / "skillopt.yaml")
    (fresh / "tasks").rename(fresh / "skills" / "tasks")
    over = ("skill=ledger/SKILL.md",)
    inside = replace(settings, cwd=fresh, config=Path("skills/skillopt.yaml"), overrides=over)
    assert open_run(inside, silent).skill_path == "skills/ledger/SKILL.md"


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("skill=../SKILL.md", r"skill: \.\./SKILL\.md is outside of the repository"),
        ("scorer={type: command, command: [no-such-program]}", "no-such-program"),
    ],
)
def test_what_cannot_work_is_found_at_once(settings, override, said):
    with pytest.raises(SkilloptError, match=said):
        open_run(replace(settings, overrides=(override,)), silent)


def test_prompts_of_the_repository_s_own_are_used(settings, fresh):
    (fresh / "prompts").mkdir()
    (fresh / "prompts/target.md").write_text("Be brief.\n\n{skill}\n", encoding="utf-8")
    own = replace(settings, cwd=fresh, overrides=("prompts=prompts",))
    assert open_run(own, silent).prompts.with_skill("target", "S").startswith("Be brief.")


def test_warnings_of_the_configuration_are_told(settings, fresh):
    (fresh / "skillopt.yaml").write_text(
        "env: {skill_init: skills/ledger/SKILL.md, split_dir: split}\n"
        "model: {target: m, optimizer: m}\nevaluation: {use_gate: true}\n",
        encoding="utf-8",
    )
    for split in ("train", "val", "test"):
        (fresh / "split" / split).mkdir(parents=True)
        item = f'[{{"id": "{split}", "question": "{split}?", "answers": ["yes"]}}]'
        (fresh / "split" / split / "items.json").write_text(item, encoding="utf-8")
    told: list[Event] = []
    overrides = ("run=x", "scorer={type: exact}")
    open_run(replace(settings, cwd=fresh, overrides=overrides), told.append)
    assert any(isinstance(event, Note) and event.level == "warning" for event in told)


ENVIRON = {
    "MODEL_KEY_X": "of-the-model-0123",
    "AGENT_TOKEN": "of-the-agent-0123",
    "GRADER_SECRET": "of-the-grader-0123",
    "PART_PASSWORD": "of-a-part-0123",
    "LANGUAGE": "not-a-secret-0123",
}


def loaded(root: Path, **sections: Any) -> Loaded:
    settings = {
        "run": "r",
        "skill": "SKILL.md",
        "tasks": {"train": "a", "selection": "b"},
        "model": {
            "target": {
                "provider": "command",
                "model": "agent",
                "command": ["agent"],
                "env": ["AGENT_TOKEN", "LANGUAGE"],
            },
            "optimizer": {"provider": "openai", "model": "m", "api_key_env": "MODEL_KEY_X"},
            "judge": {"provider": "openai", "model": "m", "api_key_file": "key"},
        },
        **sections,
    }
    return Loaded(Config.model_validate(settings), root / "skillopt.yaml", root)


def secrets(found: Loaded, environ: Mapping[str, str]) -> Iterator[str]:
    return run_secrets(found.config, found.root, environ)


def command(name: str) -> dict[str, Any]:
    return {"type": "command", "command": ["grade"], "env": [name, "LANGUAGE"]}


def test_keys_files_and_what_programs_are_given_are_learnt(tmp_path):
    (tmp_path / "key").write_text("of-the-file-0123\n", encoding="utf-8")
    parts = {"type": "all", "of": [command("PART_PASSWORD"), {"type": "exact"}]}
    redact = Redactor()
    redact.learn(secrets(loaded(tmp_path, scorer=parts), ENVIRON))
    for secret in ("of-the-model-0123", "of-the-agent-0123", "of-the-file-0123", "of-a-part-0123"):
        assert redact(f"<{secret}>") == f"<{HIDDEN}>"
    assert redact("not-a-secret-0123 of-the-grader-0123") == "not-a-secret-0123 of-the-grader-0123"
    redact.learn(secrets(loaded(tmp_path, scorer=command("GRADER_SECRET")), ENVIRON))
    assert redact("of-the-grader-0123") == HIDDEN


def test_what_is_not_there_is_no_error(tmp_path):
    redact = Redactor()
    redact.learn(secrets(loaded(tmp_path), {}))
    assert redact("anything") == "anything"


SKILL = "skills/ledger/SKILL.md"


def named(folder: Path, word: str) -> str:
    settings = Globals(environ=dict(os.environ), cwd=folder)
    return find_skill(open_run(settings, silent), word, settings).text


def test_kept_words_read_the_newest_commit_of_the_run(trained, git):
    current = named(trained, "current")
    assert current == git(trained, "show", f"skillopt/quickstart:{SKILL}") + "\n"
    assert named(trained, "initial") == git(trained, "show", f"main:{SKILL}") + "\n"
    best = git(trained, "show", "skillopt/quickstart:.skillopt/quickstart/best_skill.md")
    assert named(trained, "best") == best + "\n"
    assert best != git(trained, "show", f"main:{SKILL}")


@pytest.mark.parametrize("text", ["# Draft\n", ""])
def test_a_file_is_read_as_it_stands_here(done, text):
    (done / "draft.md").write_text(text, encoding="utf-8")
    assert named(done, "draft.md") == text


def test_a_ref_means_the_run_s_skill_there_or_any_file_of_it(done):
    assert named(done, "main") == named(done, f"main:{SKILL}")
    assert named(done, "main:skillopt.yaml").startswith("# The example")


@pytest.mark.parametrize("word", ["no-such-thing", "main:no/such/file", "--all", "../.."])
def test_a_word_that_means_nothing_says_what_was_looked_for(trained, word):
    with pytest.raises(UsageError, match=rf"names no skill: .*{SKILL}.*best, current, initial"):
        named(trained, word)


def test_a_file_that_is_no_text_is_refused(done):
    (done / "picture.md").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match=r"picture\.md: Line 1 is not UTF-8 text"):
        named(done, "picture.md")


def test_before_the_start_the_skill_is_its_own_initial_but_there_is_no_best(untrained):
    initial = named(untrained, "initial")
    assert initial == named(untrained, "current")
    with pytest.raises(UsageError, match="has no best skill") as told:
        named(untrained, "best")
    assert "skillopt-ci step" in told.value.hint


AGENT = "rollout.solver={type: agent}"
DOCKER = "rollout.computer={type: docker}"
UNCONFINED = "rollout.computer={type: unconfined}"


@pytest.mark.parametrize(
    ("block", "overrides", "said"),
    [
        (None, [AGENT], "rollout.solver: agent needs a computer"),
        (None, ["rollout.solver={type: scripted, commands: [ls]}"], "scripted needs a computer"),
        (ComputerBlock(), [], "task 'greet' needs a computer"),
        (None, [AGENT, DOCKER], "no image is named for task 'greet'"),
        (ComputerBlock(), [DOCKER], "no image is named for task 'greet'"),
        (None, ["rollout.solver={type: scripted}"], None),
        (None, [DOCKER], None),
        (ComputerBlock(image="own:1"), [AGENT, DOCKER], None),
        (ComputerBlock(image="own:1"), [AGENT, UNCONFINED], "'greet' names the image own:1"),
        (ComputerBlock(), [AGENT, DOCKER, "rollout.computer.image=all:1"], None),
        (ComputerBlock(), [AGENT, DOCKER, "rollout.task={image: 'all:1'}"], None),
    ],
)
def test_a_computer_that_is_missing_is_told_before_the_run(untrained, block, overrides, said):
    own = None if block is None else ComputerTask(block)
    splits = Splits((Task("greet", (Message("user", "Say hello."),), computer=own),), (), ())
    config = load(untrained / "skillopt.yaml", overrides).config
    pool = open_computer_pool(config, untrained, dict(os.environ))
    with nullcontext() if said is None else pytest.raises(UsageError, match=said):
        check_computers(splits, config, pool)
