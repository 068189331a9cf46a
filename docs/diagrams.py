"""Draw the diagrams of the documentation: `python docs/diagrams.py` writes `docs/images/`.

Each picture follows the reader's light or dark mode and needs no font of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from pathlib import Path

FOLDER = Path(__file__).parent / "images"
STYLE = """
.paper { fill: #ffffff; }
.box { fill: #f3f4f8; stroke: #8b93a7; stroke-width: 1.2; }
.store { fill: #e6f1ea; stroke: #3f8f5f; stroke-width: 1.2; }
.model { fill: #fdf0dc; stroke: #b9802a; stroke-width: 1.2; }
.main { fill: #e5eafc; stroke: #4a63c4; stroke-width: 1.6; }
.line { fill: none; stroke: #5a6274; stroke-width: 1.4; }
.tip { fill: #5a6274; }
.name { fill: #1b2130; font-weight: 600; }
.note { fill: #4b5365; font-size: 12.5px; }
text { font: 14px system-ui, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
@media (prefers-color-scheme: dark) {
.paper { fill: #161a22; }
.box { fill: #232936; stroke: #6e778c; }
.store { fill: #1d3328; stroke: #5fb585; }
.model { fill: #3a2e18; stroke: #d9a24c; }
.main { fill: #252f54; stroke: #8299f0; }
.line { stroke: #a3abbd; }
.tip { fill: #a3abbd; }
.name { fill: #eef1f7; }
.note { fill: #b9c1d1; }
}
"""
LINE_HEIGHT = 18


class Picture:
    """A drawing of boxes and arrows, in SVG."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
            f' width="{width}" height="{height}" role="img" aria-label="{escape(title)}">'
        )
        self.parts = [f'<rect class="paper" width="{width}" height="{height}" rx="10"/>']

    def box(self, x: int, y: int, width: int, height: int, *lines: str, kind: str = "box") -> None:
        """Draw a box: its first line is its name, the others are notes."""
        shape = f'x="{x}" y="{y}" width="{width}" height="{height}" rx="7"'
        self.parts.append(f'<rect class="{kind}" {shape}/>')
        top = y + height / 2 - (len(lines) - 1) * LINE_HEIGHT / 2 + 5
        for number, line in enumerate(lines):
            style = "note" if number else "name"
            self.text(x + width / 2, top + number * LINE_HEIGHT, line, style=style, anchor="middle")

    def text(
        self, x: float, y: float, line: str, *, style: str = "note", anchor: str = "start"
    ) -> None:
        """Write one line of text."""
        place = f'x="{x:g}" y="{y:g}" text-anchor="{anchor}"'
        self.parts.append(f'<text class="{style}" {place}>{escape(line)}</text>')

    def arrow(self, *points: tuple[int, int]) -> None:
        """Draw a line through the points, with a tip at the last."""
        path = " L".join(f"{x} {y}" for x, y in points)
        self.parts.append(f'<path class="line" d="M{path}"/>')
        (x0, y0), (x, y) = points[-2:]
        along, across = (x > x0) - (x < x0), (y > y0) - (y < y0)
        back = (x - 8 * along, y - 8 * across)
        sides = (
            (back[0] + 4 * across, back[1] + 4 * along),
            (back[0] - 4 * across, back[1] - 4 * along),
        )
        corners = " ".join(f"{a},{b}" for a, b in ((x, y), *sides))
        self.parts.append(f'<polygon class="tip" points="{corners}"/>')

    def svg(self) -> str:
        """Return the finished file."""
        return "\n".join([self.head, f"<style>{STYLE}</style>", *self.parts, "</svg>"]) + "\n"


def architecture() -> Picture:
    """Draw the parts of the package, from callers down to databases and models."""
    picture = Picture(
        740, 560, "Callers use adk, server or cli; all call Memories, which uses the packages below"
    )
    for x, caller, room, note in (
        (20, "ADK agents", "adk", "service, tools, plugin"),
        (260, "HTTP, gRPC, MCP, browser", "server", "API, kagent's contract, page"),
        (500, "shell", "cli", "commands, doctor"),
    ):
        picture.text(x + 110, 34, caller, anchor="middle")
        picture.arrow((x + 110, 42), (x + 110, 66))
        picture.box(x, 66, 220, 56, room, note)
        picture.arrow((x + 110, 122), (x + 110, 150))
    picture.box(
        20, 150, 700, 58, "memories", "the verbs: add, recall, edit, forget, undo, …", kind="main"
    )
    for x, room, notes in (
        (20, "ingestion", ("queue and worker,", "extraction, consolidation")),
        (260, "retrieval", ("query, retriever,", "ranking")),
        (500, "retention", ("time to live, popularity,", "prune")),
    ):
        picture.arrow((x + 110, 208), (x + 110, 236))
        picture.box(x, 236, 220, 72, room, *notes)
    for x in (130, 320, 430, 610):
        picture.arrow((x, 308), (x, 336))
    picture.box(20, 336, 340, 58, "models", "language models, embedders, rerankers", kind="model")
    picture.box(380, 336, 340, 58, "stores", "one contract, two SQL dialects", kind="store")
    picture.arrow((190, 394), (190, 422))
    picture.arrow((480, 394), (480, 422))
    picture.arrow((658, 394), (658, 422))
    picture.box(20, 422, 340, 44, "LiteLLM, ADK's models, ONNX", kind="model")
    picture.box(380, 422, 200, 44, "PostgreSQL + pgvector", kind="store")
    picture.box(596, 422, 124, 44, "SQLite file", kind="store")
    picture.box(
        20,
        492,
        700,
        48,
        "redaction · language · settings · telemetry · records · errors",
        "used by every package",
    )
    return picture


def write_path() -> Picture:
    """Draw the path of a session from ADK's events to stored memories."""
    picture = Picture(
        740,
        420,
        "A session is masked and queued before the call returns; a worker then stores memories",
    )
    picture.box(20, 24, 150, 64, "session", "events of ADK")
    picture.box(205, 24, 150, 64, "transcript", "without recalled text")
    picture.box(390, 24, 150, 64, "redact", "mask secrets")
    picture.box(575, 24, 145, 64, "queue", "a durable job", kind="store")
    for x in (170, 355, 540):
        picture.arrow((x, 56), (x + 35, 56))
    picture.text(720, 112, "call returns here", anchor="end")
    picture.arrow((590, 88), (590, 164))
    picture.text(580, 150, "a worker claims the job", anchor="end")
    picture.box(
        390, 164, 330, 64, "extract", "a model finds facts, or turns are kept", kind="model"
    )
    picture.arrow((390, 196), (355, 196))
    picture.box(205, 164, 150, 64, "embed", "if configured", kind="model")
    picture.arrow((205, 196), (170, 196))
    picture.box(20, 164, 150, 64, "compare", "with memories", kind="model")
    picture.arrow((95, 228), (95, 288))
    picture.text(107, 262, "add · reinforce · link · merge · replace")
    picture.box(
        20,
        288,
        700,
        64,
        "one transaction",
        "memories + ingested events + end of the job",
        kind="store",
    )
    picture.text(
        370,
        384,
        "A crash before the transaction repeats the job; a crash after it repeats nothing.",
        anchor="middle",
    )
    return picture


def read_path() -> Picture:
    """Draw the path from a question to the memories that a model reads."""
    picture = Picture(
        740,
        470,
        "A question passes the gate, is searched by words and vectors, ranked, chosen and fenced",
    )
    picture.box(20, 24, 200, 64, "question", "from a tool, prefetch or code")
    picture.box(270, 24, 200, 64, "gate", "skip greetings, small talk")
    picture.box(520, 24, 200, 64, "query", "mask secrets, read dates")
    picture.arrow((220, 56), (270, 56))
    picture.arrow((470, 56), (520, 56))
    picture.arrow((620, 88), (620, 132), (370, 132), (370, 152))
    picture.box(
        20,
        152,
        700,
        48,
        "a view: one snapshot of the scope, expired and superseded left out",
        kind="store",
    )
    picture.arrow((190, 200), (190, 232))
    picture.arrow((550, 200), (550, 232))
    picture.box(20, 232, 340, 60, "words", "BM25 over stems and identifiers, exact", kind="store")
    picture.box(380, 232, 340, 60, "vectors", "nearest by meaning, with an embedder", kind="model")
    picture.arrow((190, 292), (190, 322))
    picture.arrow((550, 292), (550, 322))
    picture.box(
        20, 322, 700, 48, "rank: match, neighbours, session, answer, time, author, …", kind="main"
    )
    picture.arrow((130, 370), (130, 396))
    picture.box(20, 396, 220, 56, "choose", "relevance floor, token budget")
    picture.arrow((240, 424), (270, 424))
    picture.box(270, 396, 200, 56, "fence", "escaped data, no instructions")
    picture.arrow((470, 424), (520, 424))
    picture.box(520, 396, 200, 56, "model", "and one more delivery", kind="model")
    return picture


def life() -> Picture:
    """Draw the states of a memory, from its first save to its end."""
    picture = Picture(
        740, 430, "A memory is visible until it is superseded, expires or is forgotten"
    )
    picture.box(20, 30, 160, 60, "said or saved", "a session, a tool, code")
    picture.box(20, 180, 160, 60, "quarantined", "awaits confirmation")
    picture.box(
        280, 100, 180, 72, "visible", "found by searches", "15 days by default", kind="main"
    )
    picture.arrow((180, 60), (330, 60), (330, 100))
    picture.arrow((100, 90), (100, 180))
    picture.arrow((180, 210), (310, 210), (310, 172))
    picture.text(190, 202, "confirm")
    picture.box(560, 30, 160, 60, "superseded", "history, found by as_of")
    picture.arrow((420, 100), (420, 50), (560, 50))
    picture.text(430, 42, "replaced")
    picture.arrow((560, 74), (440, 74), (440, 100))
    picture.text(500, 92, "undo", anchor="middle")
    picture.box(560, 160, 160, 60, "expired", "invisible at once")
    picture.arrow((460, 136), (640, 136), (640, 160))
    picture.text(486, 129, "time to live over")
    picture.arrow((560, 190), (420, 190), (420, 172))
    picture.text(484, 208, "10 deliveries: live on", anchor="middle")
    picture.arrow((640, 220), (640, 300))
    picture.text(630, 264, "prune, once a day", anchor="end")
    picture.box(560, 300, 160, 60, "deleted", "may be learnt again")
    picture.box(
        250,
        300,
        240,
        72,
        "forgotten",
        "erased everywhere;",
        "tombstone and receipt remain",
        kind="store",
    )
    picture.arrow((360, 172), (360, 300))
    picture.text(350, 290, "forget", anchor="end")
    picture.text(
        370,
        408,
        "A pinned memory never expires. Each fetch by an agent counts as one delivery.",
        anchor="middle",
    )
    return picture


def deployment() -> Picture:
    """Draw agents, servers, workers and databases in production."""
    picture = Picture(
        740, 440, "Agents use PostgreSQL directly or through servers; workers process the queue"
    )
    picture.box(20, 24, 210, 60, "ADK agents", "KagentMemoryService")
    picture.box(265, 24, 210, 60, "remote agents", "HTTP, gRPC, kagent")
    picture.box(510, 24, 210, 60, "people and editors", "page, MCP")
    picture.arrow((370, 84), (370, 114))
    picture.arrow((615, 84), (615, 114))
    picture.box(265, 114, 455, 48, "proxy or mesh", "TLS, floods, slow senders")
    picture.arrow((492, 162), (492, 190))
    picture.box(
        265,
        190,
        455,
        60,
        "kagent-memory serve",
        "as many as you like; /readyz, /metrics, tokens",
        kind="main",
    )
    picture.arrow((125, 84), (125, 340))
    picture.arrow((370, 250), (370, 290), (200, 290), (200, 340))
    picture.box(510, 280, 210, 60, "kagent-memory worker", "extracts, embeds, prunes", kind="main")
    picture.arrow((510, 310), (330, 310), (330, 340))
    picture.arrow((615, 340), (615, 364))
    picture.box(
        20, 340, 340, 60, "PostgreSQL + pgvector", "memories, queue, history, tokens", kind="store"
    )
    picture.box(385, 340, 100, 60, "standby", "reads", kind="store")
    picture.arrow((360, 370), (385, 370))
    picture.box(510, 364, 210, 48, "model and embedder", kind="model")
    return picture


DIAGRAMS: dict[str, Callable[[], Picture]] = {
    "architecture": architecture,
    "write-path": write_path,
    "read-path": read_path,
    "life": life,
    "deployment": deployment,
}


if __name__ == "__main__":
    for name, draw in DIAGRAMS.items():
        (FOLDER / f"{name}.svg").write_text(draw().svg(), encoding="utf-8")
