"""Files of a pull request, read as data and never checked out."""

from base64 import b64decode

from skillopt_ci.github.asking import asking
from skillopt_ci.github.client import Client
from skillopt_ci.github.failure import NotFound
from skillopt_ci.github.forge import ChangedFile, ChangedFiles


def changed(client: Client, number: int) -> ChangedFiles:
    """Return the files that a pull request changes; GitHub lists at most 3,000."""
    with asking(f"list the files of #{number}", "pull-requests: read"):
        pull = client.repo.get_pull(number).complete()
        files = tuple(
            ChangedFile(file.filename, file.status, file.previous_filename or None)
            for file in pull.get_files()
        )
        return ChangedFiles(files, complete=len(files) >= pull.changed_files)


def at(client: Client, path: str, ref: str) -> bytes | None:
    """Return the content of a file at ``ref``, None if there is no regular file at ``path``."""
    try:
        with asking(f"show {path} at {ref}", "contents: read"):
            found = client.repo.get_contents(path, ref)
            if isinstance(found, list) or found.type != "file":
                return None
            # Above one megabyte the content is left out and has to be fetched as an object.
            complete = found if found.encoding == "base64" else client.repo.get_git_blob(found.sha)
            return b64decode(complete.content)
    except NotFound:
        return None
