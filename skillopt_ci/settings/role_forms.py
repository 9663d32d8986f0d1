"""`model: {target: provider/model}`: the short form of a model role, before layers are merged."""

from dataclasses import replace

from skillopt_ci.settings.model import Models, short_form
from skillopt_ci.settings.node import Node


def with_long_roles(layer: Node) -> Node:
    """``layer`` with every role that is written in short as the mapping that it stands for.

    Text of another form stays, to be complained of where everything is validated.
    """
    model = layer.entries.get("model")
    if model is None or not model.entries:
        return layer
    roles = {name: _long(node) for name, node in model.entries.items() if name in _ROLES}
    if not roles:
        return layer
    section = replace(model, value={**model.entries, **roles})
    return replace(layer, value={**layer.entries, "model": section})


def _long(node: Node) -> Node:
    found = short_form(node.value) if isinstance(node.value, str) else None
    if found is None:
        return node
    return replace(node, value={key: Node(text, node.mark) for key, text in found.items()})


_ROLES = tuple(Models.model_fields)
