"""Get pip from the package index where Python comes without it, as Debian's does."""

from __future__ import annotations

import base64
import configparser
import hashlib
import re
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

DEFAULT_INDEX = "https://pypi.org/simple"
TIMEOUT_SECONDS = 60


class BootstrapError(Exception):
    """A reason, in words, why the environment cannot be set up."""


class Wheel(NamedTuple):
    """A wheel on a package index; ``digest`` is the sha256 that the index promises."""

    version: tuple[int, ...]
    url: str
    digest: str


def download_pip(folder: Path, python: tuple[int, int], environ: Mapping[str, str]) -> Path:
    """Download pip's newest wheel for a version of Python into ``folder``; return its path.

    Raises BootstrapError if the index cannot be read or the wheel is not what it promises.
    """
    settings = pip_settings(environ)
    index = settings.get("index-url", DEFAULT_INDEX).rstrip("/") + "/pip/"
    wheels = find_wheels(fetch(index, settings).decode("utf-8"), index, python)
    if not wheels:
        raise BootstrapError(f"{index} offers no wheel of pip with a sha256")
    wheel = max(wheels)
    content = fetch(wheel.url, settings)
    if hashlib.sha256(content).hexdigest() != wheel.digest:
        raise BootstrapError(f"{wheel.url} does not have the sha256 that {index} promises")
    file = folder / wheel.url.rpartition("/")[2]
    file.write_bytes(content)
    return file


def pip_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Read ``index-url`` and ``cert`` as pip would: its files first, then its variables."""
    home = Path(environ.get("HOME", "/"))
    user = Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "pip" / "pip.conf"
    files = ["/etc/pip.conf", str(home / ".pip" / "pip.conf"), str(user)]
    files += [environ["PIP_CONFIG_FILE"]] if "PIP_CONFIG_FILE" in environ else []
    parser = configparser.RawConfigParser()
    parser.read(files, encoding="utf-8")
    found = dict(parser["global"]) if parser.has_section("global") else {}
    for key, name in (("index-url", "PIP_INDEX_URL"), ("cert", "PIP_CERT")):
        if environ.get(name):
            found[key] = environ[name]
    return found


def fetch(url: str, settings: dict[str, str]) -> bytes:
    """Return what stands at ``url``; raises BootstrapError if it cannot be had."""
    parts = urllib.parse.urlsplit(url)
    where = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    request = urllib.request.Request(where, headers={"Accept": "text/html, */*;q=0.1"})
    if parts.username:
        request.add_header("Authorization", basic(parts.username, parts.password or ""))
    try:
        context = ssl.create_default_context(cafile=settings.get("cert"))
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS, context=context) as reply:
            return bytes(reply.read())
    except OSError as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        raise BootstrapError(
            f"pip is missing and {where} cannot be read ({error}); "
            "install python3-venv (and ca-certificates), or set PIP_INDEX_URL and PIP_CERT"
        ) from error


def basic(user: str, password: str) -> str:
    """Return the header value for a user and password of an index URL."""
    words = f"{urllib.parse.unquote(user)}:{urllib.parse.unquote(password)}"
    return "Basic " + base64.b64encode(words.encode("utf-8")).decode("ascii")


class Links(HTMLParser):
    """Collects the links of a package index page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[dict[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep the attributes of each link."""
        if tag == "a":
            self.found.append({key: value or "" for key, value in attrs})


def find_wheels(page: str, index: str, python: tuple[int, int]) -> list[Wheel]:
    """Return pip's released wheels on an index page that fit ``python`` and are not withdrawn."""
    links = Links()
    links.feed(page)
    wheels = []
    for link in links.found:
        url, _, fragment = urllib.parse.urljoin(index, link.get("href", "")).partition("#")
        name = re.search(r"/pip-(\d+(?:\.\d+)*)-py3-none-any\.whl$", url)
        digest = re.search(r"sha256=([0-9a-f]{64})", fragment)
        if name and digest and "data-yanked" not in link and fits(link, python):
            version = tuple(int(part) for part in name[1].split("."))
            wheels.append(Wheel(version, url, digest[1]))
    return wheels


def fits(link: dict[str, str], python: tuple[int, int]) -> bool:
    """Say whether a link's ``data-requires-python`` (a lower limit, for pip) is met."""
    lower = re.search(r">=\s*3\.(\d+)", link.get("data-requires-python", ""))
    return lower is None or (3, int(lower[1])) <= python
