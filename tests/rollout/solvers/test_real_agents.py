"""The makers' own programs, run by our solver against a scripted model."""

import os
import uuid
from collections.abc import Iterator
from contextlib import nullcontext

import pytest
import real_agents
from agent_model.moves import CACHED, COMPLETION, PROMPT, Plan
from agent_model.server import AgentModel, Refusal, serving
from computer_kinds import eventually, processes_with
from real_agents import ABOUT, AGENTS, KEY, RULE, Run
from recorded_streams import FOLDER, recorded, scrubbed

from skillopt_ci.agents.streams import READERS, AgentTranscript
from skillopt_ci.errors import ModelSetupError
from skillopt_ci.model.types import ModelRefusal, ModelUnavailable
from skillopt_ci.rollout.types import Limit, ModelSaid, ToolUsed

pytestmark = [pytest.mark.integration, pytest.mark.parametrize("agent", AGENTS)]


@pytest.fixture(autouse=True)
def _installed() -> None:
    real_agents.programs()


@pytest.fixture
def model() -> Iterator[AgentModel]:
    with serving() as model:
        yield model


@pytest.mark.parametrize("kind", ["unconfined", "sandbox"])
def test_it_works_on_a_task_with_the_skill_at_hand(agent, kind, model):
    run = real_agents.run(AGENTS[agent], model, kind)
    assert run.made == "made\n"
    assert ABOUT in model.text
    assert RULE not in model.text  # it is there to be read, which the scripted model does not
    assert model.keys == {KEY}
    assert run.attempt.response == "It is made."
    said, used, end = run.steps[-3:]
    assert isinstance(said, ModelSaid)
    assert isinstance(used, ToolUsed)
    assert isinstance(end, ModelSaid)
    (called,) = said.message.tool_calls
    assert called == used.call
    assert "echo made > made.txt" in called.arguments
    assert used.output.startswith("made")
    assert used.exit_code in (0, None)


def test_usage_is_what_the_server_said(agent, model):
    usage = real_agents.run(AGENTS[agent], model).attempt.usage
    assert usage.calls == len(model.asked) == 2
    if agent == "copilot":  # it tells nothing of prompts
        assert usage.estimated
    else:
        told = (usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens)
        assert told == (2 * PROMPT, 2 * CACHED, 2 * COMPLETION)
        assert not usage.estimated
    assert (usage.cost_usd is not None) == (agent == "claude-code")


def test_instructions_are_read_and_the_key_is_not_kept(agent, model):
    model.plan = Plan(command="env && head -1 /etc/passwd && echo made > made.txt")
    skill_as = {"claude-code": "claude", "gemini": "gemini"}.get(agent, "agents")
    run = real_agents.run(AGENTS[agent], model, skill_as=skill_as)
    assert RULE in model.text
    assert run.made == "made\n"
    assert KEY not in repr([run.steps, run.attempts])


REFUSALS = [
    (401, "invalid x-api-key", ModelSetupError, "no valid key"),
    (403, "your key may not use this model", ModelSetupError, "no valid key"),
    (404, "model: m does not exist", ModelSetupError, "cannot work as it is set up"),
    (400, "prompt is too long: 300000 tokens > 200000 maximum", ModelRefusal, "too long"),
    (429, "rate limit reached", ModelUnavailable, "gave up|before its model had answered"),
    (500, "internal trouble", ModelUnavailable, "gave up|before its model had answered"),
]


@pytest.mark.parametrize(("status", "told", "kind", "message"), REFUSALS)
def test_a_refusal_is_never_a_score(agent, status, told, kind, message, model):
    model.refusal = Refusal(status, told)
    with pytest.raises(kind, match=message) as caught:
        # Some ask a failing server again for longer than that: then time runs out.
        real_agents.run(AGENTS[agent], model, seconds=14 if status >= 429 else 60)
    assert model.asked
    assert KEY not in str(caught.value)


def test_a_limit_on_turns_holds(agent, model):
    model.plan = Plan(times=4)
    run = real_agents.run(AGENTS[agent], model, steps=2)
    assert run.attempt.limit is Limit.STEPS
    assert sum(isinstance(step, ModelSaid) for step in run.steps) == 2
    assert agent != "claude-code" or len(model.asked) == 2


@pytest.mark.parametrize("kind", ["unconfined", "sandbox"])
def test_nothing_works_on_when_time_is_over(agent, kind, model):
    marker = uuid.uuid4().hex
    model.plan = Plan(command=f"touch made.txt; while :; do sleep 1; done; : {marker}")
    run = real_agents.run(AGENTS[agent], model, kind, seconds=14)
    # Codex lets a command run on by itself after a while, and so may end before its time.
    assert run.attempt.limit is Limit.TIME or agent == "codex"
    assert eventually(lambda: not processes_with(marker))


@pytest.mark.parametrize("ending", ["", "-refused"])
def test_its_stream_reads_as_the_recorded_one(agent, ending, model):
    """With ``SKILLOPT_CI_RECORD_AGENTS`` the recorded one is written anew first."""
    model.refusal = Refusal(401, "invalid x-api-key") if ending else None
    run, name = Run(), f"{agent}{ending}"
    with pytest.raises(ModelSetupError, match="no valid key") if ending else nullcontext():
        real_agents.run(AGENTS[agent], model, "sandbox", into=run)
    written = scrubbed(run.stream)
    if os.environ.get("SKILLOPT_CI_RECORD_AGENTS"):
        (FOLDER / f"{name}.jsonl").write_text(written, encoding="utf-8")
    assert _shape(READERS[agent](written)) == _shape(READERS[agent](recorded(name)))


def _shape(account: AgentTranscript) -> list[object]:
    """What an account says, without the numbers of calls."""
    said = [
        ([call.name for call in step.message.tool_calls], step.message.content)
        if isinstance(step, ModelSaid)
        else (type(step).__name__, getattr(step, "output", ""))
        for step in account.steps
    ]
    return [said, account.response, account.usage, account.error, account.trouble]


def test_it_answers_as_a_model_and_says_at_once_if_its_key_is_wrong(agent, model, tmp_path):
    if agent == "gemini":
        pytest.skip("as a model, it is a server")
    model.plan = Plan(answer="It is so.")
    assert real_agents.ask(AGENTS[agent], model, tmp_path) == "It is so."
    assert agent != "claude-code" or len(model.text) < 10_000  # without its own instructions
    model.refusal = Refusal(401, "Incorrect API key provided")
    with pytest.raises(ModelSetupError, match="is not logged in"):
        real_agents.ask(AGENTS[agent], model, tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="not root")
def test_one_that_refuses_to_work_as_root_stops_the_run(agent, model):
    if agent != "claude-code":
        pytest.skip(f"{agent} does not mind")
    with pytest.raises(ModelSetupError, match="root") as caught:
        real_agents.run(AGENTS[agent], model, "unconfined", environ={})
    assert "IS_SANDBOX" in caught.value.hint
