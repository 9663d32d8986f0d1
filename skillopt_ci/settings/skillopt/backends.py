"""Each of SkillOpt's backends as the fields of a model role."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from skillopt_ci.settings.node import Node
from skillopt_ci.settings.skillopt.programs import PROGRAMS
from skillopt_ci.settings.skillopt.role_source import RoleSource, RoleTranslation, number

_PLAIN_AUTH = ("openai_compatible", "compat", "openai")
#: SkillOpt's ways to sign in to Azure, by our names.
_AUTH = MappingProxyType(
    {
        **dict.fromkeys(("api_key", "key"), "key"),
        "azure_cli": "azure_cli",
        **dict.fromkeys(("managed_identity", "aad", "azure_ad"), "managed_identity"),
    }
)


def _openai(source: RoleSource) -> RoleTranslation:
    endpoint = source.get(
        f"{source.role}_azure_openai_endpoint", "azure_openai_endpoint", "azure_endpoint"
    )
    effort = source.get("reasoning_effort")
    fields = {"reasoning_effort": effort} if effort else {}
    fields["model"] = source.chosen()
    if endpoint is None:
        fields["api_key_env"] = Node("OPENAI_API_KEY", source.mark)
        text = (
            "there is neither azure_openai_endpoint nor AZURE_OPENAI_ENDPOINT, so OpenAI itself is "
            "called with OPENAI_API_KEY"
        )
        return RoleTranslation(source.served(fields), (), (source.remark(text),))
    mode = source.own("azure_openai_auth_mode")
    if mode and mode.value in _PLAIN_AUTH:
        fields |= {"base_url": _address(endpoint), "api_key_env": _key_of(source, endpoint)}
        return RoleTranslation(source.served(fields))
    return _azure(source, fields, endpoint, mode)


def _azure(
    source: RoleSource, fields: dict[str, Node], endpoint: Node, mode: Node | None
) -> RoleTranslation:
    """The role at Azure; who states no way to sign in has a key, or else is signed in already."""
    key = _key_of(source, endpoint)
    usual = "key" if source.has_variable(str(key.value)) else "azure_cli"
    auth = _AUTH.get(str(mode.value)) if mode else usual
    version = source.own("azure_openai_api_version") or source.get("azure_api_version")
    address = _address(endpoint)
    told = {
        "auth": Node(auth or str(mode.value if mode else usual), (mode or endpoint).mark),
        # The v1 address knows no versions.
        "api_version": None if str(address.value).endswith("/v1") else version,
        "scope": source.own("azure_openai_ad_scope"),
        "client_id": source.own("azure_openai_managed_identity_client_id"),
    }
    azure = {name: node for name, node in told.items() if node is not None}
    fields |= {"base_url": address, "azure": Node(azure, endpoint.mark)}
    if auth == "key":
        fields["api_key_env"] = key
    return RoleTranslation(source.served(fields, "azure"))


def _address(endpoint: Node) -> Node:
    return Node(str(endpoint.value).rstrip("/"), endpoint.mark)


def _key_of(source: RoleSource, endpoint: Node) -> Node:
    prefix = f"{source.role.upper()}_" if source.get(f"{source.role}_azure_openai_endpoint") else ""
    return Node(f"{prefix}AZURE_OPENAI_API_KEY", endpoint.mark)


def _compatible(source: RoleSource) -> RoleTranslation:
    url = source.own("openai_compatible_base_url")
    name = "OPENAI_COMPATIBLE_API_KEY"
    own = f"{source.role.upper()}_{name}"
    fields = {
        "model": source.chosen(),
        "base_url": url or Node("https://api.openai.com/v1", source.mark),
        "api_key_env": Node(own if source.has_variable(own) else name, source.mark),
        "token_limit_field": Node("max_tokens", source.mark),
        "temperature": number(source.own("openai_compatible_temperature"), source.mark, None),
        "max_output_tokens": number(source.own("openai_compatible_max_tokens"), source.mark, 8000),
        "timeout": number(source.own("openai_compatible_timeout_seconds"), source.mark, 300),
    }
    text = "OPENAI_COMPATIBLE_BASE_URL is not set, so https://api.openai.com/v1 is called"
    warnings = () if url else (source.remark(text),)
    return RoleTranslation(source.served(fields, "compatible"), (), warnings)


def _qwen(source: RoleSource) -> RoleTranslation:
    wish = source.own("qwen_chat_thinking_mode") or source.own("qwen_chat_enable_thinking")
    newer = source.own("qwen_chat_use_max_completion_tokens")
    field = "max_completion_tokens" if newer and _is_yes(newer) else "max_tokens"
    fields = {
        "model": source.chosen_or("Qwen/Qwen3.5-4B"),
        "base_url": source.own("qwen_chat_base_url")
        or Node("http://localhost:8000/v1", source.mark),
        "token_limit_field": Node(field, source.mark),
        "temperature": number(source.own("qwen_chat_temperature"), source.mark, 0.7),
        "max_output_tokens": number(source.own("qwen_chat_max_tokens"), source.mark, 8000),
        "timeout": number(source.own("qwen_chat_timeout_seconds"), source.mark, 300),
    }
    names = (f"{source.role.upper()}_QWEN_CHAT_API_KEY", "QWEN_CHAT_API_KEY")
    # A server of one's own needs no key; only where there is one it is named.
    name = next((name for name in names if source.has_variable(name)), None)
    if name is not None:
        fields["api_key_env"] = Node(name, source.mark)
    if wish and (wish.value in {"disabled", "enabled"} or _is_yes(wish)):
        fields["thinking"] = Node(wish.value != "disabled", wish.mark)
    return RoleTranslation(source.served(fields, "vllm"))


def _minimax(source: RoleSource) -> RoleTranslation:
    fields = {
        "model": source.get("minimax_model") or source.chosen_or("MiniMax-M3"),
        "api_key_env": Node("MINIMAX_API_KEY", source.mark),
        "temperature": number(source.get("minimax_temperature"), source.mark, 0.7),
        "max_output_tokens": number(source.get("minimax_max_tokens"), source.mark, 8000),
        "timeout": number(source.get("minimax_timeout_seconds"), source.mark, 300),
    }
    region, url = source.get("minimax_region"), source.get("minimax_base_url")
    if url is not None:
        fields["base_url"] = url
    elif region is not None:
        fields["region"] = replace(region, value=_REGIONS.get(str(region.value), region.value))
    wish = source.get("minimax_enable_thinking")
    if wish is not None:
        fields["thinking"] = Node(_is_yes(wish), wish.mark)
    return RoleTranslation(source.served(fields, "minimax"))


_REGIONS = MappingProxyType({"cn_zh": "cn", "global_en": "intl"})


def _is_yes(node: Node) -> bool:
    return str(node.value).lower() in ("true", "1", "yes")


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
