"""Small SVG charts: bars and lines, readable on light and dark pages. The same figures give the same bytes."""

import math
from collections.abc import Iterable, Sequence
from xml.sax.saxutils import escape

import attrs

# A chart has its own background, because the colours of a page may differ from those that the system prefers.
STYLE = """
  svg { --paper: #ffffff; --ink: #1f2328; --soft: #59636e; --grid: #d8dee4; --one: #0a63c9; --two: #c2410c; --three: #15803d; }
  @media (prefers-color-scheme: dark) {
    svg { --paper: #0d1117; --ink: #e6edf3; --soft: #9aa4b0; --grid: #30363d; --one: #58a6ff; --two: #fb923c; --three: #4ade80; }
  }
  text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; fill: var(--ink); }
  .paper { fill: var(--paper); } .title { font-weight: 600; font-size: 14px; } .soft { fill: var(--soft); }
  .grid { stroke: var(--grid); } .axis { stroke: var(--soft); } .end { text-anchor: end; } .middle { text-anchor: middle; }
  .value { paint-order: stroke; stroke: var(--paper); stroke-width: 4px; }
  .line { fill: none; stroke-width: 2.5; } .dashed { stroke-dasharray: 6 4; }
  .one { fill: var(--one); } .two { fill: var(--two); } .three { fill: var(--three); }
  .line.one { stroke: var(--one); fill: none; } .line.two { stroke: var(--two); fill: none; }
  .line.three { stroke: var(--three); fill: none; }
""".strip("\n")
STEPS = (1.0, 2.0, 5.0, 10.0)
LEFT, RIGHT, TOP, BOTTOM = 58, 28, 58, 52  # around the plot of a panel of lines
BAR, GAP = 26, 14
FEW_TICKS = 6


@attrs.frozen(kw_only=True)
class ChartSeries:
    """A line or a bar: its name, its colour (`one`, `two` or `three`) and its points; a bar has one of them."""

    name: str
    colour: str
    points: tuple[tuple[float, float], ...]
    dashed: bool = False


@attrs.frozen(kw_only=True)
class Box:
    """Where a panel is drawn."""

    x: float
    y: float
    width: float
    height: float


@attrs.frozen(kw_only=True)
class Axis:
    """An axis with its title and its ticks, from the first to the last of them."""

    title: str
    ticks: tuple[float, ...]
    logarithmic: bool = False

    def share(self, value: float) -> float:
        """Return where a value lies between the first tick (0) and the last (1)."""
        low, high = self.ticks[0], self.ticks[-1]
        if self.logarithmic:
            return math.log(max(value, low) / low) / math.log(high / low)
        return (value - low) / (high - low)


def linear(title: str, values: Iterable[float]) -> Axis:
    """Return an axis from 0 to above the largest value, with few ticks."""
    largest = max(values, default=0.0) or 1.0
    power = 10.0 ** math.floor(math.log10(largest / 4))
    step = next(one * power for one in STEPS if largest / (one * power) <= FEW_TICKS - 1)
    return Axis(title=title, ticks=tuple(step * number for number in range(math.ceil(largest / step) + 1)))


def logarithmic(title: str, values: Iterable[float]) -> Axis:
    """Return a logarithmic axis around positive values, whose ticks are 1, 2 and 5 times powers of ten."""
    some = list(values)
    low, high = math.floor(math.log10(min(some))), math.ceil(math.log10(max(some)))
    ticks = [one * 10.0**power for power in range(low, high + 1) for one in STEPS[:3]]
    first = max(number for number, tick in enumerate(ticks) if tick <= min(some) * 1.0001)
    last = min(number for number, tick in enumerate(ticks) if tick >= max(some) * 0.9999)
    return Axis(
        title=title, ticks=tuple(ticks[min(first, len(ticks) - 2) : max(last, first + 1) + 1]), logarithmic=True
    )


def tick_text(value: float) -> str:
    """Return a value as text, without needless digits."""
    return f"{value:,.0f}" if value >= 1_000 else f"{value:.6g}"


def _text(x: float, y: float, text: str, classes: str = "") -> str:
    return f'<text x="{_at(x)}" y="{_at(y)}"{_class(classes)}>{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, classes: str) -> str:
    return f'<line x1="{_at(x1)}" y1="{_at(y1)}" x2="{_at(x2)}" y2="{_at(y2)}"{_class(classes)}/>'


def _class(classes: str) -> str:
    return f' class="{classes}"' if classes else ""


def _at(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def bars(box: Box, title: str, unit: str, series: Sequence[ChartSeries], labels: Sequence[str]) -> list[str]:
    """Return a panel of horizontal bars, each with its value as a label, above an axis."""
    axis = linear(unit, [one.points[0][1] for one in series])
    left = box.x + 78
    width, bottom = box.width - 78 - 64, box.y + 44 + len(series) * (BAR + GAP)
    made = [_text(box.x, box.y + 18, title, "title")]
    for tick in axis.ticks:
        x = left + width * axis.share(tick)
        made += [_line(x, box.y + 34, x, bottom, "grid"), _text(x, bottom + 18, tick_text(tick), "soft middle")]
    made.append(_text(left + width / 2, bottom + 38, unit, "soft middle"))
    for number, (one, label) in enumerate(zip(series, labels, strict=True)):
        y = box.y + 42 + number * (BAR + GAP)
        length = max(1.5, width * axis.share(one.points[0][1]))
        made += [
            _text(left - 8, y + BAR / 2 + 5, one.name, "end"),
            f'<rect x="{_at(left)}" y="{_at(y)}" width="{_at(length)}" height="{BAR}" rx="2" class="{one.colour}"/>',
            _text(left + length + 7, y + BAR / 2 + 5, label, "value"),
        ]
    return [*made, _line(left, box.y + 34, left, bottom, "axis")]


def lines(box: Box, title: str, x_axis: Axis, y_axis: Axis, series: Sequence[ChartSeries]) -> list[str]:
    """Return a panel of lines with both axes and a legend."""
    left, right = box.x + LEFT, box.x + box.width - RIGHT
    top, bottom = box.y + TOP, box.y + box.height - BOTTOM

    def place(point: tuple[float, float]) -> tuple[float, float]:
        return left + (right - left) * x_axis.share(point[0]), bottom - (bottom - top) * y_axis.share(point[1])

    made = [_text(box.x, box.y + 18, title, "title"), _text(box.x, box.y + 38, y_axis.title, "soft")]
    for tick in y_axis.ticks:
        _, y = place((x_axis.ticks[0], tick))
        made += [_line(left, y, right, y, "grid"), _text(left - 8, y + 4.5, tick_text(tick), "soft end")]
    for tick in x_axis.ticks:
        x, _ = place((tick, y_axis.ticks[0]))
        made += [_line(x, bottom, x, bottom + 5, "axis"), _text(x, bottom + 20, tick_text(tick), "soft middle")]
    made += [
        _line(left, bottom, right, bottom, "axis"),
        _text((left + right) / 2, bottom + 42, x_axis.title, "soft middle"),
    ]
    for one in series:
        made += _one_line(one, [place(point) for point in one.points])
    return [*made, *_legend(right, box.y + 38, series)]


def _one_line(one: ChartSeries, places: list[tuple[float, float]]) -> list[str]:
    path = " ".join(f"{_at(x)},{_at(y)}" for x, y in places)
    dashed = " dashed" if one.dashed else ""
    return [f'<polyline points="{path}" class="line {one.colour}{dashed}"/>', *(_marker(one, x, y) for x, y in places)]


def _marker(one: ChartSeries, x: float, y: float) -> str:
    """Return a circle for the first colour and a square for others, so that colour alone never tells."""
    if one.colour == "one":
        return f'<circle cx="{_at(x)}" cy="{_at(y)}" r="4.5" class="{one.colour}"/>'
    return f'<rect x="{_at(x - 4)}" y="{_at(y - 4)}" width="8" height="8" class="{one.colour}"/>'


def _legend(right: float, y: float, series: Sequence[ChartSeries]) -> list[str]:
    made: list[str] = []
    x = right
    for one in reversed(series):
        x -= 8.0 * len(one.name) + 44
        dashed = " dashed" if one.dashed else ""
        made += [
            f'<polyline points="{_at(x)},{_at(y - 4)} {_at(x + 28)},{_at(y - 4)}" class="line {one.colour}{dashed}"/>',
            _marker(one, x + 14, y - 4),
            _text(x + 35, y, one.name),
        ]
    return made


def document(width: int, height: int, alt: str, parts: Iterable[str]) -> str:
    """Return the whole image."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">',
            f"<title>{escape(alt)}</title>",
            f"<style>\n{STYLE}\n</style>",
            f'<rect width="{width}" height="{height}" rx="6" class="paper"/>',
            *parts,
            "</svg>",
            "",
        ]
    )
