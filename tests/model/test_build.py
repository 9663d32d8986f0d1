import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from contextlib import ExitStack
from functools import partial

import pytest
from http_server import http_server

from skillopt_ci.config.config import Limits
from skillopt_ci.config.models import ModelRole, Models
from skillopt_ci.config.scorers import RubricScorer
from skillopt_ci.errors import BudgetExhausted, ModelSetupError
from skillopt_ci.messages import Message
from skillopt_ci.model.budget import Meter
from skillopt_ci.model.build import judge_reply, open_router
from skillopt_ci.model.types import ChatRequest, ModelRefusal, ModelUnavailable, Role
from skillopt_ci.scorers.base import FallibleScorer, GraderBroke, GraderError
from skillopt_ci.scorers.code import ask_judge
from skillopt_ci.tasks.task import Task
from tests.model.conftest import ChatHandler, Server, answers

pytestmark = pytest.mark.integration


def test_each_role_reaches_its_model_and_without_a_judge_the_optimizer_grades(server, served, ask):
    models = Models(target=served(model="t"), optimizer=served(model="o"), judge=served(model="j"))
    answers(models, *(ask(str(role), role=role) for role in Role))
    answers(Models(target=served(), optimizer=served(model="x")), ask("grade", role=Role.JUDGE))
    models = {body["messages"][0]["content"]: body["model"] for body in server.bodies}
    assert models == {"target": "t", "optimizer": "o", "judge": "j", "grade": "x"}


def test_all_roles_share_one_pool_of_connections_but_no_key(server, served, ask):
    models = Models(target=served(api_key_env="TARGET_KEY"), optimizer=served())
    answers(models, *(ask(role=role) for role in Role), environ={"TARGET_KEY": "sk-t"})
    assert (len(server.bodies), len(server.peers)) == (3, 1)
    assert {sent["authorization"] for sent in server.headers} == {"Bearer sk-t", "Bearer none"}


def test_a_server_that_answered_one_role_gets_all_tries_of_another(ask):
    chat, up = Server(""), ExitStack()
    url = up.enter_context(http_server(ChatHandler, chat=chat))
    chat.will(headers={"Connection": "close"})
    role = ModelRole(provider="ollama", model="m", base_url=f"{url}/v1", retries=0)

    async def work() -> None:
        async with open_router({"target": role, "optimizer": role}, {}) as router:
            client = router.for_work("step 1", Meter())
            await client.complete(ask())
            await asyncio.to_thread(up.close)  # it waits for connections to end
            await client.complete(ask(role=Role.OPTIMIZER))

    with up, pytest.raises(ModelUnavailable, match=r"optimizer .* after 1 try: .*Cannot connect"):
        asyncio.run(work())


def test_a_missing_key_or_price_stops_before_any_call(server, served, ask):
    models = Models(target=served(), optimizer=served(api_key_env="GONE"))
    with pytest.raises(ModelSetupError, match=r"model\.optimizer needs .* GONE"):
        answers(models, ask())
    models = Models(target=served(), optimizer=served())
    with pytest.raises(ModelSetupError, match="price"):
        answers(models, ask(), meter=Meter(step=Limits(cost_usd=1)))
    assert server.bodies == []


def test_all_calls_that_the_roles_allow_are_under_way_at_once(server, served, ask):
    all_six_asked = threading.Barrier(6)
    for _ in range(6):
        server.will(gate=all_six_asked)
    models = Models(target=served(max_concurrency=4), optimizer=served(max_concurrency=2))
    roles = [Role.TARGET] * 4 + [Role.OPTIMIZER] * 2
    assert len(answers(models, *(ask(role=role) for role in roles), at_once=True)) == 6


def test_answers_are_kept_between_openings_if_there_is_a_cache(server, served, ask, tmp_path):
    models = Models(target=served(), optimizer=served())
    for _ in range(2):
        answers(models, ask(), ask(role=Role.OPTIMIZER), cache_path=tmp_path / "calls.sqlite")
    assert len(server.bodies) == 1  # both roles have the same model: one question, one answer
    answers(models, ask(), ask(), at_once=True)
    assert len(server.bodies) == 3


def test_no_key_is_written_to_the_cache(served, ask, tmp_path):
    models = Models(target=served(api_key_env="KEY"), optimizer=served())
    answers(models, ask(), environ={"KEY": "sk-secret"}, cache_path=tmp_path / "calls.sqlite")
    assert all(b"sk-secret" not in file.read_bytes() for file in tmp_path.iterdir())


TRAINER = """
import asyncio, sys
from pathlib import Path
from skillopt_ci.messages import Message
from skillopt_ci.model.build import open_router
from skillopt_ci.model.types import ChatRequest, Role
from skillopt_ci.model.budget import Meter
from skillopt_ci.config.models import ModelRole, Models
role = {"provider": "openai", "model": "m", "base_url": sys.argv[1]}
models = Models.model_validate({"target": role, "optimizer": role})
meter = Meter()
async def one(client, number):
    message = Message("user", f"task {number}")
    await client.complete(ChatRequest(Role.TARGET, "rollout", (message,)))
    print(message.content, flush=True)
async def main():
    cache = Path(sys.argv[2])
    async with open_router(models.roles, {}, cache_path=cache) as router:
        client = router.for_work("s", meter)
        await asyncio.gather(*(one(client, number) for number in range(40)))
    print(meter.total().calls)
asyncio.run(main())
"""


def test_a_killed_process_never_pays_twice_for_an_answer(server, tmp_path):
    command = [sys.executable, "-c", TRAINER, server.url, str(tmp_path / "calls.sqlite")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as killed:
        answered = [killed.stdout.readline().strip() for _ in range(10)]
        os.kill(killed.pid, signal.SIGKILL)
        answered += killed.stdout.read().splitlines()[: 40 - len(answered)]  # it may be done
    again = subprocess.run(command, capture_output=True, text=True, check=True)
    asked = Counter(server.prompts())
    assert [asked[prompt] for prompt in answered] == [1] * len(answered)
    assert (len(asked), again.stdout.splitlines()[-1]) == (40, "40")


@pytest.mark.parametrize("provider", ["simulated", "command"])
def test_no_client_library_is_imported_unless_a_role_needs_it(provider):
    script = f"""
import asyncio, sys
import skillopt_ci.cli.main
from skillopt_ci.model.build import open_router
from skillopt_ci.model.budget import Meter
from skillopt_ci.config.models import ModelRole, Models
role = {{"provider": {provider!r}, "model": "simulated-target"}}
role |= {{"command": [sys.executable]}} if {provider!r} == "command" else {{}}
models = Models.model_validate({{"target": role, "optimizer": role}})
async def main():
    async with open_router(models.roles, {{}}):
        pass
asyncio.run(main())
print([name for name in ("openai", "anthropic", "azure.identity") if name in sys.modules])
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


AZURE = {"provider": "azure", "base_url": "https://x", "azure": {"auth": "azure_cli"}}


@pytest.mark.parametrize(
    ("role", "module"),
    [({"provider": "anthropic", "api_key_env": "K"}, "anthropic"), (AZURE, "azure.identity")],
)
def test_a_missing_package_is_told_with_a_way_to_install_it(monkeypatch, ask, role, module):
    monkeypatch.setitem(sys.modules, module, None)
    config = ModelRole.model_validate({"model": "m", **role})
    with pytest.raises(ModelSetupError, match=rf"skillopt-ci\[{role['provider']}\]"):
        answers(Models(target=config, optimizer=config), ask(), environ={"K": "k"})


def test_a_question_to_the_judge_reaches_it(scripted, reply):
    inner = scripted(reply("0.8"))
    assert asyncio.run(judge_reply(inner, "How good?")) == "0.8"
    assert inner.asked == [ChatRequest(Role.JUDGE, "judge", (Message("user", "How good?"),))]


@pytest.mark.parametrize(
    ("ended", "told"),
    [
        (ModelRefusal("filtered"), GraderBroke),
        (ModelUnavailable("down"), GraderError),
        (BudgetExhausted("spent"), BudgetExhausted),
    ],
)
def test_a_judge_s_refusal_is_blamed_on_what_it_grades(scripted, ended, told):
    with pytest.raises(told, match=ended.message) as caught:
        asyncio.run(judge_reply(scripted(ended), "How good?"))
    assert type(caught.value) is told


def test_a_verdict_that_a_judge_failed_to_give_is_not_read_from_the_cache(server, served, tmp_path):
    for text in ("no", "no", '{"score": 0}', '{"score": 1, "reason": "kind"}'):
        server.will({"choices": [{"message": {"content": text}, "finish_reason": "stop"}]})
    spec, task = RubricScorer(type="rubric", rubric="Be kind."), Task("t", (Message("user", "Hi"),))

    async def work() -> float:
        models = Models(target=served(), optimizer=served())
        async with open_router(models.roles, {}, cache_path=tmp_path / "calls.sqlite") as router:
            judge = partial(judge_reply, router.for_work("s", Meter()))
            return (await FallibleScorer(spec, partial(ask_judge, spec, judge))(task, "hello")).hard

    assert [asyncio.run(work()) for _ in range(2)] == [1, 1]
    assert len(server.bodies) == 4
