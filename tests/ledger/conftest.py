from repositories import (  # noqa: F401
    bench,
    elsewhere,
    git_config,
    here,
    origin,
    refusing_server,
    repository,
)
