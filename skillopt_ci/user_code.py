"""Python code of the user's repository: found and imported without disturbing what is installed."""

import hashlib
import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType


def user_module(source: str, root: Path) -> ModuleType:
    """Import ``path/to/file.py`` below ``root``, or ``package.module`` with ``root`` on the path.

    The root comes last on the path: a file of the repository can never take the place of a
    library. Whatever the import raises is raised.
    """
    if (folder := str(root.resolve())) not in sys.path:
        sys.path.append(folder)
    if source.endswith(".py"):
        return _file_module(root / source)
    return importlib.import_module(source)


def _file_module(path: Path) -> ModuleType:
    name = f"skillopt_user_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    # Registered first, as `import` does: dataclasses and pickling look their module up there.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def last_line(error: BaseException) -> str:
    """What an exception says and the innermost line that it came from, in one line."""
    message = " ".join(str(error).split())[-200:]
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {message}{where}"
