import json
from pathlib import Path

import pytest
from computer_kinds import desk, is_running
from programs import write_program
from solver_play import Played, play

from skillopt_ci.agents.cli_agents import ExternalSolver
from skillopt_ci.agents.skill_files import SkillFolder
from skillopt_ci.computer.archive import Member
from skillopt_ci.config.rollout import ExternalConfig
from skillopt_ci.errors import ModelSetupError, UsageError
from skillopt_ci.messages import Image, Message
from skillopt_ci.model.types import ModelUnavailable, Usage
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.rollout.solver import Workplace
from skillopt_ci.rollout.types import AgentError, Asked, Limit, ModelSaid, ToolUsed
from skillopt_ci.tasks.task import Task, TaskFile, TaskImage

pytestmark = pytest.mark.integration

SKILL = "---\nname: tidy\ndescription: d\n---\n\n# Rules\n\nBe brief.\n"
PLACE = ".agents/skills/tidy"
FOLDER = SkillFolder("SKILL.md", "tidy", (Member("scripts/help.sh", b"#!/bin/sh\n", True),))

#: Writes down how it was called, and answers in plain text.
RECORDER = """#!/bin/sh
for word in "$@"; do printf '%s\\n' "$word"; done > called
cat > told
env | sort > seen
echo "my answer"
"""


def external(
    agent: str = "command",
    environ: dict[str, str] | None = None,
    folder: SkillFolder = FOLDER,
    **settings: object,
) -> ExternalSolver:
    usual = {"type": "external", "agent": agent, "command": ["./agent"]}
    chosen = ExternalConfig.model_validate({**usual, **settings})
    return ExternalSolver(chosen, Prompts.load(), folder, Path("/repo"), environ or {})


def test_a_program_gets_the_task_and_finds_the_skill():
    played = play(
        external(command=["./agent", "--root={root}", "{model}", "x"], model="big"),
        "Count to 3.",
        skill=SKILL,
        script=RECORDER,
        look=["called", "told", f"{PLACE}/SKILL.md", f"{PLACE}/scripts/help.sh"],
    )
    assert played.files["called"] == "--root=/repo\nbig\nx\n"
    assert played.files[f"{PLACE}/SKILL.md"] == SKILL
    assert played.files[f"{PLACE}/scripts/help.sh"] == "#!/bin/sh\n"
    assert "`.agents/skills/tidy/SKILL.md`" in played.files["told"]
    assert played.files["told"].endswith("# Task\n\nCount to 3.\n")
    assert played.attempt.response == "my answer"
    (asked,) = played.of(Asked)
    assert [message.role for message in asked.messages] == ["system", "user"]
    assert "Be brief." in asked.messages[0].content
    assert played.attempt.messages[:2] == asked.messages
    assert played.attempt.usage.estimated
    assert played.attempt.usage.cost_usd is None


def test_the_files_beside_the_skill_keep_their_mode():
    test = "#!/bin/sh\ntest -x .agents/skills/tidy/scripts/help.sh && echo executable\n"
    assert play(external(), skill=SKILL, script=test).attempt.response == "executable"


def test_a_prompt_can_be_an_argument_and_nothing_inside_it_is_filled_in():
    program = external(command=["./agent", "-p", "{prompt}"])
    look = ["called", "told"]
    played = play(program, "Say {model} and $HOME `id`.", script=RECORDER, look=look)
    assert "Say {model} and $HOME `id`." in played.files["called"]
    assert played.files["told"] == ""


def test_without_a_skill_nothing_is_installed():
    played = play(external(), "Task.", skill=" \n", script="#!/bin/sh\nfind . -name '*.md'; cat\n")
    assert ".md" not in played.attempt.response
    assert "skill" not in played.attempt.response.lower()


def test_turns_files_and_pictures_of_a_task_are_told():
    turns = (Message("user", "One?"), Message("assistant", "1"), Message("user", "Two?"))
    picture = TaskImage("in/a.png", "0" * 64, Image("image/png", "cGl4ZWxz"))
    task = Task("t", turns, files=(TaskFile("a.txt", "content"),), images=(picture,))
    played = play(external(), task=task, script=RECORDER, look=["told", "in/a.png"])
    assert played.files["told"].endswith("\n\nPicture: in/a.png\n")
    assert played.files["in/a.png"] == "pixels"
    assert "User:\nOne?\n\nAssistant:\n1\n\nUser:\nTwo?" in played.files["told"]
    assert "File a.txt:\n```\ncontent\n```" in played.files["told"]


CLAUDE_CODE = "-p --output-format stream-json --verbose --permission-mode bypassPermissions"
CODEX = "exec --json --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox"
COPILOT = "--output-format json --allow-all --no-ask-user"
CALLS = {
    "claude-code": (
        f"{CLAUDE_CODE} --model m --max-turns 7 --max-budget-usd 0.5 --extra",
        ".claude/skills/tidy/SKILL.md",
    ),
    "codex": (f"{CODEX} --model m --extra -", ".agents/skills/tidy/SKILL.md"),
    "copilot": (f"{COPILOT} --model m --extra", ".github/skills/tidy/SKILL.md"),
    "cursor": (
        "-p --output-format stream-json --force --trust --model m --extra",
        ".cursor/skills/tidy/SKILL.md",
    ),
    "gemini": (
        "--output-format stream-json --approval-mode=yolo --model m --extra",
        ".gemini/skills/tidy/SKILL.md",
    ),
}


@pytest.mark.parametrize("agent", CALLS)
def test_a_known_agent_is_called_as_its_makers_document(agent):
    arguments, place = CALLS[agent]
    played = play(
        external(agent, model="m", arguments=["--extra"], output="text"),
        "Do it.",
        skill=SKILL,
        limits={"steps": 7, "cost_usd": 0.5},
        script=RECORDER,
        look=["called", "told", place],
    )
    assert played.files["called"].split() == arguments.split()
    assert f"`{place}`" in played.files["told"]
    assert played.files[place] == SKILL


def test_an_agent_sees_its_key_and_nothing_else_of_ours():
    ours = {"ANTHROPIC_API_KEY": "sk-1", "GITHUB_TOKEN": "ghs", "OTHER": "x"}
    played = play(external("claude-code", ours, output="text"), script=RECORDER, look=["seen"])
    assert "ANTHROPIC_API_KEY=sk-1\n" in played.files["seen"]
    assert "ghs" not in played.files["seen"]
    assert "OTHER" not in played.files["seen"]


def test_the_settings_name_what_else_it_may_see():
    ours = {"MY_TOKEN": "value-of-mine", "ANTHROPIC_API_KEY": "sk-1"}
    played = play(
        external("claude-code", ours, env=["MY_TOKEN"], output="text"),
        script='#!/bin/sh\necho "$MY_TOKEN $ANTHROPIC_API_KEY."\n',
    )
    assert played.attempt.response == "*** ."


def test_a_program_named_by_its_path_finds_its_neighbours(tmp_path):
    write_program(tmp_path / "neighbour", "echo hi")
    agent = write_program(tmp_path / "agent", "neighbour")
    solver = external("gemini", command=[str(agent)], output="text")
    assert play(solver).attempt.response == "hi"


def _events(*events: object) -> str:
    lines = "\n".join(json.dumps(event) for event in events)
    return f"#!/bin/sh\ncat > /dev/null\ncat <<'END'\n{lines}\nEND\n"


def _said(text: str, number: int = 1) -> dict[str, object]:
    usage = {"input_tokens": 10, "output_tokens": 2}
    block = {"type": "text", "text": text}
    message = {"id": f"m{number}", "content": [block], "usage": usage}
    return {"type": "assistant", "message": message}


def test_a_stream_of_events_becomes_steps_usage_and_cost():
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}
    back = {"type": "tool_result", "tool_use_id": "t1", "content": "a.txt"}
    usage = {"input_tokens": 20, "output_tokens": 5, "cache_read_input_tokens": 100}
    ended = {"type": "result", "subtype": "success", "is_error": False, "num_turns": 2}
    stream = _events(
        {"type": "assistant", "message": {"id": "m1", "content": [call], "usage": {}}},
        {"type": "user", "message": {"content": [back]}},
        _said("There is a.txt.", 2),
        {**ended, "result": "a.txt", "total_cost_usd": 0.0125, "usage": usage},
    )
    played = play(external("claude-code"), script=stream)
    assert [type(step) for step in played.steps] == [Asked, ModelSaid, ToolUsed, ModelSaid]
    assert (played.attempt.response, played.attempt.n_turns) == ("a.txt", 2)
    assert played.attempt.usage == Usage(2, 120, 5, cached_tokens=100, cost_usd=0.0125)
    assert [m.role for m in played.attempt.messages[2:]] == ["assistant", "tool", "assistant"]


def test_tokens_without_a_cost_are_priced_by_the_settings_and_count_towards_limits():
    stream = _events(
        {"type": "item.completed", "item": {"id": "1", "type": "agent_message", "text": "4"}},
        {"type": "turn.completed", "usage": {"input_tokens": 1000, "output_tokens": 100}},
    )
    solver = external("codex", price={"input": 2, "output": 10})
    ends = {("tokens", 1101): None, ("tokens", 1100): Limit.TOKENS, ("cost_usd", 0.002): Limit.COST}
    for limit, end in ends.items():
        attempt = play(solver, script=stream, limits=dict([limit])).attempt
        assert (attempt.usage.cost_usd, attempt.limit) == (pytest.approx(0.003), end)


def test_an_agent_without_a_result_is_charged_for_its_turns():
    first = _said("halfway")
    first["message"] |= {"model": "claude-haiku-4-5"}  # type: ignore[operator]
    usage = play(external("claude-code"), script=_events(first, _said("more", 2))).attempt.usage
    assert usage == Usage(2, 20, 4, cost_usd=pytest.approx(4e-5), estimated=True)


def test_what_is_no_answer_was_paid_for_all_the_same():
    stream = _events(
        {"type": "item.completed", "item": {"id": "1", "type": "command_execution"}},
        {"type": "turn.completed", "usage": {"input_tokens": 1000, "output_tokens": 100}},
    )
    attempt = play(external("codex"), script=stream, held=True, limits={"tokens": 9}).attempt
    assert (attempt.ending, attempt.usage.tokens) == ("agent_error", 1100)
    never = play(external(), script="#!/bin/sh\nexit 139\n", held=True)
    assert (never.attempt.ending, never.attempt.usage) == ("agent_error", Usage())


def test_a_limit_of_its_own_ends_the_work_which_stands():
    stream = _events(_said("halfway"), {"type": "result", "subtype": "error_max_turns"})
    played = play(external("claude-code"), script=stream)
    assert played.attempt.limit is Limit.STEPS
    assert played.attempt.response == "halfway"
    assert play(external("gemini"), script="#!/bin/sh\nexit 53\n").attempt.limit is Limit.STEPS


def test_steps_beyond_the_limit_are_paid_for_all_the_same():
    ending = {"type": "result", "result": "end", "usage": {"input_tokens": 90}, "num_turns": 3}
    stream = _events(*(_said(f"turn {n}", n) for n in range(3)), ending)
    played = play(external("claude-code"), limits={"steps": 2}, script=stream)
    assert len(played.of(ModelSaid)) == 2
    assert played.attempt.limit is Limit.STEPS
    assert (played.attempt.response, played.attempt.usage.prompt_tokens) == ("end", 90)


def test_a_program_that_takes_too_long_is_stopped_with_all_that_it_started(tmp_path):
    started = tmp_path / "started"
    played = hung(started, external("claude-code"), _events(_said("begun")))
    assert played.attempt.limit is Limit.TIME
    assert played.attempt.response == "begun"
    assert not is_running(int(started.read_text()))


def hung(started: Path, solver: ExternalSolver, script: str) -> Played:
    """Let the runner's limit of time be over once an agent hangs at the end of ``script``."""
    hang = f"sleep 600 &\necho $! > {started}.new\nmv {started}.new {started}\nsleep 600\n"
    limits = {"rollout_seconds": 60}
    return play(solver, limits=limits, script=script + hang, begun=started.exists, held=True)


WORKED = f"echo '{json.dumps(_said(' '))}'; "
UNPAID = {"type": "result", "is_error": True, "result": "API Error: 402 no balance"}
FAILURES = [
    (f"{WORKED}exit 3", AgentError, "ended with exit status 3: it said nothing"),
    (f"{WORKED}echo 'segmentation fault' >&2; exit 139", AgentError, "segmentation fault"),
    (f"{WORKED}exit 0", AgentError, "ended without an answer"),
    (f"{WORKED}echo '{json.dumps(UNPAID)}'", ModelSetupError, "or no credit: API Error: 402"),
    ("exit 3", ModelUnavailable, "exit status 3 before its model had answered: it said nothing"),
    ("exit 0", ModelUnavailable, "exit status 0 before its model had answered: it said nothing"),
    ("echo 'error: unknown option --x' >&2; exit 1", ModelSetupError, "cannot work as it is set"),
    ("echo 'API Error: 529 Overloaded' >&2; exit 1", ModelUnavailable, "529 Overloaded"),
    ("echo 'Invalid API key · Please run /login'; exit 1", ModelSetupError, "no valid key"),
]


@pytest.mark.parametrize(("body", "kind", "told"), FAILURES)
def test_a_failure_is_told_apart(body, kind, told):
    with pytest.raises(kind, match=told):
        play(external("claude-code", {"ANTHROPIC_API_KEY": "key-1"}), script=f"#!/bin/sh\n{body}\n")


def test_a_limit_of_its_computer_that_ended_it_is_named():
    task = Task("t", (Message("user", "x"),))
    with desk("sandbox") as opened:
        grown = b"#!/bin/sh\necho Loading >&2; exec python3 -c 'bytearray(10**9)'\n"
        opened.write("agent", grown, executable=True)
        place = Workplace("s", computer=opened.computer)

        async def work() -> None:
            solver = external("claude-code", {"ANTHROPIC_API_KEY": "key-1"})
            async for _ in solver.solve(task, SKILL, place):
                pass

        with pytest.raises(ModelUnavailable, match=r"Loading \(it reached .* limit of memory\)"):
            opened.do(work())


def test_an_agent_that_reports_an_error_failed_whatever_its_status():
    stream = _events(
        {"type": "item.completed", "item": {"id": "1", "type": "agent_message", "text": "4"}},
        {"type": "turn.failed", "error": {"message": "model refused to go on"}},
    )
    with pytest.raises(AgentError, match="refused to go on"):
        play(external("codex"), script=stream)


@pytest.mark.parametrize(
    ("agent", "script"),
    [
        ("claude-code", "echo '{}'"),
        ("claude-code", 'echo \'{"type": "system", "subtype": "api_retry", "error": "x"}\''),
        ("gemini", "echo 'Attempt 3 failed with status 503. Retrying with backoff...' >&2"),
    ],
)
def test_time_that_a_server_took_is_not_held_against_the_agent(tmp_path, agent, script):
    solver = external(agent, {"ANTHROPIC_API_KEY": "key-1", "GEMINI_API_KEY": "key-1"})
    with pytest.raises(ModelUnavailable):
        hung(tmp_path / "started", solver, f"#!/bin/sh\n{script}\n")


def test_a_server_in_trouble_while_time_runs_out_is_not_either(tmp_path):
    stream = _events(
        {"type": "item.completed", "item": {"id": "1", "type": "agent_message", "text": "4"}},
        {"type": "error", "message": "Reconnecting... 5/5 (503 Service Unavailable)"},
    )
    with pytest.raises(ModelUnavailable, match="503 Service Unavailable"):
        hung(tmp_path / "started", external("codex"), stream)


BEGUN = ({"type": "thread.started", "thread_id": "t"}, {"type": "turn.started"})


def test_codex_with_a_command_that_hangs_was_at_work(tmp_path):
    hangs = {"type": "command_execution", "command": "sleep 60", "status": "in_progress"}
    warned = {"type": "error", "message": "a plugin was not loaded"}  # no server is in trouble
    stream = _events(*BEGUN, {"type": "item.started", "item": {"id": "0", **hangs}}, warned)
    assert hung(tmp_path / "started", external("codex"), stream).attempt.limit is Limit.TIME


def test_codex_without_its_key_is_set_up_wrong():
    stream = _events(
        *BEGUN,
        {"type": "error", "message": "Reconnecting... 1/5"},
        {"type": "turn.failed", "error": {"message": "stream disconnected before completion"}},
    )
    with pytest.raises(ModelSetupError, match="none of CODEX_API_KEY, OPENAI_API_KEY is set"):
        play(external("codex"), script=f"{stream}exit 1\n")


def test_codex_takes_either_key():
    script = '#!/bin/sh\ncat > seen; echo "$CODEX_API_KEY $OPENAI_API_KEY" > seen; echo done\n'
    for ours in ({"OPENAI_API_KEY": "a"}, {"CODEX_API_KEY": "b", "OPENAI_API_KEY": "a"}):
        played = play(external("codex", ours, output="text"), script=script, look=["seen"])
        assert played.files["seen"] == f"{ours.get('CODEX_API_KEY', 'a')} a\n"


def test_a_program_that_is_not_there_stops_the_run():
    with pytest.raises(ModelSetupError, match="'no-such-agent' cannot be run") as caught:
        play(external(command=["no-such-agent"]))
    assert "readable" in caught.value.hint


def test_a_key_never_stands_in_what_is_kept():
    script = '#!/bin/sh\necho "the key is $CODEX_API_KEY" >&2\nexit 1\n'
    with pytest.raises(ModelUnavailable) as caught:
        play(external("codex", {"CODEX_API_KEY": "sk-secret-value"}), script=script)
    assert "sk-secret-value" not in str(caught.value)
    assert "the key is ***" in str(caught.value)


def test_a_prompt_that_no_argument_can_hold_is_refused():
    with pytest.raises(UsageError, match="too long for an argument"):
        play(external(command=["./agent", "{prompt}"]), "x" * 140_000)


def test_a_skill_that_stands_in_the_way_of_itself_is_refused():
    solver = external(command=["true"], skill_as="taken/SKILL.md")
    with pytest.raises(UsageError, match=r"cannot be written to taken/SKILL\.md"):
        play(solver, skill=SKILL, files={"taken": "a file"})


def test_identity_knows_the_files_beside_the_skill_and_no_secret():
    plain = external(environ={"CODEX_API_KEY": "sk-1"}, command=["a"])
    other = external(command=["a"], folder=SkillFolder("SKILL.md", "tidy"))
    assert plain.identity() != other.identity()
    assert plain.identity() == external(environ={"CODEX_API_KEY": "sk-2"}, command=["a"]).identity()
    assert "sk-1" not in json.dumps(plain.identity())
