"""The report of `sesi bench abuse`: figures, goals, the table, and the section of docs/bench.md."""

from typing import Any

import attrs
from rich.table import Table

from tools.bench.abuse.payers import SeenByPayers
from tools.bench.figures import number, percentile

QUIET, ALL = "quiet", "all together"
ACK_TIMES, ACK_MS, WEBHOOK_MS, PROBE_MS = 3.0, 100.0, 500.0, 250.0
CONTROL = "neighbour"  # not an attack, so it has no goals


@attrs.define(kw_only=True)
class Phase:
    """One phase: what the paying users measured, and what the attackers did and wrote."""

    name: str
    seen: SeenByPayers
    rows: int = 0
    written: int = 0  # bytes of these rows
    attacker_cpu_s: float = 0.0
    seconds: float = 0.0
    devices: int = 0  # devices that refresh, behind one address
    attackers: dict[str, dict[str, Any]] = attrs.field(factory=dict)

    def refused_refreshes(self) -> int | None:
        """Return how many devices got no new token, or None if the phase has no refreshes."""
        done = self.attackers.get("refresh")
        return None if done is None else self.devices - done["answers"].get("200", 0)

    def figures(self) -> dict[str, float]:
        """Return the figures of the phase; latencies are in milliseconds."""
        seen = self.seen
        made = {
            "ack p50 ms": percentile(seen.acks, 0.5) * 1000,
            "ack p99 ms": percentile(seen.acks, 0.99) * 1000,
            "webhook p99 ms": percentile(seen.webhooks, 0.99) * 1000,
            "/healthz p99 ms": percentile(seen.probes, 0.99) * 1000,
            "hub /healthz p99 ms": percentile(seen.hub_probes, 0.99) * 1000,
            "own lag p99 ms": percentile(seen.lags, 0.99) * 1000,
            "failed": float(seen.failed),
            "attackers' CPU %": 100 * self.attacker_cpu_s / self.seconds if self.seconds else 0.0,
            "rows": float(self.rows),
            "KiB written": self.written / 1024,
        }
        refused = self.refused_refreshes()
        return made if refused is None else {**made, "refreshes refused": float(refused)}

    def missed(self, quiet: "Phase") -> list[str]:
        """Return the goals that this phase misses, one line of text each."""
        if self.name in (QUIET, CONTROL):
            return []
        found, ack = self.figures(), quiet.figures()["ack p99 ms"]
        limits = {
            "ack p99 ms": min(ACK_MS, ACK_TIMES * ack),
            "webhook p99 ms": WEBHOOK_MS,
            "/healthz p99 ms": PROBE_MS,
            "hub /healthz p99 ms": PROBE_MS,
            "failed": 0,
            "refreshes refused": 0,
        }
        return [
            f"{self.name}: {figure} {number(found[figure])}, must be at most {number(limit)}"
            for figure, limit in limits.items()
            if found.get(figure, 0) > limit
        ]

    def attempts(self) -> str:
        """Return what the attackers sent and which answers they got, as text."""
        parts = []
        for kind, done in self.attackers.items():
            answers = ", ".join(f"{count:,} got {code}" for code, count in sorted(done["answers"].items()))
            cut = f"{done['cut_off']:,} cut off" if done["cut_off"] else ""
            outcome = "; ".join(part for part in (answers, cut) if part)
            if done["sent"]:
                of = f"{kind}: " if len(self.attackers) > 1 else ""
                parts.append(f"{of}{done['sent']:,} sent" + (f" ({outcome})" if outcome else ""))
        return "; ".join(parts)


COLUMNS = {  # figure -> a short heading, for narrow windows
    "ack p50 ms": "ack p50", "ack p99 ms": "p99", "webhook p99 ms": "webhook", "/healthz p99 ms": "api", "hub /healthz p99 ms": "hub",
    "own lag p99 ms": "lag", "failed": "failed", "attackers' CPU %": "CPU", "rows": "rows", "KiB written": "KiB",
}  # fmt: skip


def quiet_of(phases: list[Phase]) -> Phase:
    """Return the quiet phases as one, because the machine's speed may change between the first and the last."""
    together = Phase(name=QUIET, seen=SeenByPayers())
    for phase in phases:
        if phase.name == QUIET:
            together.seen.add(phase.seen)
            together.rows += phase.rows
            together.written += phase.written
    return together


def missed(phases: list[Phase]) -> list[str]:
    """Return all missed goals, one line of text each."""
    quiet = quiet_of(phases)
    return [line for phase in phases for line in phase.missed(quiet)]


def _shown(phases: list[Phase]) -> list[Phase]:
    return [quiet_of(phases), *(phase for phase in phases if phase.name != QUIET)]


def table(phases: list[Phase]) -> Table:
    """Return the table to print."""
    quiet = quiet_of(phases)
    title = (
        "abuse: paying pairs chat while attackers run. Milliseconds of acknowledgements, genuine webhooks (p99), /healthz of both\n"
        "listeners (p99) and our own lag (p99); what failed; the attackers' share of a processor, rows and KiB written"
    )
    made = Table(title=title, title_justify="left", title_style="bold", padding=(0, 0))
    made.add_column("attack", no_wrap=True)
    for column in COLUMNS.values():
        made.add_column(column, justify="right", no_wrap=True)
    made.add_column("", no_wrap=True)
    for phase in _shown(phases):
        found = phase.figures()
        verdict = "" if phase.name in (QUIET, CONTROL) else "[red]missed[/]" if phase.missed(quiet) else "met"
        made.add_row(phase.name, *(number(found[column]) for column in COLUMNS), verdict)
    return made


def as_json(phases: list[Phase], machine: dict[str, str]) -> dict[str, Any]:
    """Return all results as JSON data."""
    quiet = quiet_of(phases)
    return {
        "machine": machine,
        "phases": [
            {
                "name": phase.name,
                "figures": phase.figures(),
                "verdict": "" if phase.name in (QUIET, CONTROL) else "missed" if phase.missed(quiet) else "met",
                "attempts": phase.attempts(),
            }
            for phase in _shown(phases)
        ],
        "missed": missed(phases),
    }


def section(found: dict[str, Any]) -> str:
    """Return the section of docs/bench.md with what `as_json` made, without its heading."""
    lines = [
        f"Written by `sesi bench abuse --page docs/bench.md`: {found['machine']['processor']}, at {found['machine']['commit']}.",
        "",
        "| attack | " + " | ".join(COLUMNS) + " | goals |",
        "|---|" + "---|" * (len(COLUMNS) + 1),
    ]
    for phase in found["phases"]:
        verdict = "**missed**" if phase["verdict"] == "missed" else phase["verdict"]
        cells = " | ".join(number(phase["figures"][column]) for column in COLUMNS)
        lines.append(f"| {phase['name']} | {cells} | {verdict} |")
    lines += ["", "Requests of the attackers, and their outcomes:", ""]
    lines += [
        f"- {one['name']}: {one['attempts']}" for one in found["phases"] if one["attempts"] and one["name"] != ALL
    ]
    lines += ["", "Missed: " + "; ".join(found["missed"]) + "." if found["missed"] else "Every goal was met."]
    return "\n".join(lines)
