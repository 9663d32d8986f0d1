"""Accept what comes of the pins now: ``python -m tests.pins.make_fixture --accept NAME…``.

The states to go on from stay as the version of 2026-11 left them; see README.md.
"""

from __future__ import annotations

import json
import lzma
import sys
import tarfile
import tempfile
from dataclasses import asdict, replace
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "support"))  # as pytest does

from tests.pins import surface
from tests.pins.world import FIXTURES, SAFELY, Case, differences, go_on, pack, unpack


def accept(name: str, scratch: Path) -> None:
    """Take what going on from a fixture comes to now for what is expected, if it does so twice."""
    played = []
    for turn in ("one", "two"):
        place = unpack(name, scratch / turn)
        case = Case.load((scratch / turn / "case.json").read_text(encoding="utf-8"))
        played.append(go_on(place, case))
    told = differences(*played, likely=case.likely)
    assert not told, "\n".join([name, *told[:40]])
    with tarfile.open(FIXTURES / f"{name}.tar.xz") as archive:
        archive.extractall(scratch / "kept", **SAFELY)
    text = json.dumps(asdict(replace(case, expected=played[0])), ensure_ascii=False)
    (scratch / "kept" / "case.json").write_text(text, encoding="utf-8")
    names = sorted(found.name for found in (scratch / "kept").iterdir())
    pack(scratch / "kept", FIXTURES / f"{name}.tar.xz", names)


def accept_scene(name: str, scratch: Path) -> None:
    """Write down what a scene of ``surface.py`` shows."""
    scratch.joinpath("scene").mkdir()
    found = json.loads(lzma.decompress(surface.FILE.read_bytes()))
    found[name] = surface.SCENES[name](scratch / "scene")
    text = json.dumps(found, ensure_ascii=False)
    surface.FILE.write_bytes(lzma.compress(text.encode(), preset=9))


def main(option: str = "", *names: str) -> None:
    assert option == "--accept", __doc__
    for name in names:
        with tempfile.TemporaryDirectory(prefix="pins-") as scratch:
            (accept_scene if name in surface.SCENES else accept)(name, Path(scratch))


if __name__ == "__main__":
    main(*sys.argv[1:])
