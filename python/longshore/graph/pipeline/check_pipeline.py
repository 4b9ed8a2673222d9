"""Checks a pipeline as far as it needs no table, and collects all independent errors."""

from __future__ import annotations

from collections.abc import Collection

from longshore.config.merge import Node
from longshore.config.templates import column_names
from longshore.graph.declaration.description import DatasetEntry, PipelineDeclaration, read_intact_parts
from longshore.graph.dimensions.dimensions import check_listed_values
from longshore.graph.pipeline.path_templates import (
    ExpandTemplate,
    PathTemplate,
    check_commands,
    check_near_names,
    dimension_of,
    path_template,
)
from longshore.graph.pipeline.placeholders import CommandContext
from longshore.model.error_collector import ErrorCollector


def check_pipeline(node: Node, expand: ExpandTemplate, context: CommandContext | None = None) -> None:
    """Check all of a pipeline that needs no table.

    `expand` parses templates of paths; `context` has the configuration's commands.

    Raises `ConfigError` or `CycleError` with all independent errors, in order of their lines.
    """
    errors = ErrorCollector()
    description = read_intact_parts(node, errors)
    check_listed_values(description, errors)
    read_templates(description, description.dimensions, expand, context or CommandContext(), errors)
    if errors:
        # Else the commands are rendered, with all that the configuration defines for a label.
        check_near_names(description, expand, errors)
    errors.raise_errors()


def read_templates(
    description: PipelineDeclaration,
    dimensions: Collection[str],
    expand: ExpandTemplate,
    context: CommandContext,
    errors: ErrorCollector,
) -> dict[str, PathTemplate]:
    """Parse the paths of datasets, and check the names in commands; errors are collected."""
    templates: dict[str, PathTemplate] = {}
    for entry in description.datasets.values():
        if entry.is_valid:
            with errors.collect():
                template = expand(entry.path, _path_names(entry, dimensions))
                templates[entry.name] = path_template(entry.name, template, dimensions)
    uses = {name: template.dimensions for name, template in templates.items()}
    check_commands(description, uses, context, errors)
    return templates


def _path_names(entry: DatasetEntry, dimensions: Collection[str]) -> frozenset[str]:
    """Names that stay fields in the path of a dataset: dimensions, and columns of their tables."""
    columns = (name for name in column_names(str(entry.path.value)) if dimension_of(name) in dimensions)
    return frozenset((*dimensions, *columns))
