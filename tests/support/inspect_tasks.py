"""A file of little tasks of Inspect AI."""

from bench.inspect_cost import TOOL

FILE = (
    TOOL
    + """
import os
from inspect_ai.model import ChatMessageSystem, ChatMessageUser
from inspect_ai.scorer import Score, mean, scorer

@solver
def broken():
    async def solve(state, generate):
        raise RuntimeError("the solver is broken")
    return solve

def samples():
    about = {"category": "sums", "sample": "of theirs"}
    return [
        Sample(f"What is 2 + {i}?", target=str(2 + i), id=f"sum-{i}", metadata=about)
        for i in range(8)
    ]

@task
def sums(judged: bool = False):
    scorers = model_graded_qa() if judged else [match(), includes()]
    loop = [use_tools(add()), generate()]
    return Task(dataset=samples(), solver=loop, scorer=scorers, message_limit=9)

@task
def chat():
    talk = [ChatMessageSystem(content="Be kind."), ChatMessageUser(content="Pick.")]
    picks = [
        Sample([*talk, ChatMessageUser(content=str(i))], choices=["x", "y"], target=["x", "X"])
        for i in range(8)
    ]
    return Task(dataset=picks, solver=generate(), scorer=includes(), message_limit=3)

@scorer(metrics=[mean()])
def strange():
    async def score(state, target):
        return Score(value=float(target.text), answer=state.output.completion)
    return score

@task
def odd():
    about = {"x": float("nan")}
    odds = [Sample("x", target=["1", "nan"][i % 2], metadata=about) for i in range(8)]
    return Task(dataset=odds, solver=generate(), scorer=strange())

@task
def twice():
    return Task(dataset=[Sample("x", id=2), Sample("y")], solver=generate(), scorer=match())

@task
def failing():
    seen = f"{os.environ.get('SHOWN')} {os.environ.get('HIDDEN')}"
    return Task([Sample(f"{i} {seen}") for i in range(8)], solver=broken(), scorer=match())
"""
)
