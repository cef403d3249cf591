"""The charts of docs/bench.md, made from results of benchmarks."""

from collections.abc import Callable, Mapping

import attrs

from tools.bench import svg
from tools.bench.figures import number
from tools.bench.rates import OFFERED
from tools.bench.sockets import COUNTS
from tools.bench.svg import Box, ChartSeries

Medians = Mapping[str, Mapping[str, float]]  # benchmark -> figure -> median
Points = tuple[tuple[float, float], ...]
WIDTH = 760
MARGIN = 16
# The systems: name, colour, and how their figures begin.
SESI, WS, SOCKETIO = ("Sesi", "one", ""), ("ws", "two", "ws: "), ("socket.io", "three", "socket.io: ")


@attrs.frozen(kw_only=True)
class Chart:
    """An image, and its text for readers who don't see it."""

    name: str
    caption: str
    alt: str
    image: str


def charts(medians: Medians) -> list[Chart]:
    """Return the charts for which there are results."""
    made = (make(medians) for needed, make in CHARTS if needed in medians)
    return [chart for chart in made if chart is not None]


def _peers(medians: Medians) -> Chart | None:
    """Throughput and processor time at full speed, of the service and its peers."""
    found = medians["chat-a"]
    panels = (
        ("Messages stored a second", "messages a second", "stored/s"),
        ("CPU for 1,000 messages", "CPU seconds", "CPU s per 1,000"),
    )
    parts: list[str] = []
    said: list[str] = []
    for column, (title, unit, figure) in enumerate(panels):
        some = [
            ChartSeries(name=name, colour=colour, points=((0, found[before + figure]),))
            for name, colour, before in (SESI, WS, SOCKETIO)
            if before + figure in found
        ]
        if len(some) < 2:
            return None
        labels = [number(one.points[0][1]) for one in some]
        said.append(f"{title}: " + ", ".join(f"{one.name} {label}" for one, label in zip(some, labels, strict=True)))
        parts += svg.bars(
            Box(x=MARGIN + column * WIDTH / 2, y=10, width=WIDTH / 2 - 2 * MARGIN, height=0), title, unit, some, labels
        )
    caption = "At full speed, one direction, 200 pairs with 8 messages in flight: more messages, and less processor time for each."
    return _chart("peers", 232, caption, said, parts)


def _curve(medians: Medians, figure: str) -> list[ChartSeries]:
    found = medians["curve"]
    made: list[ChartSeries] = []
    for name, colour, before in (SESI, WS):
        points = tuple(
            (float(rate), found[key]) for rate in OFFERED if (key := f"{before}{figure} at {rate:,}/s") in found
        )
        if points:
            made.append(ChartSeries(name=name, colour=colour, points=points))
    return made


def _latency(medians: Medians) -> Chart:
    """Latency against offered load."""
    some = [
        attrs.evolve(one, name=f"{one.name} {share}", dashed=share == "p50")
        for share in ("p99", "p50")
        for one in _curve(medians, f"delivered {share} ms")
    ]
    y_axis = svg.logarithmic("milliseconds from sending to delivery", _values(some))
    caption = (
        "Latency of delivery against offered load: half of the messages are faster than p50, 99 of 100 are faster than p99. A line "
        "ends before the first load that its system did not keep up with. Both axes are logarithmic."
    )
    return _offered("latency", "Latency", caption, y_axis, some)


def _cost(medians: Medians) -> Chart:
    """Processor time of a message against offered load."""
    some = _curve(medians, "CPU s per 1,000")
    y_axis = svg.logarithmic("CPU seconds for 1,000 messages", _values(some))
    caption = (
        "Processor time for 1,000 messages (process with the sockets, PostgreSQL and Redis) against offered load: the busier the "
        "hour, the more messages share a transaction. Both axes are logarithmic."
    )
    return _offered("cost", "CPU for each message", caption, y_axis, some)


def _offered(name: str, title: str, caption: str, y_axis: svg.Axis, some: list[ChartSeries]) -> Chart:
    x_axis = svg.Axis(title="offered load, messages a second", ticks=tuple(map(float, OFFERED)), logarithmic=True)
    said = [f"{title}, {y_axis.title}, by messages a second", *(f"{one.name}: {_said(one.points)}" for one in some)]
    parts = svg.lines(Box(x=MARGIN, y=10, width=WIDTH - 2 * MARGIN, height=340), title, x_axis, y_axis, some)
    return _chart(name, 360, caption, said, parts)


def _sockets(medians: Medians) -> Chart:
    """Memory and processor time against open sockets."""
    found = medians["idle"]
    parts: list[str] = []
    said: list[str] = []
    x_axis = svg.Axis(title="open sockets", ticks=(0.0, *map(float, COUNTS[1:])))
    panels: tuple[tuple[str, str, str, Callable[[int, float], float]], ...] = (
        ("Memory", "MiB", "KiB a socket", lambda count, kib: kib * count / 1024),
        ("CPU while all are idle", "CPU milliseconds a second", "hub CPU ms/s", lambda _, value: value),
    )
    for column, (title, unit, figure, scaled) in enumerate(panels):
        some = [
            ChartSeries(
                name=name,
                colour=colour,
                points=tuple(
                    (float(count), scaled(count, found[key]))
                    for count in COUNTS
                    if (key := f"{before}{figure}, {count:,} sockets") in found
                ),
            )
            for name, colour, before in (SESI, WS)
            if any(key.startswith(before + figure) for key in found)
        ]
        said += [f"{title}, {unit}, by open sockets", *(f"{one.name}: {_said(one.points)}" for one in some)]
        box = Box(x=MARGIN + column * WIDTH / 2, y=10, width=WIDTH / 2 - 2 * MARGIN, height=300)
        parts += svg.lines(box, title, x_axis, svg.linear(unit, _values(some)), some)
    return _chart("sockets", 320, "What open sockets cost that neither send nor receive.", said, parts)


CHARTS: tuple[tuple[str, Callable[[Medians], Chart | None]], ...] = (
    ("chat-a", _peers),
    ("curve", _latency),
    ("curve", _cost),
    ("idle", _sockets),
)


def _values(some: list[ChartSeries]) -> list[float]:
    return [max(value, 0.001) for one in some for _, value in one.points]


def _said(points: Points) -> str:
    return ", ".join(f"{number(value)} at {place:,.0f}" for place, value in points)


def _chart(name: str, height: int, caption: str, said: list[str], parts: list[str]) -> Chart:
    alt = "; ".join(said) + "."
    return Chart(name=name, caption=caption, alt=alt, image=svg.document(WIDTH, height, alt, parts))
