"""Play a vector with the Python client (docs/clients.md#the-vectors)."""

import asyncio
import datetime as dt
import json
import pathlib
from typing import Any

from tests.vectors import documents, virtual_time
from tests.vectors.names import Mismatch, Names
from tests.vectors.python_client import FixedDice, FragileStore, PythonClient
from tests.vectors.world import FakeAnswer, World, refuse_upgrade

FOLDER = pathlib.Path(__file__).parent
ALL_PATHS = ["/ws/chat", "/ws/pairing"]
ANSWERS = {"auth_ok": "auth", "message_ack": "send_message", "sync": "sync", "pong": "ping", "accepted": "accept"}
OTHERS = ("mutations.json", "objects.json", "schema.json")
KINDS = ("call", "expect", "may", "serve", "fault", "advance", "quiet", "state", "outcome")
Step = dict[str, Any]


def read_all() -> dict[str, dict[str, Any]]:
    """Return all vectors by file name."""
    names = sorted(path for path in FOLDER.glob("*.json") if path.name not in OTHERS)
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in names}


class Player:
    """One performance of a vector."""

    def __init__(self, vector: dict[str, Any]) -> None:
        given = vector["given"]
        self.steps: list[Step] = vector["steps"]
        self.role: str = given["role"]
        self.paths: list[str] = given["sockets"]
        self.served: list[tuple[str, str, Any]] = []  # kind, name and value of all that was served
        self._ignored = set(given.get("ignore", ()))
        self._watched = set(given.get("watch", ()))
        self._standing: list[dict[str, Any]] = given.get("standing", [])
        self._names = Names(self.role, given.get("ids", []))
        self._world = World()
        self._dice = FixedDice()
        self._dice.value = given.get("random", 0.5)
        self._store = FragileStore()
        self._client = self._new_client()
        if given.get("signed_in", True):
            schema = "Customer" if self.role == "customer" else "Mitra"
            self._client.sign_in(self._names.fill(documents.OBJECTS["schemas"][schema]), "A1", "R1")
        self._waiting: list[dict[str, Any]] = []  # expected requests without an answer, oldest first
        self._sent: list[dict[str, Any]] = []  # all frames of the client

    def _new_client(self) -> PythonClient:
        return PythonClient(self._world, self._store, self._dice, self.role, self.paths)

    async def play(self) -> None:
        """Play all steps. Raises Mismatch."""
        steps = [one for step in self.steps for one in self._expand(step)]
        for n, step in enumerate([*steps, {"quiet": True}]):
            await self._settle()
            name = next(kind for kind in KINDS if kind in step)
            try:
                await getattr(self, f"_{name}")(step)
            except Mismatch as mismatch:
                raise Mismatch(f"step {n}, {json.dumps(step)[:200]}: {mismatch}") from None
        await self._client.abandon()

    def _expand(self, step: Step) -> list[Step]:
        if "opens" not in step:
            return [step]
        path, token = step["opens"].get("path", self.paths[0]), step["opens"]["token"]
        snapshot = step["opens"].get("auth_ok", {})
        return [
            {"expect": {"open": path}},
            {"serve": {"open": path}},
            {"expect": {"frame": {"type": "auth", "token": token}}},
            {"serve": {"frame": {"type": "auth_ok", **snapshot}, "on": path}},
        ]

    async def _settle(self) -> None:
        """Let the client do all it can do now, and answer what the vector answers without a step."""
        while True:
            await virtual_time.advance(0)
            rest = [one for one in self._world.out if not self._answer_usual(one)]
            changed = len(rest) != len(self._world.out)
            self._world.out[:] = rest
            if not changed:
                return

    def _answer_usual(self, did: dict[str, Any]) -> bool:
        """Answer or drop what no step expects; return whether the rest of the vector sees nothing of it."""
        if "frame" in did:
            if all(did["frame"] is not sent for sent in self._sent):
                self._sent.append(did["frame"])
            for standing in self._standing:
                if "frame" in standing["on"] and self._names.fits(standing["on"]["frame"], did["frame"]):
                    self._serve_frame({**standing["serve"], "to": did["frame"]}, did["path"])
                    return True
            return did["frame"]["type"] in self._ignored
        if "request" in did:
            return self._answer_usual_request(did)
        return False

    def _answer_usual_request(self, did: dict[str, Any]) -> bool:
        route = did["request"]
        for standing in self._standing:
            if "request" in standing["on"] and self._route(standing["on"]["request"]) == route:
                self._answer(did, standing["serve"]["answer"])
                return True
        usual = documents.usual_body(route)
        if route in self._watched or not (route.startswith("GET ") or route in self._ignored):
            return False
        self._answer(did, {"status": 503} if usual is None else {"status": 200, "body": usual})
        return True

    def _route(self, route: str) -> str:
        method, path = route.split(" ")
        return f"{method} {'/'.join(str(self._names.fill(part)) for part in path.split('/'))}"

    def _server_time(self) -> str:
        now = dt.datetime.fromisoformat(documents.BEGINS_AT) + dt.timedelta(seconds=asyncio.get_running_loop().time())
        return now.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    # -- steps

    async def _call(self, step: Step) -> None:
        self._client.call(step["call"], self._names.fill(step.get("with", {})), step.get("as"))

    async def _expect(self, step: Step) -> None:
        wanted = step["expect"] if isinstance(step["expect"], list) else [step["expect"]]
        for one in wanted:
            if not self._world.out:
                raise Mismatch(f"nothing came, not {one}")
            place = 0
            if step.get("any_order"):
                fitting = (n for n, did in enumerate(self._world.out) if self._fits(one, did))
                place = next(fitting, 0)
            self._take(one, self._world.out.pop(place))

    def _wanted(self, one: dict[str, Any]) -> dict[str, Any]:
        return one | ({"request": self._route(one["request"])} if "request" in one else {})

    def _fits(self, one: dict[str, Any], did: dict[str, Any]) -> bool:
        if "frame" in one:
            return "frame" in did and self._names.fits(one["frame"], did["frame"], whole=True)
        return self._names.fits(self._wanted(one), did)

    def _take(self, one: dict[str, Any], did: dict[str, Any]) -> None:
        if "frame" in one:
            self._names.match(one["frame"], did.get("frame", did), "frame", whole=True)
            return
        self._names.match(self._wanted(one), {key: did[key] for key in did if key != "answered"}, "it")
        if "request" in did:
            self._waiting.append(did)

    async def _may(self, step: Step) -> None:
        for n, did in enumerate(self._world.out):
            if self._fits(step["may"], did):
                self._take(step["may"], self._world.out.pop(n))
                if "serve" in step:
                    await self._serve(step)
                return

    async def _serve(self, step: Step) -> None:
        served = step["serve"]
        if step.get("if_sent") and not self._names.are_known(served["to"]):
            return
        if "frame" in served:
            self._serve_frame(served, served.get("on", self.paths[0]))
        elif "answer" in served:
            if not self._waiting:
                raise Mismatch("no request waits for this answer")
            self._answer(self._waiting.pop(0), served["answer"])
        elif "refused" in served:
            refuse_upgrade(
                self._world.latest(served.get("on", self.paths[0])), served["refused"], served.get("headers", {})
            )
        else:
            self._world.latest(served["open"]).opened.set_result(None)

    def _serve_frame(self, served: dict[str, Any], path: str) -> None:
        frame = {"server_time": self._server_time(), **served["frame"]}
        whole = self._names.fill(documents.whole_frame(self.role, path, frame))
        self.served.append(("frame", path, whole))
        ref = self._ref(served.get("to"), whole)
        self._world.latest(path).serve(whole | ({} if ref is None else {"ref": ref}))

    def _ref(self, to: dict[str, Any] | None, frame: dict[str, Any]) -> str | None:
        """Return the `ref` of the client's frame that a served frame answers."""
        if to is None:
            if frame["type"] not in ANSWERS:
                return None
            same = {key: frame[key] for key in ("session_id", "client_message_id") if key in frame}
            to = {"type": ANSWERS[frame["type"]], **same}
        return next((sent.get("ref") for sent in reversed(self._sent) if self._names.fits(to, sent)), None)

    def _answer(self, did: dict[str, Any], answer: dict[str, Any]) -> None:
        if answer["status"] == 0:
            did["answered"].set_result(None)
            return
        if "foreign" in answer:  # another program's, which no interface document describes
            did["answered"].set_result(FakeAnswer(answer["status"], answer["foreign"], answer.get("headers", {})))
            return
        body = self._names.fill(documents.whole_body(answer.get("body")))
        if answer["status"] >= 400 and body is None:
            body = {"error": {"code": "UNAVAILABLE", "message": "The service is unavailable."}}
        self.served.append(("answer", did["request"], (answer["status"], body)))
        headers = {"X-Server-Time": self._server_time(), **answer.get("headers", {})}
        did["answered"].set_result(FakeAnswer(answer["status"], body, headers))

    async def _fault(self, step: Step) -> None:
        kind, path = step["fault"], step.get("on", self.paths[0])
        if kind == "close":
            self._world.latest(path).end(step.get("code"))
        elif kind == "lost":
            self._world.latest(path).dead = True
        elif kind == "late_close":
            list(self._world.numbered(path))[step["of"]].end(step.get("code"))
        elif kind == "storage_fails":
            self._store.fails = True
        elif kind == "hidden":
            self._client.hide()
        elif kind in ("visible", "online"):
            self._client.wake(online=kind == "online")
        elif kind == "killed":
            await self._client.abandon()
            self._world.out.clear()
            self._client = self._new_client()
        else:
            raise LookupError(kind)

    async def _advance(self, step: Step) -> None:
        await virtual_time.advance(step["advance"] / 1000)

    async def _quiet(self, _: Step) -> None:
        if self._world.out:
            shown = [{key: did[key] for key in did if key not in ("answered", "headers")} for did in self._world.out]
            raise Mismatch(f"the client did {shown}")

    async def _state(self, step: Step) -> None:
        self._names.match(step["state"], self._client.state(), "state")

    async def _outcome(self, step: Step) -> None:
        self._names.match(step["outcome"], self._client.outcomes, "outcome")


def play(vector: dict[str, Any]) -> Player:
    """Play a vector; return the player, which has what it served. Raises Mismatch."""
    players: list[Player] = []

    async def main() -> None:
        players.append(Player(vector))
        await players[0].play()

    virtual_time.run(main())
    return players[0]
