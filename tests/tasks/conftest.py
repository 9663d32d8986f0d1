import json
from collections.abc import Callable, Mapping

import pytest
from task_files import Write, make_task, write

__all__ = ["make_task", "write"]

WriteSplits = Callable[[Mapping[str, list[dict[str, object]]]], None]


@pytest.fixture
def write_splits(write: Write) -> WriteSplits:

    def write_all(splits: Mapping[str, list[dict[str, object]]]) -> None:
        for name, records in splits.items():
            write(f"{name}.jsonl", "".join(json.dumps(record) + "\n" for record in records))

    return write_all
