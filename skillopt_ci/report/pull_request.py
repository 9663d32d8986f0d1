"""Title and body of the one rolling pull request of a run."""

from skillopt_ci.report.chart import chart
from skillopt_ci.report.dashboard import dashboard, footer, interruption, marker
from skillopt_ci.report.links import Links
from skillopt_ci.report.markdown import clip, code, single_line
from skillopt_ci.report.run_view import RunView
from skillopt_ci.report.size import COMMENT_BYTES, cut

_TITLE = 120
_REVIEW = """\
#### How to review

- **Files changed** shows what the skill would become; the folder `.skillopt` is the trainer's \
memory, folded by GitHub.
- **Commits** is the training log: each step is one commit with its evidence, merged if it scored \
higher on the same tasks and reverted otherwise.
- A comment on a line of the skill, or `/skillopt note …` in the conversation, guides the next \
step. A commit pushed to this branch is measured and trained on.

#### How to merge, and how to stop

- Merge it whenever the skill is worth having, also by squashing: training goes on from the base \
branch, and its next step opens a new pull request.
- Close it, and training goes on without it; disable the workflow to stop training.
"""


def title(run: RunView) -> str:
    """Where training stands, as plain text of one line."""
    current, counts = run.state.current.measurement, run.counts
    name = single_line(run.skill_name).replace("@", "").replace("#", "")
    tasks = "1 task" if current.n == 1 else f"{current.n:,} tasks"
    arrow = f"{run.first_score:.2f} → {current.score:.2f} on {tasks}"
    steps = f"{counts['merged']} merged, {counts['reverted']} reverted"
    simulated = " [simulated models]" if run.state.simulated else ""
    return f"Train {clip(name, _TITLE - 80)} skill: {arrow} ({steps}){simulated}"


def body(run: RunView, links: Links, *, inconclusive: str = "", with_chart: bool = False) -> str:
    """What this is and how to deal with it; ``with_chart`` where no comment carries the chart."""
    branch = f"skillopt/{run.state.run}"
    log = links.compare(run.base, branch, "what it changed so far") if run.base else ""
    intro = (
        f"[skillopt-ci](https://pypi.org/project/skillopt-ci/) trains {code(run.state.skill, 120)} "
        f"on this branch, {code(branch)}: it lets a model work on tasks, proposes edits from what "
        "went wrong, and keeps an edit only if it solves more of the tasks it was not made from. "
        "The model itself never changes."
    )
    parts = (
        marker(run.state.run, "pull-request"),
        intro + (f" See {log}." if log else ""),
        interruption(inconclusive),
        dashboard(run),
        chart(run) if with_chart else "",
        _REVIEW.strip(),
        footer(run, links),
    )
    return cut("\n\n".join(part for part in parts if part), COMMENT_BYTES)
