"""General helpers: atomic files, attribute docstrings, imports, the user's own code."""

import ast
import difflib
import errno
import gc
import hashlib
import importlib.util
import inspect
import json
import os
import resource
import stat
import sys
import traceback
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import SupportsIndex, TypeVar

from skillopt_ci.errors import SkilloptError, UsageError

Key = TypeVar("Key")
Value = TypeVar("Value")

#: More than a run needs, and few enough for programs that close all that could be open.
_OPEN_FILES = 65_536
#: The start of a Git LFS pointer, which a file is until its content is fetched.
_LFS_POINTER = "version https://git-lfs.github.com/spec/"


def read_file(file: Path) -> bytes:
    """The content of a regular file; OSError for a pipe or device, which may never end."""
    try:
        mode = file.stat().st_mode
    except ValueError as error:  # a null byte in its name
        raise OSError(errno.EINVAL, str(error), str(file)) from error
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise OSError(errno.EINVAL, "It is a pipe or a device, not a file", str(file))
    return file.read_bytes()


def read_text(file: Path, encoding: str = "utf-8") -> str:
    """Like :func:`read_file`, but with line feeds only; also OSError if it is not text."""
    try:
        text = read_file(file).decode(encoding)
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        said = f"Line {line} is not UTF-8 text: save the file in that encoding"
        raise OSError(errno.EILSEQ, said, str(file)) from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


def user_text(file: Path) -> str:
    """The text of a file that users named; UsageError if it cannot be read."""
    try:
        return read_text(file, "utf-8-sig")
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror}") from error


def located(name: str, root: Path, environ: Mapping[str, str]) -> Path:
    """The file ``name``: relative to ``root``, or to the home folder if it begins with ``~/``."""
    home = environ.get("HOME") if name.startswith("~/") else None
    return Path(home, name[2:]) if home else root / name


def is_lfs_pointer(text: str) -> bool:
    return text.startswith(_LFS_POINTER)


def stray_character(key: str, *, allowed: str = "") -> str:
    """Describe the first character of ``key`` that is invalid in a header or a space, if any."""
    for position, character in enumerate(key, start=1):
        if not "!" <= character <= "~" and character not in allowed:
            name = unicodedata.name(character, "a control character")
            return f"U+{ord(character):04X} ({name}) as character {position} of {len(key)}"
    return ""


def write_atomically(file: Path, text: str) -> None:
    """Write all or nothing, making folders, through links, pipes and devices. Raises UsageError."""
    try:
        if file.exists() and not file.is_file():
            file.write_text(text, encoding="utf-8", newline="")
            return
        target = Path(os.path.realpath(file))
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.{os.urandom(4).hex()}")
        try:
            with temporary.open("x", encoding="utf-8", newline="") as stream:
                if target.exists():
                    temporary.chmod(target.stat().st_mode)
                stream.write(text)
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        # a file where a folder should be is called an existing file by mkdir
        known = os.strerror(errno.ENOTDIR) if isinstance(error, FileExistsError) else error.strerror
        raise UsageError(f"{file} cannot be written: {known}.") from error


def pick(source: object, names: str) -> dict[str, object]:
    """Attributes by name, or as ``key=attribute.of.it``; None if any part of a path is None."""
    found: dict[str, object] = {}
    for key, _, attribute in (name.partition("=") for name in names.split()):
        value = source
        for step in (attribute or key).split("."):
            value = None if value is None else getattr(value, step)
        found[key] = value
    return found


def grouped(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    """The values of each key together; keys and values keep their order."""
    groups: dict[Key, list[Value]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def sha256_of_json(value: object) -> str:
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def repaired(text: str) -> object:
    """The value of invalid JSON; None if it cannot be repaired in linear time.

    Some texts take json_repair quadratic time, without a limit: we count how often it reads them.
    """
    import json_repair  # noqa: PLC0415 - most replies need no repair

    reads_left = 50 * len(text)  # repairs of usual slips take up to 3 per character

    class Metered(str):  # noqa: SLOT000 - short-lived
        def __getitem__(self, key: SupportsIndex | slice) -> str:
            nonlocal reads_left
            reads_left -= 1
            if reads_left < 0:
                raise ValueError
            found = super().__getitem__(key)
            # a repair may put the text together anew, with what was missing in it
            return Metered(found) if isinstance(key, slice) and key.start is None else found

        def __add__(self, more: str) -> str:
            return Metered(super().__add__(more))

    with suppress(ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return json_repair.loads(Metered(text), skip_json_loads=True)
    return None


def attribute_docs(cls: type) -> dict[str, str]:
    """The docstrings of a class's attributes, including inherited ones, by name."""
    found: dict[str, str] = {}
    for owner in reversed(cls.__mro__):
        if owner.__module__.partition(".")[0] == "skillopt_ci":
            for field, below in pairwise(_classes(owner.__module__)[owner.__name__].body):
                match field, below:
                    case ast.AnnAssign(ast.Name(name)), ast.Expr(ast.Constant(str(text))):
                        found[name] = inspect.cleandoc(text)
    return found


@cache
def _classes(module: str) -> dict[str, ast.ClassDef]:
    nodes = ast.walk(ast.parse(inspect.getsource(sys.modules[module])))
    return {node.name: node for node in nodes if isinstance(node, ast.ClassDef)}


def lasting_import(name: str) -> ModuleType:
    """Import a module and exempt all objects existing afterwards from garbage collection.

    Collecting half a million objects of pydantic and providers took a fifth of a run's CPU time.
    """
    if name in sys.modules:
        return importlib.import_module(name)
    enabled = gc.isenabled()
    gc.disable()
    try:
        return importlib.import_module(name)
    finally:
        gc.freeze()
        if enabled:
            gc.enable()


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """A question that suggests the known name closest to ``name``; empty if none is close."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return f"Did you mean {near[0]!r}?" if near else ""


def did_you_mean(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """The same as the end of a sentence: ``; did you mean …?``."""
    question = nearest(name, known, cutoff)
    return question and f"; d{question[1:]}"


def user_module(source: str, root: Path) -> ModuleType:
    """Import a file or module; ``root`` comes last on the path. May raise anything."""
    if (folder := str(root.resolve())) not in sys.path:
        sys.path.append(folder)
    if source.endswith(".py"):
        path = root / source
        name = f"skillopt_user_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]}"
        if name in sys.modules:
            return sys.modules[name]
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ImportError(f"{path} is not a Python file")
        module = importlib.util.module_from_spec(spec)
        # Register it first, as `import` does: dataclasses and pickling look up their module there.
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
        return module
    return importlib.import_module(source)


def allow_open_files() -> None:
    """Raise the usual limit of 1024 open files, which some 70 attempts on computers reach."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        with suppress(OSError, ValueError):  # macOS may have a lower limit that it does not tell
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


@contextmanager
def user_errors(told: str, kind: type[SkilloptError] = UsageError) -> Iterator[None]:
    """Turn errors of users' code in the block into ``kind``: ``told``, the error, its place."""
    import asyncio  # noqa: PLC0415 - the help goes without it

    try:
        yield
    except SkilloptError:
        raise
    except (Exception, SystemExit, asyncio.CancelledError) as error:
        with suppress(RuntimeError):  # without an event loop, we cancel nothing
            task = asyncio.current_task() if isinstance(error, asyncio.CancelledError) else None
            if task is not None and task.cancelling():  # by us, not by users' code
                raise
        raise kind(f"{told} {last_line(error)}") from error


def user_object(
    entry: str, root: Path, what: str, fits: Callable[[object], bool], prefix: str = ""
) -> object:
    """The object at ``file.py:name`` or ``package.module:name``. Raises :class:`UsageError`."""
    source, _, name = entry.rpartition(":")
    with user_errors(f"{prefix}{source} cannot be imported:"):
        module = user_module(source, root)
    if name not in vars(module):
        names = sorted(key for key, value in vars(module).items() if fits(value))
        meant = did_you_mean(name, names) or f"; known are: {', '.join(names) or 'none'}"
        raise UsageError(f"{prefix}{source} has no {what} {name!r}{meant}")
    return vars(module)[name]


def last_line(error: BaseException) -> str:
    message = " ".join(str(error).split())[-200:]
    ours, python = (f"{Path(file).parent}/" for file in (__file__, os.__file__))
    # neither our lines nor Python's help; of a mistake in the syntax, the message has the place
    for at in reversed(traceback.extract_tb(error.__traceback__)):
        packaged = "-packages" in at.filename
        if not at.filename.startswith(("<frozen", ours) if packaged else ("<frozen", ours, python)):
            return f"{type(error).__name__}: {message} ({at.filename}:{at.lineno})"
    return f"{type(error).__name__}: {message}"
