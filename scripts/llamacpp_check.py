"""Train with the model on a llama.cpp server, which `llamacpp-check.sh` starts."""

import json
import os
import subprocess
import sys
from pathlib import Path

from litellm_check import CONVERSATION, SCHEMA, TOOL, ask, expect, failure, request, wait_for

from skillopt_ci.config.models import ModelRole
from skillopt_ci.errors import ModelSetupError
from skillopt_ci.messages import Message
from skillopt_ci.model.types import ModelRefusal

#: The context of each of the two slots, and the longest answers, in tokens.
CONTEXT, SHORT = 4096, 60
LONG = Message("user", "word " * (CONTEXT + 500))


def role(url: str, **more: object) -> ModelRole:
    """The server's model, whose answers are kept short."""
    fields = {"provider": "llamacpp", "model": "smollm2", "base_url": f"{url}/v1", "retries": 0}
    return ModelRole.model_validate(
        {**fields, "api_key_env": "KEY", "max_output_tokens": SHORT, **more}
    )


def answers(url: str) -> None:
    """Everything that is answered, also where the limit is longer than the context."""
    for one in (request(), request(tools=(TOOL,)), request(*CONVERSATION, tools=(TOOL,))):
        reply = ask(role(url), one)
        expect(0 < reply.usage.completion_tokens <= SHORT, reply)
        expect(not reply.usage.estimated, reply)
    said = Message("user", "Reply with the answer yes, as JSON.")
    held = ask(role(url), request(said, reply_schema=SCHEMA))
    expect(held.finish_reason == "length" or json.loads(held.text).keys() == {"answer"}, held)
    expect(bool(ask(role(url, max_output_tokens=None), request(max_output_tokens=9_000)).text), url)


def failures(url: str) -> None:
    """Everything that is not."""
    refused = failure(lambda: ask(role(url, max_output_tokens=9_000), request(LONG)))
    expect(isinstance(refused, ModelRefusal), refused)
    expect("too long for the model" in str(refused), refused)
    wrong = failure(lambda: ask(role(url), request(), key="sk-wrong"))
    expect(isinstance(wrong, ModelSetupError), wrong)
    expect("without a valid key in KEY" in str(wrong), wrong)


def training(url: str, folder: Path) -> None:
    """What a user types first, up to a step that is on record."""
    names = dict.fromkeys(("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"), "check")
    addresses = dict.fromkeys(("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"), "check@example.org")
    environ = {**os.environ, **names, **addresses, "KEY": "sk-check"}

    def run(*words: str, codes: tuple[int, ...] = (0,)) -> str:
        done = subprocess.run(
            words, cwd=folder, env=environ, capture_output=True, text=True, check=False
        )
        expect(done.returncode in codes, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    ours = str(Path(sys.executable).with_name("skillopt-ci"))
    short = [
        word
        for one in ("target", "optimizer")
        for word in ("-o", f"model.{one}.max_output_tokens={SHORT}")
    ]
    folder.mkdir()
    run("git", "init", "--quiet")
    found = run(
        ours,
        "init",
        "--yes",
        "--provider",
        "llamacpp",
        "--base-url",
        f"{url}/v1",
        "--api-key-env",
        "KEY",
    )
    expect("1 model there: " in found, found)
    run("git", "add", "--all")
    run("git", "commit", "--quiet", "--message", "Set up skill training")
    expect(" answered in " in run(ours, "check", "--probe", *short), "the probe")
    # with so short answers, the optimizer's may be of no use
    told = run(ours, "step", "--no-progress", *short, codes=(0, 5))
    expect("Step 1 of " in told, told)
    tasks = folder / "tasks/selection.jsonl"
    rows = [json.loads(line) for line in tasks.read_text().splitlines()]
    longer = [{**one, "prompt": f"{LONG.content}{one['prompt']}"} for one in rows]
    tasks.write_text("".join(f"{json.dumps(one)}\n" for one in longer))
    refused = run(ours, "step", "--no-progress", *short, codes=(2,))
    expect("refused every selection task: The prompt is too long" in refused, refused)


def main() -> int:
    """Check the server at the address, with a repository in the folder; return the exit code."""
    url, folder = sys.argv[1], Path(sys.argv[2])
    wait_for(f"{url}/health")
    answers(url)
    print("ok: answers")
    failures(url)
    print("ok: failures")
    training(url, folder)
    print("ok: training")
    return 0


if __name__ == "__main__":
    sys.exit(main())
