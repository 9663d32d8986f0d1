"""A task as plain data, for graders that are not ours."""

import copy

from skillopt_ci.tasks.task import Task


def task_data(task: Task) -> dict[str, object]:
    """A JSON-like copy of ``task``: what a grader does to it stays with the grader."""
    return {
        "id": task.id,
        "messages": [
            {"role": message.role, "content": message.content} for message in task.messages
        ],
        "references": list(task.references),
        "task_type": task.task_type,
        "files": {file.name: file.content for file in task.files},
        "metadata": copy.deepcopy(dict(task.metadata)),
    }
