from repositories import bench, elsewhere, git_config, here, origin, refusing_server, repository  # noqa: F401
