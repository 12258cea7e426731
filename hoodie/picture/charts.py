"""Charts of one panel each: bars, ranges, lanes, lines and a map, all of `WIDTH` pixels.

A chart draws from 0 downwards and tells its height; `figure` puts charts below each other, with title and legend.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import attrs

from hoodie.common.util.shown_table import format_bytes
from hoodie.picture.svg import Markup, element, group, hover, label, line, path, rectangle, width_of

WIDTH = 900
_LEFT, _RIGHT = 74, 24
_PLOT_HEIGHT = 170
_NAME_WIDTH = 190
_ROW_HEIGHT = 18
_EMPTY_HEIGHT = 40
_MOST_LABELS = 8
_LABEL_ROOM = 96.0
_TIME_STEPS = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 1209600,
    2592000, 7776000, 31536000,
)  # fmt: skip
"""Seconds between two ticks of a time axis."""
_DAY = 86400

STYLE = """\
.hp{font:12px system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
.hp .bg{fill:#fff}.hp .t{fill:#22272e}.hp .s{fill:#5a6572}.hp .h{fill:#22272e;font-size:15px;font-weight:600}
.hp .p{fill:#22272e;font-weight:600}
.hp .grid{stroke:#e3e7ec}.hp .axis{stroke:#8a94a0}.hp .mark{stroke:#b23a48;stroke-width:1.5;stroke-dasharray:5 3}
.hp .a{fill:#1f6f8b}.hp .b{fill:#d98c21}.hp .c{fill:#b23a48}.hp .d{fill:#8a94a0}.hp .e{fill:#4d8a50}.hp .f{fill:#7a5ea8}
.hp .la,.hp .lb,.hp .lc,.hp .le,.hp .lf{fill:none;stroke-width:2;stroke-linejoin:round}
.hp .la{stroke:#1f6f8b}.hp .lb{stroke:#d98c21}.hp .lc{stroke:#b23a48}.hp .le{stroke:#4d8a50}.hp .lf{stroke:#7a5ea8}
@media (prefers-color-scheme:dark){
.hp .bg{fill:#15181c}.hp .t,.hp .h,.hp .p{fill:#e4e8ed}.hp .s{fill:#9aa5b1}
.hp .grid{stroke:#2b3138}.hp .axis{stroke:#6b7682}.hp .mark{stroke:#ea7482}
.hp .a{fill:#4fa9c6}.hp .b{fill:#e9b050}.hp .c{fill:#ea7482}.hp .d{fill:#7c8793}.hp .e{fill:#84bd86}.hp .f{fill:#b49be3}
.hp .la{stroke:#4fa9c6}.hp .lb{stroke:#e9b050}.hp .lc{stroke:#ea7482}.hp .le{stroke:#84bd86}.hp .lf{stroke:#b49be3}
}"""
"""The classes of all pictures: ``a`` to ``f`` are colours of areas, ``la`` to ``lf`` those of lines."""

Unit = Callable[[float], str]
"""Writes a number of an axis."""


@attrs.frozen
class Chart:
    """A drawn panel.

    Attributes:
        markup: Its elements.
        height: The pixels that it takes.
    """

    markup: Markup
    height: float


@attrs.frozen
class Bar:
    """A bar of one or several parts.

    Attributes:
        name: The label at its axis.
        parts: Class and value of each part; a value below 0 is drawn downwards.
        hover: The text that is shown where the pointer hovers.
        note: Text at its end, of horizontal bars.
    """

    name: str
    parts: Sequence[tuple[str, float]]
    hover: str = ""
    note: str = ""

    @property
    def above(self) -> float:
        """The sum of its parts above 0."""
        return sum(value for _, value in self.parts if value > 0)

    @property
    def below(self) -> float:
        """The sum of its parts below 0."""
        return sum(value for _, value in self.parts if value < 0)


@attrs.frozen
class Span:
    """A bar of a lane.

    Attributes:
        lane: The lane's name.
        start: The moment of its beginning.
        end: The moment of its end; None for one that is open.
        class_: Its colour.
        hover: The text that is shown where the pointer hovers.
        is_flag: Whether it is a moment, drawn as a flag.
    """

    lane: str
    start: datetime
    end: datetime | None
    class_: str
    hover: str
    is_flag: bool = False


def count_unit(value: float) -> str:
    """A number of things: ``1,500``, ``20 m``, ``8 bn``.

    Args:
        value: The number.
    """
    for factor, unit in ((1e12, " tn"), (1e9, " bn"), (1e6, " m")):
        if abs(value) >= factor:
            return f"{value / factor:,.4g}{unit}"
    return f"{value:,.4g}" if abs(value) < 1 else f"{value:,.10g}"


def bytes_unit(value: float) -> str:
    """A size: ``12 MiB``.

    Args:
        value: Bytes.
    """
    return format_bytes(round(value)).replace(".0 ", " ")


def seconds_unit(value: float) -> str:
    """A duration: ``1.5 s``, ``3 min``.

    Args:
        value: Seconds.
    """
    for factor, unit in ((_DAY, "d"), (3600, "h"), (60, "min")):
        if value >= factor:
            return f"{value / factor:.3g} {unit}"
    return f"{value * 1000:.3g} ms" if 0 < value < 1 else f"{value:.3g} s"


def figure(
    name: str,
    title: str,
    summary: str,
    charts: Sequence[Chart],
    legend: Sequence[tuple[str, str]] = (),
    *,
    is_part: bool = False,
) -> Markup:
    """Charts below each other, as an SVG document.

    Args:
        name: The picture's name, of letters.
        title: The title.
        summary: One sentence, which screen readers read.
        charts: The charts.
        legend: Class and meaning of each colour.
        is_part: Whether it is part of a page, which has `STYLE` once, and title and summary as its own text.
    """
    above = 0 if is_part else 38
    y = above + (32.0 if legend else 12.0)
    parts = []
    for chart in charts:
        parts.append(group(chart.markup, transform=f"translate(0 {y:.0f})"))
        y += chart.height
    x, keys = 16.0, []
    for class_, meaning in legend:
        keys += [rectangle(x, above + 16, 10, 10, class_), label(x + 15, above + 25, meaning, class_="s")]
        x += 15 + width_of(meaning) + 18
    height = round(y + 8)
    return element(
        "svg",
        element("title", title, id=f"hp-{name}-title"),
        element("desc", summary, id=f"hp-{name}-desc"),
        *([] if is_part else [element("style", Markup(STYLE))]),
        rectangle(0, 0, WIDTH, height, "bg"),
        *([] if is_part else [label(16, 24, title, class_="h"), label(16, 43, summary, class_="s", room=WIDTH - 32)]),
        *keys,
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        class_="hp",
        viewBox=f"0 0 {WIDTH} {height}",
        width=WIDTH,
        height=height,
        role="graphics-document",
        aria_labelledby=f"hp-{name}-title hp-{name}-desc",
    )  # fmt: skip


def nothing(text: str) -> Chart:
    """A chart without numbers.

    Args:
        text: Why there are none.
    """
    return Chart(label(16, 24, text, class_="s"), _EMPTY_HEIGHT)


def columns(
    title: str,
    unit: Unit,
    bars: Sequence[Bar],
    marks: Sequence[tuple[float, str]] = (),
    *,
    is_bytes: bool = False,
    height: float = _PLOT_HEIGHT,
) -> Chart:
    """Vertical bars beside each other.

    Args:
        title: The measure of the axis.
        unit: Writes its numbers.
        bars: At least one.
        marks: Vertical lines, from left to right: the place, in bars from the left side, and its text.
        is_bytes: Whether the numbers are bytes, so that ticks are multiples of powers of 1024.
        height: The height of the plot.
    """
    top = 28.0 + 14.0 * len(marks)
    high, low = max(bar.above for bar in bars), min(bar.below for bar in bars)
    ticks, scale = _vertical(low, high, top, height, is_bytes)
    slot = (WIDTH - _LEFT - _RIGHT) / len(bars)
    width = max(1.0, min(slot * 0.8, 46.0))
    drawn = [label(16, 16, title, class_="p"), *_horizontal_grid(ticks, scale, unit)]
    for number, bar in enumerate(bars):
        x = _LEFT + slot * (number + 0.5) - width / 2
        above, below, parts = 0.0, 0.0, []
        for class_, value in bar.parts:
            if not value:
                continue
            start = above if value > 0 else below
            y1, y2 = scale(start), scale(start + value)
            parts.append(rectangle(x, min(y1, y2), width, max(0.7, abs(y1 - y2)), class_))
            above, below = (above + value, below) if value > 0 else (above, below + value)
        drawn.append(group(hover(bar.hover or bar.name), *parts) if parts else Markup(""))
    drawn.append(line(_LEFT, scale(0), WIDTH - _RIGHT, scale(0), "axis"))
    bottom = top + height
    drawn += _names_below([bar.name for bar in bars], lambda number: _LEFT + slot * (number + 0.5), slot, bottom)
    for number, (place, text) in enumerate(marks):
        x = _LEFT + slot * place
        # The line of a mark begins below the texts of those on its right.
        y = 32.0 + 14.0 * (len(marks) - 1 - number)
        is_left = x + width_of(text) + 8 > WIDTH
        drawn += [
            line(x, y - 4, x, bottom, "mark"),
            label(x + (-5 if is_left else 5), y, text, anchor="end" if is_left else "start", class_="s"),
        ]
    return Chart(Markup("".join(drawn)), bottom + 30)


def curves(
    title: str,
    unit: Unit,
    names: Sequence[str],
    lines: Sequence[tuple[str, str, Sequence[float]]],
    *,
    is_bytes: bool = False,
    height: float = _PLOT_HEIGHT,
) -> Chart:
    """Lines over places of the same distance.

    Args:
        title: The measure of the axis.
        unit: Writes its numbers.
        names: The labels of the places; of a line with more points, those of places that it is divided into.
        lines: Class (``la``, ...), name and values of each.
        is_bytes: See `columns`.
        height: See `columns`.
    """
    top = 28.0
    ticks, scale = _vertical(0, max((max(values) for _, _, values in lines), default=0), top, height, is_bytes)
    slot = (WIDTH - _LEFT - _RIGHT) / len(names)
    drawn = [label(16, 16, title, class_="p"), *_horizontal_grid(ticks, scale, unit)]
    for class_, name, values in lines:
        step = (WIDTH - _LEFT - _RIGHT) / len(values)
        points = [(_LEFT + step * (number + 0.5), scale(value)) for number, value in enumerate(values)]
        # A line of one point shows as a short dash.
        points = points if len(points) > 1 else [(points[0][0] - 6, points[0][1]), (points[0][0] + 6, points[0][1])]
        drawn.append(path(points, class_, f"{name}: at last {unit(values[-1])}, at most {unit(max(values))}"))
    drawn.append(line(_LEFT, scale(0), WIDTH - _RIGHT, scale(0), "axis"))
    bottom = top + height
    drawn += _names_below(list(names), lambda number: _LEFT + slot * (number + 0.5), slot, bottom)
    return Chart(Markup("".join(drawn)), bottom + 30)


def rows(title: str, unit: Unit, bars: Sequence[Bar], *, is_bytes: bool = False, right: float = 190.0) -> Chart:
    """Horizontal bars below each other, with their names on the left and their notes at their ends.

    Args:
        title: The measure of the axis.
        unit: Writes its numbers.
        bars: At least one.
        is_bytes: See `columns`.
        right: The pixels for notes.
    """
    start, end, top = 16.0 + _NAME_WIDTH, WIDTH - right, 26.0
    high = max(bar.above for bar in bars)
    ticks = _ticks(high, 4, is_bytes)
    scale = _scale(0, max(ticks[-1], high), start, end)
    bottom = top + _ROW_HEIGHT * len(bars)
    drawn = [label(16, 16, title, class_="p")]
    for tick in ticks:
        drawn += [
            line(scale(tick), top, scale(tick), bottom, "grid"),
            label(scale(tick), bottom + 15, unit(tick), anchor="middle", class_="s"),
        ]
    for number, bar in enumerate(bars):
        y = top + _ROW_HEIGHT * number
        x, parts = start, []
        for class_, value in bar.parts:
            if value > 0:
                width = max(0.7, scale(value) - start)
                parts.append(rectangle(x, y + 3, width, _ROW_HEIGHT - 6, class_))
                x += width
        drawn.append(label(start - 8, y + 13, bar.name, anchor="end", room=_NAME_WIDTH - 8))
        drawn.append(group(hover(bar.hover or bar.name), *parts) if parts else Markup(""))
        if bar.note:
            drawn.append(label(x + 6, y + 13, bar.note, class_="s", room=max(60.0, WIDTH - x - 12)))
    drawn.append(line(start, top, start, bottom, "axis"))
    return Chart(Markup("".join(drawn)), bottom + 30)


def map_of(
    title: str, row_names: Sequence[str], column_names: Sequence[str], cells: Sequence[tuple[int, int, float, str]]
) -> Chart:
    """A map: rows by columns, the stronger the colour the larger the value, on a logarithmic scale.

    Args:
        title: The measure of the cells.
        row_names: The rows.
        column_names: The columns.
        cells: Row, column, value above 0 and hover text.
    """
    start, top = 16.0 + _NAME_WIDTH, 26.0
    slot = (WIDTH - start - _RIGHT) / len(column_names)
    bottom = top + _ROW_HEIGHT * len(row_names)
    smallest = min((value for _, _, value, _ in cells), default=1.0)
    largest = max((value for _, _, value, _ in cells), default=1.0)
    range_ = math.log(largest / smallest) if largest > smallest else 0.0
    drawn = [label(16, 16, title, class_="p")]
    for number, name in enumerate(row_names):
        y = top + _ROW_HEIGHT * number
        drawn.append(label(start - 8, y + 13, name, anchor="end", room=_NAME_WIDTH - 8))
        drawn.append(line(start, y + _ROW_HEIGHT, WIDTH - _RIGHT, y + _ROW_HEIGHT, "grid"))
    for row, column, value, text in cells:
        shade = 0.25 + 0.75 * (math.log(value / smallest) / range_ if range_ else 1.0)
        x, y = start + slot * column, top + _ROW_HEIGHT * row
        width = max(1.0, slot - 1)
        drawn.append(rectangle(x, y + 1, width, _ROW_HEIGHT - 2, "a", text, fill_opacity=f"{shade:.2f}"))
    drawn += _names_below(list(column_names), lambda number: start + slot * (number + 0.5), slot, bottom)
    return Chart(Markup("".join(drawn)), bottom + 30)


def lanes(title: str, spans: Sequence[Span], now: datetime) -> Chart:
    """Bars over time, one lane a name; bars of a lane that overlap stand below each other.

    Args:
        title: The title.
        spans: At least one.
        now: The moment at which open bars end.
    """
    first = min(span.start for span in spans)
    last = max(span.end or now for span in spans)
    last = max(last, first + timedelta(seconds=1))
    left, right = 16.0 + 110, WIDTH - _RIGHT - 8.0
    seconds = (last - first).total_seconds()

    def place(moment: datetime) -> float:
        return left + (right - left) * (moment - first).total_seconds() / seconds

    drawn: list[Markup] = [label(16, 16, title, class_="p")]
    y = 26.0
    bars = []
    for lane in dict.fromkeys(span.lane for span in spans):
        ends: list[datetime] = []
        begin = y
        for span in sorted((span for span in spans if span.lane == lane), key=lambda span: span.start):
            row = next((number for number, ended in enumerate(ends) if ended <= span.start), len(ends))
            row = min(row, 5)
            ends[row : row + 1] = [span.end or now]
            bars.append(_lane_bar(span, place, begin + 4 + 14 * row, right))
        y += 8 + 14 * max(1, len(ends))
        drawn.append(label(left - 10, (begin + y) / 2 + 4, lane, anchor="end", room=110))
        drawn.append(line(left, y, right, y, "grid"))
    for moment, text in _time_ticks(first, last):
        drawn += [
            line(place(moment), 26, place(moment), y, "grid"),
            label(place(moment), y + 16, text, anchor="middle", class_="s"),
        ]
    return Chart(Markup("".join([*drawn, *bars])), y + 30)


def _lane_bar(span: Span, place: Callable[[datetime], float], y: float, right: float) -> Markup:
    x = place(span.start)
    if span.is_flag:
        pole = [(x, y + 12), (x, y), (x + 9, y + 3), (x, y + 6)]
        return element(
            "path", hover(span.hover), d="M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in pole), class_=span.class_
        )
    if span.end is None:
        # Open: an arrow to the right edge.
        points = [
            (x, y),
            (max(x + 4, right - 6), y),
            (max(x + 10, right), y + 5),
            (max(x + 4, right - 6), y + 10),
            (x, y + 10),
        ]
        drawn = "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in points) + "Z"
        return element("path", hover(span.hover), d=drawn, class_=span.class_)
    width = max(3.0, place(span.end) - x)
    return rectangle(min(x, right - 3), y, width, 10, span.class_, span.hover, rx=1)


def ranges(title: str, spans: Sequence[tuple[float, float, str, str]]) -> Chart:
    """Ranges below each other, from 0 to 1.

    Args:
        title: The title.
        spans: Start, end, class and hover text of each.
    """
    top, step = 26.0, max(3.0, min(10.0, 240 / len(spans)))
    scale = _scale(0, 1, _LEFT, WIDTH - _RIGHT)
    bottom = top + step * len(spans)
    drawn = [label(16, 16, title, class_="p")]
    for number, (start, end, class_, text) in enumerate(spans):
        width = max(2.0, scale(end) - scale(start))
        drawn.append(rectangle(scale(start), top + step * number, width, step - 1, class_, text))
    drawn.append(line(_LEFT, bottom, WIDTH - _RIGHT, bottom, "axis"))
    drawn.append(label(_LEFT, bottom + 15, "smallest value", class_="s"))
    drawn.append(label(WIDTH - _RIGHT, bottom + 15, "largest value", anchor="end", class_="s"))
    return Chart(Markup("".join(drawn)), bottom + 30)


def time_names(moments: Sequence[datetime | None]) -> list[str]:
    """Short labels of moments, in UTC: without the date where all are of one day.

    Args:
        moments: The moments; None for one that is not known.
    """
    known = [moment for moment in moments if moment is not None]
    is_one_day = len({moment.date() for moment in known}) == 1
    form = "%H:%M:%S" if is_one_day else "%m-%d %H:%M"
    return ["?" if moment is None else moment.astimezone(UTC).strftime(form) for moment in moments]


def _scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    size = (high - low) or 1.0
    return lambda value: start + (end - start) * (value - low) / size


def _ticks(high: float, count: int, is_bytes: bool) -> list[float]:
    """Round numbers from 0 to at least the largest value."""
    if high <= 0:
        return [0.0, 1.0]
    base = 1024.0 ** max(0, math.floor(math.log(high, 1024))) if is_bytes else 1.0
    raw = high / base / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw * 0.999) * power
    # There is no half row, and no half byte.
    step = (max(step, 1.0) if high >= 1 else step) * base
    return [step * number for number in range(math.ceil(high / step - 1e-9) + 1)]


def _vertical(
    low: float, high: float, top: float, height: float, is_bytes: bool
) -> tuple[list[float], Callable[[float], float]]:
    ticks = _ticks(max(high, -low), 4, is_bytes)
    step = ticks[1]
    below = math.ceil(-low / step - 1e-9) if low < 0 else 0
    above = max(1, math.ceil(high / step - 1e-9))
    return [step * number for number in range(-below, above + 1)], _scale(
        -below * step, above * step, top + height, top
    )


def _horizontal_grid(ticks: Sequence[float], scale: Callable[[float], float], unit: Unit) -> list[Markup]:
    drawn = []
    for tick in ticks:
        drawn.append(line(_LEFT, scale(tick), WIDTH - _RIGHT, scale(tick), "grid"))
        drawn.append(label(_LEFT - 8, scale(tick) + 4, unit(abs(tick)), anchor="end", class_="s"))
    return drawn


def _names_below(names: Sequence[str], place: Callable[[int], float], slot: float, bottom: float) -> list[Markup]:
    room = max((width_of(name) for name in names), default=0) + 14
    step = max(1, math.ceil(min(room, _LABEL_ROOM) / slot), math.ceil(len(names) / (_MOST_LABELS * 3)))
    last = len(names) - 1
    return [
        label(
            _inside(place(number), names[number]),
            bottom + 16,
            names[number],
            anchor="middle",
            class_="s",
            room=_LABEL_ROOM,
        )
        for number in range(last % step, last + 1, step)
        if names[number]
    ]


def _inside(x: float, text: str) -> float:
    half = min(width_of(text), _LABEL_ROOM) / 2
    return min(max(x, half), WIDTH - half)


def _time_ticks(first: datetime, last: datetime) -> list[tuple[datetime, str]]:
    seconds = (last - first).total_seconds()
    step = next((step for step in _TIME_STEPS if seconds / step <= _MOST_LABELS - 1), _TIME_STEPS[-1])
    start = math.ceil(first.timestamp() / step) * step
    moments = [datetime.fromtimestamp(start + step * number, UTC) for number in range(int(seconds // step) + 1)]
    moments = [moment for moment in moments if moment <= last]
    if step >= _DAY:
        return [(moment, moment.strftime("%Y-%m-%d")) for moment in moments]
    is_one_day = first.astimezone(UTC).date() == last.astimezone(UTC).date()
    form = "%H:%M:%S" if step < 60 else "%H:%M"
    return [(moment, moment.strftime(form if is_one_day else f"%m-%d {form}")) for moment in moments]
