# SPDX-License-Identifier: GPL-2.0-or-later
"""Sphinx directives for the page on scenarios: keys and files as the code has them."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from docutils import nodes
from nvmptcp_conformance.perf import machines, scenario
from nvmptcp_model import schema as model_schema
from sphinx.util.docutils import SphinxDirective

if TYPE_CHECKING:
    from sphinx.application import Sphinx


class ScenarioKeys(SphinxDirective):
    """`scenario-keys`: what the tables of a scenario file may hold."""

    models: tuple[type[scenario.Section], ...] = (
        scenario.Head, scenario.Association, scenario.Devices, scenario.Fio, scenario.Event)

    def run(self) -> list[nodes.Node]:
        for module in (machines, scenario, model_schema):
            self.env.note_dependency(str(module.__file__))
        return self.parse_text_to_nodes(
            "\n\n".join("\n".join(_keys(model)) for model in self.models))


class ModelKeys(ScenarioKeys):
    """`model-keys`: what they may hold besides for the model."""

    models = (model_schema.Device, model_schema.Fabric)


class InventoryKeys(ScenarioKeys):
    """`inventory-keys`: what an inventory of real machines may hold."""

    models = (machines.Target, machines.Host)


def _keys(model: type[scenario.Section]) -> Iterator[str]:
    """A model's documentation and fields, in Markdown."""
    yield from ((model.__doc__ or "").replace("\n    ", "\n"), "",
                "| key | values | default | meaning |", "|---|---|---|---|")
    for name, schema in model.model_json_schema()["properties"].items():
        default = schema.get("default")
        shown = "" if default in (None, "") else f"`{json.dumps(default)}`"
        if name in model.model_json_schema().get("required", ()):
            shown = "required"
        yield f"| `{name}` | {_values(schema)} | {shown} | {schema['description']} |"


def _values(schema: dict[str, Any]) -> str:
    """What a key may be, from its JSON schema."""
    if "anyOf" in schema:  # or null: left out
        return _values(schema["anyOf"][0])
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    above = "above " if "exclusiveMinimum" in schema else ""
    span = ""
    if schema["type"] in ("integer", "number") and low is not None:
        span = f", {above}{low:g}" + (f" to {schema['maximum']:g}" if "maximum" in schema else
                                      "" if above else " or more")
    return f"{schema['type']}{span}"


class ScenarioList(SphinxDirective):
    """`scenario-list`: the scenarios that the package brings."""

    directory = scenario.SCENARIOS

    def run(self) -> list[nodes.Node]:
        lines = ["| name | title | what it answers | cells | seeds |", "|---|---|---|---|---|"]
        self.env.note_dependency(str(scenario.CASES))
        for name in scenario.names(self.directory):
            self.env.note_dependency(str(self.directory / f"{name}.toml"))
            found = model_schema.find(name)
            lines.append(f"| `{name}` | {found.head.title} | {found.head.answers} |"
                         f" {len(found.cells)} | {found.head.seeds} |")
        return self.parse_text_to_nodes("\n".join(lines))


class ModelList(ScenarioList):
    """`model-list`: those of the model."""

    directory = model_schema.SCENARIOS


def setup(app: "Sphinx") -> dict[str, Any]:
    app.add_directive("scenario-keys", ScenarioKeys)
    app.add_directive("scenario-list", ScenarioList)
    app.add_directive("model-keys", ModelKeys)
    app.add_directive("inventory-keys", InventoryKeys)
    app.add_directive("model-list", ModelList)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
