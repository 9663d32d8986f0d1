"""A file of little tasks of Inspect AI."""

from bench.inspect_cost import TOOL

FILE = (
    TOOL
    + """
import os
from inspect_ai.model import ChatMessageSystem, ChatMessageUser
from inspect_ai.scorer import Score, mean, scorer

@solver
def frail():
    async def solve(state, generate):
        if "break" in state.target.text:
            raise RuntimeError("the solver is broken")
        return await generate(state)
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
def chat(judged: bool = False):
    talk = [ChatMessageSystem(content="Be kind."), ChatMessageUser(content="Pick.")]
    picks = [
        Sample([*talk, ChatMessageUser(content=str(i))], choices=["x", "y"], target=["x", "X"])
        for i in range(8)
    ]
    scorer = model_graded_qa() if judged else includes()
    return Task(dataset=picks, solver=generate(), scorer=scorer, message_limit=4)

@scorer(metrics=[mean()])
def strange():
    async def score(state, target):
        return Score(value=float(target.text), answer=state.output.completion)
    return score

@task
def odd():
    seen = f"{os.environ.get('SHOWN')} {os.environ.get('HIDDEN')}"
    odds = [
        Sample(seen, target=["1", "nan", "break"][i % 3], metadata={"x": float("nan")})
        for i in range(8)
    ]
    return Task(dataset=odds, solver=frail(), scorer=strange())

@task
def twice():
    return Task(dataset=[Sample("x", id=2), Sample("y")], solver=generate(), scorer=match())
"""
)
