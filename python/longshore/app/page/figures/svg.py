"""Builds SVG elements as text; every attribute and text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from markupsafe import Markup, escape

from longshore.model.text_format import escape_controls


def clean(text: str) -> str:
    """Return a text without characters that HTML forbids: controls and lone surrogates are shown as escapes."""
    return escape_controls(text, keep="\n\t").encode("utf-8", "backslashreplace").decode()


def element(tag: str, attributes: Mapping[str, object], *children: Markup | str) -> Markup:
    """Return an element; a child that is no `Markup` is text."""
    pairs = "".join(f' {name}="{_attribute(value)}"' for name, value in attributes.items() if value is not None)
    if not children:
        return Markup(f"<{tag}{pairs}/>")  # noqa: S704 - the names are ours, the values escaped
    inside = "".join(child if isinstance(child, Markup) else escape(clean(child)) for child in children)
    return Markup(f"<{tag}{pairs}>{inside}</{tag}>")  # noqa: S704 - the same


def join(parts: Iterable[Markup]) -> Markup:
    """Return elements one after another."""
    return Markup("").join(parts)


def figure(name: str, title: str, size: tuple[float, float], *children: Markup, stretch: bool = False) -> Markup:
    """Return a whole figure with a title for screen readers.

    `name` is unique in its page. With `stretch`, the figure fills its place, whose proportions it takes.
    """
    width, height = size
    attributes: dict[str, object] = {
        "viewBox": f"0 0 {number(width)} {number(height)}",
        "role": "img",
        "aria-labelledby": f"{name}-title",
    }
    if stretch:
        attributes["preserveAspectRatio"] = "none"
    else:
        attributes |= {"width": number(width), "height": number(height)}
    return element("svg", attributes, element("title", {"id": f"{name}-title"}, title), *children)


def number(value: float) -> str:
    """Return a coordinate with at most one decimal."""
    return f"{value:.1f}".removesuffix(".0")


def _attribute(value: object) -> str:
    if isinstance(value, float):
        return number(value)
    return str(escape(clean(value) if isinstance(value, str) else value))
