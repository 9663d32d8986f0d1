"""Each of SkillOpt's backends as the fields of a model role."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from skillopt_ci.settings.node import Mark, Node
from skillopt_ci.settings.problem import Problem
from skillopt_ci.settings.skillopt.programs import PROGRAMS
from skillopt_ci.settings.skillopt.role_source import RoleSource, RoleTranslation

_PLAIN_AUTH = ("openai_compatible", "compat", "openai")
_KEY_AUTH = ("", "api_key", "key", *_PLAIN_AUTH)


def _openai(source: RoleSource) -> RoleTranslation:
    endpoint = source.get(
        f"{source.role}_azure_openai_endpoint", "azure_openai_endpoint", "azure_endpoint"
    )
    fields, warnings = _effort(source)
    fields["model"] = source.chosen()
    if endpoint is None:
        fields["api_key_env"] = Node("OPENAI_API_KEY", source.mark)
        text = (
            "no azure_openai_endpoint is given, so OpenAI itself is called with OPENAI_API_KEY "
            "(AZURE_OPENAI_ENDPOINT is not read)"
        )
        return RoleTranslation(source.served(fields), (), (*warnings, source.remark(text)))
    fields |= _endpoint(source, endpoint)
    auth = source.own("azure_openai_auth_mode")
    if auth and auth.value not in _KEY_AUTH:
        text = f"signing in by {auth.value} is not available, a key is used"
        warnings = (*warnings, replace(source.remark(text), mark=auth.mark))
    return RoleTranslation(source.served(fields), (), warnings)


def _endpoint(source: RoleSource, endpoint: Node) -> dict[str, Node]:
    auth = source.own("azure_openai_auth_mode")
    url = str(endpoint.value).rstrip("/")
    if not (auth and auth.value in _PLAIN_AUTH) and not url.endswith("/v1"):
        url = f"{url}/openai/v1"
    prefix = f"{source.role.upper()}_" if source.get(f"{source.role}_azure_openai_endpoint") else ""
    return {
        "base_url": Node(url, endpoint.mark),
        "api_key_env": Node(f"{prefix}AZURE_OPENAI_API_KEY", endpoint.mark),
    }


def _effort(source: RoleSource) -> tuple[dict[str, Node], tuple[Problem, ...]]:
    effort = source.get("reasoning_effort")
    if effort is None:
        return {}, ()
    if effort.value != "max":
        return {"reasoning_effort": effort}, ()
    warning = Problem(effort.mark, "model.reasoning_effort", "'max' is not known here, xhigh is")
    return {"reasoning_effort": replace(effort, value="xhigh")}, (warning,)


def _compatible(source: RoleSource) -> RoleTranslation:
    fields = {
        "model": source.chosen(),
        "base_url": Node("https://api.openai.com/v1", source.mark),
        "api_key_env": Node("OPENAI_COMPATIBLE_API_KEY", source.mark),
        "token_limit_field": Node("max_tokens", source.mark),
    }
    text = (
        "OPENAI_COMPATIBLE_BASE_URL is not read, so https://api.openai.com/v1 is called; "
        f"for another server give -o 'model.{source.role}={{provider: openai, model: …, "
        "base_url: …, api_key_env: …}'"
    )
    return RoleTranslation(source.served(fields), (), (source.remark(text),))


def _qwen(source: RoleSource) -> RoleTranslation:
    thinking = source.own("qwen_chat_thinking_mode") or source.own("qwen_chat_enable_thinking")
    fields = {
        "model": source.chosen_or("Qwen/Qwen3.5-4B"),
        "base_url": source.own("qwen_chat_base_url")
        or Node("http://localhost:8000/v1", source.mark),
        "api_key_env": Node("QWEN_CHAT_API_KEY", source.mark),
        "token_limit_field": Node("max_tokens", source.mark),
        "temperature": _number(source.own("qwen_chat_temperature"), source.mark, 0.7),
        "max_output_tokens": _number(source.own("qwen_chat_max_tokens"), source.mark, 8000),
        "timeout": _number(source.own("qwen_chat_timeout_seconds"), source.mark, 300),
    }
    if thinking and thinking.value in ("enabled", "disabled", True):
        enabled = Node(thinking.value != "disabled", thinking.mark)
        options = Node({"enable_thinking": enabled}, thinking.mark)
        fields["extra_body"] = Node({"chat_template_kwargs": options}, thinking.mark)
    return RoleTranslation(source.served(fields))


def _minimax(source: RoleSource) -> RoleTranslation:
    domain = "minimaxi.com" if source.text("minimax_region") == "cn_zh" else "minimax.io"
    fields = {
        "model": source.get("minimax_model") or source.chosen_or("MiniMax-M3"),
        "base_url": source.get("minimax_base_url") or Node(f"https://api.{domain}/v1", source.mark),
        "api_key_env": Node("MINIMAX_API_KEY", source.mark),
        "token_limit_field": Node("max_tokens", source.mark),
        "temperature": _number(source.get("minimax_temperature"), source.mark, 0.7),
        "max_output_tokens": _number(source.get("minimax_max_tokens"), source.mark, 8000),
    }
    thinking = source.get("minimax_enable_thinking")
    if thinking:
        wanted = str(thinking.value).lower() in ("true", "1", "yes")
        kind = Node(
            {"type": Node("adaptive" if wanted else "disabled", thinking.mark)}, source.mark
        )
        fields["extra_body"] = Node({"thinking": kind}, thinking.mark)
    return RoleTranslation(source.served(fields))


def _number(node: Node | None, mark: Mark, default: float) -> Node:
    """A number that may be written as text; `none`, `off` and `null` mean: leave it out."""
    if node is None:
        return Node(default, mark)
    if not isinstance(node.value, str):
        return node
    if node.value.lower() in ("none", "off", "null"):
        return replace(node, value=None)
    try:
        number = float(node.value)
    except ValueError:
        return node
    return replace(node, value=int(number) if number.is_integer() else number)


#: The translation of each backend, by SkillOpt's name for it.
BACKENDS: Mapping[str, Callable[[RoleSource], RoleTranslation]] = MappingProxyType(
    {
        "openai_chat": _openai,
        "openai_compatible": _compatible,
        "qwen_chat": _qwen,
        "minimax_chat": _minimax,
        **PROGRAMS,
    }
)
