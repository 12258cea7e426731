"""Elements of SVG. All text is escaped, and characters that XML does not allow are shown as escapes of Python."""

from __future__ import annotations

from html import escape

from hoodie.common.util.shown_table import shortened, text_width, visible

_LONGEST_HOVER = 300
_CHARACTER_WIDTH = 6.6
"""The width of a character of 12 pixels, as wide fonts have it."""


class Markup(str):
    """Text that is markup already, and so is not escaped again."""

    __slots__ = ()


def element(name: str, *children: str, **attributes: object) -> Markup:
    """An element.

    Args:
        name: Its name.
        children: Markup, or text, which is escaped.
        attributes: Its attributes; ``class_`` is ``class``, and other ``_`` stand for ``-``. None leaves one out.
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    inner = "".join(child if isinstance(child, Markup) else escaped(child) for child in children)
    return Markup(f"<{name}{written}>{inner}</{name}>" if inner else f"<{name}{written}/>")


def escaped(text: str) -> Markup:
    """Text as markup.

    Args:
        text: Any text.
    """
    return Markup(escape(visible(text)))


def group(*children: str, **attributes: object) -> Markup:
    """A group of elements; see `element`."""
    return element("g", *children, **attributes)


def label(
    x: float, y: float, text: str, *, anchor: str = "start", class_: str = "t", room: float | None = None
) -> Markup:
    """Text in the picture.

    Args:
        x: The place at which it is anchored.
        y: Its base line.
        text: The text.
        anchor: ``start``, ``middle`` or ``end``.
        class_: Its class: ``t`` plain, ``s`` in the background, ``h`` a title.
        room: The pixels that it may take; longer text loses its middle, and is whole where the pointer hovers.
    """
    shown, whole = visible(text), ""
    if room is not None:
        cut = shortened(shown, max(3, int(room / _CHARACTER_WIDTH)))
        shown, whole = cut, shown if cut != shown else ""
    return element(
        "text", *([hover(whole)] if whole else []), shown, x=x, y=y, text_anchor=anchor if anchor != "start" else None,
        class_=class_,
    )  # fmt: skip


def width_of(text: str) -> float:
    """The pixels that a label takes at most.

    Args:
        text: Its text.
    """
    return text_width(visible(text)) * _CHARACTER_WIDTH


def hover(text: str) -> Markup:
    """The text that is shown where the pointer hovers over the element that holds it.

    Args:
        text: The text; a long one loses its middle.
    """
    lines = (escaped(shortened(visible(part), _LONGEST_HOVER)) for part in text.split("\n"))
    return element("title", Markup("\n".join(lines)))


def rectangle(x: float, y: float, width: float, height: float, class_: str, text: str = "", **more: object) -> Markup:
    """A rectangle.

    Args:
        x: Its left side.
        y: Its upper side.
        width: Its width.
        height: Its height.
        class_: Its class, which colours it.
        text: The text that is shown where the pointer hovers.
        more: Further attributes.
    """
    inner = [hover(text)] if text else []
    return element("rect", *inner, x=x, y=y, width=width, height=height, class_=class_, **more)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    """A straight line.

    Args:
        x1: The place of its beginning.
        y1: The same, downwards.
        x2: The place of its end.
        y2: The same, downwards.
        class_: Its class.
    """
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def path(points: list[tuple[float, float]], class_: str, text: str = "") -> Markup:
    """A line through points.

    Args:
        points: Places.
        class_: Its class.
        text: The text that is shown where the pointer hovers.
    """
    drawn = "M" + "L".join(f"{_value(x)} {_value(y)}" for x, y in points)
    return element("path", *([hover(text)] if text else []), d=drawn, class_=class_)


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.1f}".removesuffix(".0")
    return escape(visible(str(value)))
