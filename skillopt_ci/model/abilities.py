"""What a role's provider cannot do at all, said before it is asked."""

from skillopt_ci.config.models import ModelRole
from skillopt_ci.errors import ModelSetupError
from skillopt_ci.model.client import ChatRequest


def require_abilities(section: str, config: ModelRole, request: ChatRequest) -> None:
    """Raise :class:`ModelSetupError` for pictures or tools that the provider knows nothing of.

    ``section`` (``model.target``) names the role in the message.
    """
    preset = config.preset
    if not preset.images and any(message.images for message in request.messages):
        raise ModelSetupError(
            f"{section}: {preset.title} takes no pictures, and the task has some",
            hint="Choose another provider for this role, or leave the pictures out.",
        )
    if not preset.tools and request.tools:
        raise ModelSetupError(
            f"{section}: {preset.title} calls no tools, and the task needs them",
            hint="Choose a provider that serves a model over HTTP for this role.",
        )
