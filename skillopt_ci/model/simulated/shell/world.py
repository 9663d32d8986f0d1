"""Tasks of the shell world: distinct orders, each with its files and what is checked."""

from dataclasses import dataclass

from skillopt_ci.model.simulated.dice import Dice
from skillopt_ci.model.simulated.shell.order import ACTIONS, Order, write_order
from skillopt_ci.model.simulated.shell.script import HOUSE_STYLE, exercised

_JOBS = (
    ("tidy", "sync", "merge", "check", "gather", "review", "archive", "inspect"),
    ("logs", "invoices", "orders", "visits", "stock", "letters", "parcels", "tickets"),
)
_OWNERS = (("Mara", "Jonas", "Ines", "Pavel", "Lotte"), ("Lindt", "Berg", "Duarte", "Novak"))
_MESSAGES = ("starting now", "work begins", "on it", "one moment")
_ASSIGNMENT = "Write the shell script for this order. It is run in the workspace's top folder."
_FOLDERS = ("tools", "scripts", "bin")
_WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath")

#: How many conventions besides the first line an order exercises: cumulative probability → number.
_DIFFICULTY = ((0.10, 0), (0.35, 1), (0.65, 2), (0.88, 3), (1.00, 4))


@dataclass(frozen=True, slots=True)
class ShellTask:
    """One order; ``source`` and ``content`` are its input file, ``checks`` what is looked at."""

    id: str
    task_type: str
    prompt: str
    source: str
    content: str
    checks: tuple[str, ...]


def generate_orders(seed: int, n: int) -> tuple[ShellTask, ...]:
    """Return ``n`` tasks with distinct orders; a larger ``n`` keeps the earlier tasks."""
    tasks: dict[str, ShellTask] = {}
    drawn = 0
    while len(tasks) < n:
        dice = Dice(seed, f"order {drawn}")
        drawn += 1
        order = _draw_order(dice)
        text = write_order(order, dice)
        tasks.setdefault(text, _task(f"job-{len(tasks) + 1:03}", order, text, dice))
    return tuple(tasks.values())


def checks(order: Order) -> tuple[str, ...]:
    """Return the arguments of the tasks' checker for ``order``: what is known, then conventions."""
    facts = {
        "job": order.job,
        "folder": order.folder,
        "command": order.command,
        "source": order.source,
        "owner": order.owner,
        "message": order.message,
    }
    return (*(f"{key}={value}" for key, value in facts.items() if value), *exercised(order))


def _task(task_id: str, order: Order, text: str, dice: Dice) -> ShellTask:
    kind = order.action.split()[0].removesuffix("s")
    lines = [dice.pick(f"line {n}", _WORDS) for n in range(3 + int(dice.roll("length") * 6))]
    return ShellTask(
        id=task_id,
        task_type=kind,
        prompt=f"{_ASSIGNMENT}\n\nOrder: {text}",
        source=order.source,
        content="".join(f"{line}\n" for line in lines),
        checks=checks(order),
    )


def _draw_order(dice: Dice) -> Order:
    shown = _draw_conventions(dice)
    words = [dice.pick(f"job {number}", part) for number, part in enumerate(_JOBS)]
    actions = [name for name in ACTIONS if ("distinct" in name) == ("locale" in shown)]
    owner = " ".join(dice.pick(f"owner {n}", part) for n, part in enumerate(_OWNERS))
    return Order(
        job=" ".join(words) if "dashes" in shown else words[1],
        action=dice.pick("action", actions),
        source=f"data/{words[1]}.txt",
        folder="" if "place" in shown else dice.pick("folder", _FOLDERS),
        owner=owner if "owner" in shown else "",
        message=dice.pick("message", _MESSAGES) if "progress" in shown else "",
        careful="strict" in shown,
        kept="result" in shown,
        needed="missing" in shown,
        direct="executable" in shown,
    )


def _draw_conventions(dice: Dice) -> frozenset[str]:
    roll = dice.roll("difficulty")
    size = next(number for limit, number in _DIFFICULTY if roll < limit)
    return frozenset(sorted(HOUSE_STYLE - {"shebang"}, key=dice.roll)[:size])
