"""A file of little tasks of Inspect AI."""

from bench.inspect_cost import TOOL

FILE = (
    TOOL
    + """
import os
from inspect_ai.agent import as_solver, react
from inspect_ai.dataset import MemoryDataset
from inspect_ai.model import ChatMessageSystem, ChatMessageUser, get_model
from inspect_ai.scorer import Score, mean, scorer
from inspect_ai.util import sandbox

@solver
def frail():
    model = get_model()  # as the task loads
    async def solve(state, generate):
        state.output = await model.generate(state.messages)
        if "break" in state.target.text:
            raise RuntimeError("the solver is broken")
        return state
    return solve

def samples():
    about = {"category": "sums", "sample": "of theirs"}
    return [
        Sample(f"What is 2 + {i}?", target=str(2 + i), id=f"sum-{i}", metadata=about)
        for i in range(8)
    ]

@task
def sums():
    loop, scorers = [use_tools(add()), generate()], [match(), includes()]
    limits = {"model": "mockllm/model", "message_limit": 9}  # the run's model comes first
    return Task(dataset=samples(), solver=loop, scorer=scorers, **limits)

@task
def chat(judge: str = ""):
    talk = [ChatMessageSystem(content="Be kind."), ChatMessageUser(content="Pick.")]
    picks = [
        Sample([*talk, ChatMessageUser(content=str(i))], choices=["x", "y"], target=["x", "X"])
        for i in range(8)
    ]
    picks = MemoryDataset(picks)
    picks.shuffle()
    grader = {"model": judge} if judge else {"role": "grader", "default": "openai/other"}
    scorer = model_graded_qa(model=get_model(**grader))
    return Task(dataset=picks, solver=generate(), scorer=scorer, message_limit=4)

@scorer(metrics=[mean()])
def strange():
    async def score(state, target):
        await get_model().generate("Is it right?")
        value = 0.5 if target.text == "break" else float(target.text)
        return Score(value=value, answer=state.output.completion)
    return score

@task
def odd(scored: bool = False):
    seen = f"{os.environ.get('SHOWN')} {os.environ.get('HIDDEN')}"
    odds = [
        Sample(seen, target=["1", "nan", "break"][i % 3], metadata={"x": float("nan")})
        for i in range(8)
    ]
    return Task(dataset=odds, solver=frail(), scorer=strange(), score_on_error=scored)

@tool
def note():
    async def execute():
        '''Leave a note.'''
        await sandbox().write_file("note.txt", "0.5")
    return execute

@scorer(metrics=[mean()])
def noted(asks):
    async def score(state, target):
        said = (await get_model().generate("Is it right?")).completion if asks else "-"
        return Score(value=float(await sandbox().read_file("note.txt")), answer=said)
    return score

@solver
def stubborn(goes_on: bool):
    work = as_solver(react(tools=[note()]))
    async def solve(state, generate):
        while True:
            try:
                state = await work(state, generate)
            except Exception as error:
                if not goes_on:
                    raise RuntimeError("the work was not done") from error
    return solve

@solver
def in_the_way_of_the_target():
    plain = as_solver(react(tools=[note()]))
    ways = {"works": plain, "goes on": stubborn(True), "gives up": stubborn(False)}
    async def solve(state, generate):
        return await ways[state.target.text](state, generate)
    return solve

@task
def endless(tokens: int | None = None):
    ways = [Sample(way, target=way) for way in ("works", "goes on", "gives up")]
    limits = {"token_limit": tokens, "sandbox": "local"}
    return Task(ways, solver=in_the_way_of_the_target(), scorer=noted(not tokens), **limits)

@task
def twice():
    return Task(dataset=[Sample("x", id=2), Sample("y")], solver=generate(), scorer=match())
"""
)
