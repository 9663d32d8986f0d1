from pathlib import Path
from typing import Any

from skillopt_ci.cli.build import learn_secrets
from skillopt_ci.config.config import Config
from skillopt_ci.config.loading import Loaded
from skillopt_ci.redaction import HIDDEN, Redactor

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


def command(name: str) -> dict[str, Any]:
    return {"type": "command", "command": ["grade"], "env": [name, "LANGUAGE"]}


def test_keys_files_and_what_programs_are_given_are_learnt(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("of-the-file-0123\n", encoding="utf-8")
    parts = {"type": "all", "of": [command("PART_PASSWORD"), {"type": "exact"}]}
    redact = Redactor()
    learn_secrets(redact, loaded(tmp_path, scorer=parts), ENVIRON)
    for secret in ("of-the-model-0123", "of-the-agent-0123", "of-the-file-0123", "of-a-part-0123"):
        assert redact(f"<{secret}>") == f"<{HIDDEN}>"
    assert redact("not-a-secret-0123 of-the-grader-0123") == "not-a-secret-0123 of-the-grader-0123"
    learn_secrets(redact, loaded(tmp_path, scorer=command("GRADER_SECRET")), ENVIRON)
    assert redact("of-the-grader-0123") == HIDDEN


def test_what_is_not_there_is_no_error(tmp_path: Path) -> None:
    redact = Redactor()
    learn_secrets(redact, loaded(tmp_path), {})
    assert redact("anything") == "anything"
