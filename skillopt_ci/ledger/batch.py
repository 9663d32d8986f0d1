"""Read many files of many commits by one git process."""

from collections.abc import Iterator, Sequence

from skillopt_ci.ledger.git import Git


def read_texts(git: Git, files: Sequence[tuple[str, str]]) -> tuple[str | None, ...]:
    """The texts of ``files``, each a commit and a path in it, in their order.

    None stands for a file that is not there or is no UTF-8 text. Paths with line feeds are not
    there. What a link points at counts as its text.
    """
    asked = [f"{commit}:{path}" if "\n" not in path else "" for commit, path in files]
    answer = git.run("cat-file", "--batch", stdin="".join(f"{one}\n" for one in asked).encode())
    return tuple(_texts(answer.stdout, len(files)))


def _texts(answer: bytes, count: int) -> Iterator[str | None]:
    start = 0
    for _ in range(count):
        end = answer.index(b"\n", start)
        head, start = answer[start:end].split(b" "), end + 1
        if head[-1] == b"missing" or not head[-1].isdigit():
            yield None
            continue
        size = int(head[-1])
        content, kind = answer[start : start + size], head[-2]
        start += size + 1
        try:
            yield content.decode("utf-8") if kind == b"blob" else None
        except UnicodeDecodeError:
            yield None
