"""CPU seconds that a sample of Inspect takes here, against Inspect's own evaluation.

    python -m bench.inspect_cost [--samples 60] [--repeats 3]

Both ask the same server, once before a tool is used and once after. A figure is the difference
between many samples and few, so that loading Inspect does not count; the least of several counts,
since a busy machine only ever adds. Exits with 1 if ours is over three times theirs.
"""

import argparse
import asyncio
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aiohttp import web

from skillopt_ci.aio import siblings
from skillopt_ci.integrations.bridge import Conversation
from skillopt_ci.integrations.inspect import InspectEnvironment
from skillopt_ci.messages import Message, ToolCall
from skillopt_ci.model.chat_server import listening, read_body, reply_body
from skillopt_ci.model.types import ChatReply, ChatRequest, Usage
from skillopt_ci.rollout.solver import Workplace

LIMIT = 3.0
FEW = 4
AT_ONCE = 4
#: The beginning of a file of tasks: what they import, and a tool.
TOOL = '''\
from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.scorer import includes, match, model_graded_qa
from inspect_ai.solver import generate, solver, use_tools
from inspect_ai.tool import tool

@tool
def add():
    async def execute(x: int, y: int):
        """Add two numbers.

        Args:
            x: The first number.
            y: The second number.
        """
        return x + y
    return execute
'''
TASK = f"""{TOOL}
@task
def sums():
    samples = [Sample(f"What is 2 + {{i}}?", target=str(2 + i)) for i in range(1000)]
    return Task(samples, solver=[use_tools(add()), generate()], scorer=[match(), includes()])
"""


def reply_to(messages: tuple[Message, ...]) -> ChatReply:
    """Use the tool once, then say what it said."""
    last, usage = messages[-1], Usage(1, 10, 5)
    if last.role == "tool":
        return ChatReply(f"The answer is {last.content}", "stop", "bench", usage)
    number = last.content.rpartition(" ")[2].strip("?")
    call = ToolCall("c1", "add", f'{{"x": 2, "y": {number}}}')
    return ChatReply("", "tool_calls", "bench", usage, tool_calls=(call,))


async def respond(request: web.Request) -> web.Response:
    _, asked, _ = read_body(await request.read())
    return web.json_response(reply_body([reply_to(asked.messages)]))


class Model:
    """The same model, in this process."""

    async def complete(self, request: ChatRequest) -> ChatReply:
        return reply_to(request.messages)


async def ours(root: Path, samples: int) -> None:
    """Attempt so many samples, some at a time, as a run does."""
    options = {"task": "sums.py@sums", "split": "8:1:1", "limit": 1000}
    environment = InspectEnvironment(options, root, {"PATH": os.environ["PATH"]})
    tasks = iter([*environment.tasks("train")][:samples])

    async def attempt_some() -> None:
        for task in tasks:
            talk = Conversation(Model(), "bench", 0)
            job = {**environment.job(task, Workplace(stage="bench")), "skill": "# Skill"}
            async for _ in talk.hold(environment.worker.attempt, job):
                pass
            assert environment.score(talk.result).hard

    async with siblings() as group:
        for _ in range(AT_ONCE):
            group.create_task(attempt_some())
    environment.close()


def native(root: Path, samples: int, base_url: str) -> None:
    """Evaluate so many samples by Inspect alone."""
    from inspect_ai import eval as evaluate  # noqa: PLC0415 - ours does without in this process
    from inspect_ai.model import get_model  # noqa: PLC0415

    os.chdir(root)
    model = get_model("openai-api/bench/-", base_url=base_url, api_key="-", responses_api=False)
    (log,) = evaluate("sums.py@sums", model=model, limit=samples, display="none", log_dir="logs")
    assert log.status == "success"


def cpu_seconds(kind: str, samples: int, base_url: str) -> float:
    """What a process of its own and all that it waits for take."""
    words = [sys.executable, "-m", "bench.inspect_cost", "--kind", kind, "--url", base_url]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([*words, "--samples", str(samples)], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@contextmanager
def model_server() -> Iterator[str]:
    """The model behind HTTP, in a process of its own."""
    command = [sys.executable, "-m", "bench.inspect_cost", "--kind", "server"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


async def serve() -> None:
    async with listening(respond) as url:
        print(url, flush=True)
        await asyncio.Event().wait()


def compare(samples: int, repeats: int) -> bool:
    """Print both figures; whether ours is within the limit."""
    found = {}
    with model_server() as url:
        for kind in ("native", "ours"):
            few, many = (
                min(cpu_seconds(kind, count, url) for _ in range(repeats))
                for count in (FEW, FEW + samples)
            )
            found[kind] = (many - few) / samples
            print(f"{kind:<8}{found[kind]:>8.4f} s CPU per sample", flush=True)
    if found["native"] <= 0:
        sys.exit("too few samples for this machine's noise: raise --samples")
    ratio = found["ours"] / found["native"]
    print(f"ratio   {ratio:>8.2f} (limit {LIMIT:g})")
    return ratio <= LIMIT


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=60)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--kind", choices=["ours", "native", "server"])
    parser.add_argument("--url", default="")
    given = parser.parse_args()
    match given.kind:
        case "server":
            asyncio.run(serve())
        case None:
            return int(not compare(given.samples, given.repeats))
        case kind:
            with tempfile.TemporaryDirectory() as folder:
                root = Path(folder)
                (root / "sums.py").write_text(TASK, encoding="utf-8")
                if kind == "native":
                    native(root, given.samples, given.url)
                else:
                    asyncio.run(ours(root, given.samples))
    return 0


if __name__ == "__main__":
    sys.exit(main())
