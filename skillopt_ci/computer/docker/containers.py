"""The kind `docker`: each computer a container of a Docker engine."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

from skillopt_ci.computer.computer import Computer, ComputerSpec
from skillopt_ci.computer.docker.command import ContainerShell
from skillopt_ci.computer.docker.container import container
from skillopt_ci.computer.docker.engine import Engine, connect
from skillopt_ci.computer.errors import ComputerFailure, ComputerUnavailable
from skillopt_ci.computer.probe import probe
from skillopt_ci.computer.shell_computer import ShellComputer


@dataclass(frozen=True, slots=True)
class Containers:
    """Computers that are containers; ``image`` is used where a task names none."""

    environ: Mapping[str, str]
    image: str = ""
    name: str = "docker"
    caveat: str = ""

    def check(self) -> None:
        """See :class:`skillopt_ci.computer.computer.Computers`."""
        engine = connect(self.environ)  # says what to do where the SDK is missing
        from skillopt_ci.computer.docker.sweep import sweep  # noqa: PLC0415  (imports the SDK)

        try:
            sweep(engine)
            if self.image:
                asyncio.run(probe(self))
        except ComputerFailure as error:
            raise ComputerUnavailable(error.message) from error
        finally:
            engine.close()

    def open(self, spec: ComputerSpec) -> AbstractAsyncContextManager[Computer]:
        """See :class:`skillopt_ci.computer.computer.Computers`."""
        return self._opened(spec)

    @asynccontextmanager
    async def _opened(self, spec: ComputerSpec) -> AsyncIterator[Computer]:
        image = spec.image or self.image
        if not image:
            raise ComputerUnavailable(
                "`rollout.computer.type: docker` needs an image.",
                hint="Set `rollout.computer.image`.",
            )
        engine = await asyncio.to_thread(connect, self.environ)
        try:
            await _provide(engine, image)
            async with container(engine, image, spec) as made:
                yield ShellComputer(ContainerShell(engine, made))
        finally:
            engine.close()


async def _provide(engine: Engine, image: str) -> None:
    """Pull an image that the engine does not have."""
    from docker.errors import APIError, ImageNotFound  # noqa: PLC0415

    def provide() -> None:
        try:
            engine.api.inspect_image(image)  # type: ignore[no-untyped-call]
        except ImageNotFound:
            repository, _, tag = image.rpartition(":")
            plain = "/" in tag or not repository
            engine.api.pull(
                image if plain or "@" in image else repository,
                tag=None if "@" in image else "latest" if plain else tag,
            )

    try:
        await engine.call(provide)
    except ComputerFailure as error:
        if isinstance(error.__cause__, APIError) and error.__cause__.is_client_error():
            raise ComputerUnavailable(
                f"The image {image} cannot be had: {error.__cause__.explanation}",
                hint="Set `rollout.computer.image` to an image that the engine has or can pull.",
            ) from error
        raise
