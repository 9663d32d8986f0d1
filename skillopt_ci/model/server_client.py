"""A server as a model, whatever protocol it speaks: one try per call."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from skillopt_ci.config.models import ModelRole
from skillopt_ci.model.abilities import require_abilities
from skillopt_ci.model.client import ChatReply, ChatRequest
from skillopt_ci.model.dialect import Words, dialect_of, refused_setting, settings_of
from skillopt_ci.model.server_error import ServerError, failure
from skillopt_ci.progress import Note, Observer, silent


@dataclass(frozen=True, slots=True)
class Wire:
    """A protocol: how a request is put, how an answer is read, and how one becomes the other.

    ``send`` returns the body of an answer or the server's error; a failure of the connection raises
    :class:`~skillopt_ci.model.transient.TransientFailure`. ``words`` has the settings that the
    protocol can do without, and what servers call them.
    """

    body: Callable[[ModelRole, ChatRequest, Mapping[str, object]], dict[str, object]]
    read: Callable[[bytes, ChatRequest, ModelRole], ChatReply | ServerError]
    words: Words
    send: Callable[[dict[str, object]], Awaitable[bytes | ServerError]]


class ServerClient:
    """Answers a role's requests from a server.

    ``section`` (``model.target``) names the role in messages. A setting that the server does not
    support is left out (or the token limit renamed) from then on, and ``observe`` is told.
    """

    def __init__(
        self, section: str, config: ModelRole, wire: Wire, observe: Observer = silent
    ) -> None:
        self._section = section
        self._config = config
        self._wire = wire
        self._observe = observe
        self._dialect = dialect_of(config)

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Answer ``request``.

        Raises :class:`~skillopt_ci.model.transient.TransientFailure` for what may pass, and what
        :meth:`~skillopt_ci.model.client.ChatClient.complete` raises.
        """
        require_abilities(self._section, self._config, request)
        while True:
            settings = settings_of(self._config, request, self._dialect)
            came = await self._wire.send(self._wire.body(self._config, request, settings))
            answer = self._read(came, request)
            if isinstance(answer, ChatReply):
                return answer
            refused = refused_setting(answer, settings, self._wire.words)
            if refused is None or not self._learned_to_avoid(refused):
                raise failure(answer, self._section, self._config)

    def _read(self, came: bytes | ServerError, request: ChatRequest) -> ChatReply | ServerError:
        if isinstance(came, ServerError):
            return came
        return self._wire.read(came, request, self._config)

    def _learned_to_avoid(self, setting: str) -> bool:
        dialect = self._dialect.without(setting)
        if dialect is None:
            return False
        if dialect != self._dialect:
            self._dialect = dialect
            remedy = "left out" if setting in dialect.dropped else f"sent as {dialect.limit_field}"
            refusal = f"{self._config.model} does not support {setting}"
            self._observe(
                Note(f"{self._section}: {refusal}; it is {remedy} from now on.", level="warning")
            )
        return True
