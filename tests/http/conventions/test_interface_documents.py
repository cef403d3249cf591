"""The OpenAPI documents match the service: every route and refusal is declared, and every example works."""

import json
import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from litestar import Request
from openapi_spec_validator import OpenAPIV31SpecValidator

from api import apps
from api import refusals as route_refusals
from api.auth import Access
from api.deprecation import is_deprecated, replacement_of
from api.documents.examples import example_of
from api.documents.openapi import ANSWER
from api.route_signatures import PATH, signature_of
from core.base.errors import DomainError
from core.payments.rules import PaymentNotConfirmed
from core.telemetry import metrics
from tests.stack import CALLBACK_TOKEN, Stack, World, new_id

pytestmark = pytest.mark.anyio

LISTENERS = {"public": apps.PUBLIC, "internal": apps.INTERNAL}
DOCUMENTS = {name: apps.interface(name) for name in LISTENERS}
both = pytest.mark.parametrize("listener", LISTENERS)


def operations(listener: str) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the document's operations by method and path."""
    paths = DOCUMENTS[listener]["paths"]
    return {(method.upper(), path): one for path, item in paths.items() for method, one in item.items()}


def routes(listener: str) -> dict[tuple[str, str], Any]:
    """Return the listener's handlers by method and path."""
    found = {}
    for handler in LISTENERS[listener]:
        for path in handler.paths:
            for method in handler.http_methods:
                found[str(method), PATH.sub(r"{\1}", path)] = handler
    return found


def validator(listener: str, schema: dict[str, Any]) -> jsonschema.Draft202012Validator:
    """Return a validator for a schema of the document."""
    components = {"components": DOCUMENTS[listener]["components"]}
    return jsonschema.Draft202012Validator(
        {**schema, **components}, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
    )


def codes_of(operation: dict[str, Any]) -> set[tuple[int, str]]:
    """Return every pair of status and code that an operation declares as a refusal."""
    return {
        (int(status), code)
        for status, response in operation["responses"].items()
        for content in response.get("content", {}).values()
        for code in content.get("examples", {})
        if code != ANSWER
    }


EXAMPLES = [
    pytest.param(listener, method, path, content["example"], id=f"{method} {path}")
    for listener in LISTENERS
    for (method, path), operation in operations(listener).items()
    for content in operation.get("requestBody", {}).get("content", {}).values()
]


@both
@pytest.mark.slow
def test_document_is_valid_openapi_3_1(listener: str) -> None:
    assert DOCUMENTS[listener]["openapi"] == "3.1.0"
    OpenAPIV31SpecValidator(DOCUMENTS[listener]).validate()
    assert json.loads(json.dumps(DOCUMENTS[listener])) == DOCUMENTS[listener]


@both
def test_document_lists_exactly_the_routes_of_its_listener(listener: str) -> None:
    assert set(operations(listener)) == set(routes(listener))


@both
def test_every_declared_refusal_is_in_the_document(listener: str) -> None:
    for place, handler in routes(listener).items():
        access: Access = handler.opt["access"]
        declared = {(route_refusals.STATUS[error.kind], error.code) for error in access.refusals}
        assert declared <= codes_of(operations(listener)[place]), place


@both
def test_document_lists_exactly_the_refusals_that_a_route_may_answer(listener: str) -> None:
    for place, handler in routes(listener).items():
        may = {(one.status, one.code) for one in route_refusals.refusals_of(handler)}
        if listener == "internal":  # a probe that both listeners serve is not rate-limited on either
            may.discard((429, "RATE_LIMITED"))
        assert codes_of(operations(listener)[place]) == may, place


def refusals(cls: type[DomainError]) -> Iterator[type[DomainError]]:
    """Yield the error classes of the service, without those that tests define."""
    if cls.__module__.split(".")[0] in ("core", "api"):
        yield cls
    for below in cls.__subclasses__():
        yield from refusals(below)


def test_every_error_code_is_in_a_document() -> None:
    """Check that each error code is declared by a route: otherwise it is unused, or its route forgot to declare it."""
    codes = {code for listener in LISTENERS for one in operations(listener).values() for _, code in codes_of(one)}
    said = {one.code for one in refusals(DomainError)} - {DomainError.code}
    assert said - codes == set()


@both
def test_every_operation_has_a_unique_id_and_a_description(listener: str) -> None:
    found = list(operations(listener).values())
    names = [one["operationId"] for one in found]
    assert len(names) == len(set(names))
    assert [one["operationId"] for one in found if not re.fullmatch(r"[a-z0-9_]+", one["operationId"])] == []
    assert [one["operationId"] for one in found if not (one["summary"] and one["description"] and one["tags"])] == []


@both
def test_deprecated_paths_are_marked_and_their_replacements_exist(listener: str) -> None:
    known = {path for _, path in operations(listener)}
    for (method, path), operation in operations(listener).items():
        assert operation.get("deprecated", False) is is_deprecated(path), path
        if not is_deprecated(path):
            continue
        headers = [one["headers"].keys() for one in operation["responses"].values()]
        assert all({"Deprecation", "Sunset"} <= names for names in headers)
        if (replacement := replacement_of(path)) is not None:
            assert replacement in known, path
            assert "deprecated" not in operations(listener).get((method, replacement), {}), path
            assert all(
                {"Deprecation", "Sunset", "Link"} <= one["headers"].keys() for one in operation["responses"].values()
            )


@both
def test_each_handler_has_one_path_that_is_not_an_alias(listener: str) -> None:
    paths: dict[Any, list[str]] = {}
    for (_, path), handler in routes(listener).items():
        paths.setdefault(handler, []).append(path)
    several = [found for found in paths.values() if len(found) > 1]
    assert all([is_deprecated(path) for path in found].count(False) == 1 for found in several)


@both
def test_operation_requires_bearer_token_exactly_if_its_route_does(listener: str) -> None:
    for place, handler in routes(listener).items():
        access: Access = handler.opt["access"]
        expected = [{"bearerAuth": []}] if access.kinds else [{}, {"bearerAuth": []}] if access.optional else []
        assert operations(listener)[place]["security"] == expected, place


@both
def test_every_path_parameter_is_declared(listener: str) -> None:
    for (method, path), operation in operations(listener).items():
        given = {one["name"] for one in operation["parameters"] if one.get("in") == "path"}
        assert given == set(re.findall(r"\{(\w+)\}", path)), (method, path)


@both
def test_every_query_parameter_is_declared(listener: str) -> None:
    for place, handler in routes(listener).items():
        given = {one["name"] for one in operations(listener)[place]["parameters"] if one.get("in") == "query"}
        assert given == set(signature_of(handler).query), place


@both
def test_idempotent_routes_declare_the_idempotency_key(listener: str) -> None:
    key = {"$ref": "#/components/parameters/Idempotency-Key"}
    for place, handler in routes(listener).items():
        assert (key in operations(listener)[place]["parameters"]) == bool(handler.opt.get("idempotent")), place


@both
def test_state_fields_have_a_closed_list_of_values(listener: str) -> None:
    """Check that the type of each `status` has a closed list of words, or that the field is listed here as free text."""
    free = {"WebhookLog.status", "GatewayCall.status"}
    closed = {"status", "mode", "kind", "cause_tag", "operator_action", "topic_sensitivity", "sender_type", "ended_by"}
    missing = [
        f"{name}.{field}"
        for name, schema in DOCUMENTS[listener]["components"]["schemas"].items()
        for field, inner in schema.get("properties", {}).items()
        if field in closed and "enum" not in inner and f"{name}.{field}" not in free
    ]
    assert missing == []


@both
def test_request_bodies_forbid_additional_properties(listener: str) -> None:
    schemas = DOCUMENTS[listener]["components"]["schemas"]
    for (method, path), operation in operations(listener).items():
        for content in operation.get("requestBody", {}).get("content", {}).values():
            schema = schemas[content["schema"]["$ref"].rpartition("/")[2]]
            foreign = routes(listener)[method, path].opt["access"].foreign_body
            assert schema.get("additionalProperties", True) is foreign, (method, path)


@both
def test_every_example_matches_its_schema(listener: str) -> None:
    for operation in operations(listener).values():
        for content in operation.get("requestBody", {}).get("content", {}).values():
            validator(listener, content["schema"]).validate(content["example"])
        for response in operation["responses"].values():
            for content in response.get("content", {}).values():
                for example in content.get("examples", {}).values():
                    validator(listener, content["schema"]).validate(value_of(listener, example))


def value_of(listener: str, example: dict[str, Any]) -> Any:
    """Return the value of an example, which may be a reference."""
    if "$ref" in example:
        example = DOCUMENTS[listener]["components"]["examples"][example["$ref"].rpartition("/")[2]]
    return example["value"]


@both
def test_every_success_with_a_body_has_an_example(listener: str) -> None:
    for place, operation in operations(listener).items():
        done = {status: response for status, response in operation["responses"].items() if status < "300"}
        assert done, place
        for status, response in done.items():
            for media, content in response.get("content", {}).items():
                assert ANSWER in content["examples"], (place, status, media)


@both
def test_document_says_where_its_listener_is_and_what_tags_mean(listener: str) -> None:
    assert DOCUMENTS[listener]["servers"]
    if listener == "public":
        assert [tag["name"] for tag in DOCUMENTS[listener]["tags"] if not tag.get("description")] == []


async def test_page_of_sockets_has_every_frame_and_needs_no_script(stack: Stack, world: World) -> None:
    http = world.client()._http
    async with http.get(stack.addresses.public + "/docs/sockets") as answer:
        assert (answer.status, answer.content_type) == (200, "text/html")
        page, (policy,) = await answer.text(), answer.headers.getall("Content-Security-Policy")
    assert "default-src 'none'" in policy
    assert "script-src" not in policy
    assert "<script" not in page
    assert re.findall(r'(?:src|href)="(?!#|/docs")[^"]*"', page) == []
    frames = json.loads(stack.command("asyncapi").stdout)["components"]["messages"]
    for name, frame in frames.items():
        assert f">{name}</h3>" in page
        assert f"<code>{frame['name']}</code>" in page
    targets = set(re.findall(r'id="([^"]+)"', page))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= targets
    async with http.get(stack.addresses.internal + "/docs/sockets") as answer:
        assert answer.status == 404


def test_generated_example_has_required_fields_and_fields_with_known_values() -> None:
    schema = {
        "required": ["session_id", "note"],
        "properties": {
            "session_id": {"type": "string", "format": "uuid"},
            "note": {"type": "string", "minLength": 3},
            "phone": {"type": "string"},
            "rest": {"type": "string"},
        },
    }
    made = example_of(schema, {})
    assert set(made) == {"session_id", "note", "phone"}
    assert len(made["note"]) == 3


def test_undeclared_answer_is_counted() -> None:
    """Check that undeclared answers are counted; the stacks of all tests require this counter to be zero."""
    handler = next(one for one in apps.PUBLIC if "/healthz" in one.paths)
    scope: Any = {
        "type": "http",
        "route_handler": handler,
        "path_template": "/healthz",
        "path": "/healthz",
        "headers": [],
    }
    route_refusals.check(Request(scope), 500, "INTERNAL_ERROR")
    route_refusals.check(Request(scope), 409, PaymentNotConfirmed.code)
    text = metrics.exposition().decode()
    found = [line for line in text.splitlines() if line.startswith("sesi_undocumented_answers_total{")]
    assert found == ['sesi_undocumented_answers_total{code="PAYMENT_NOT_CONFIRMED",route="/healthz",status="409"} 1.0']


async def token_for(world: World, listener: str, access: Access, path: str) -> str | None:
    """Return the token of a new user who may call the route: the call may end the user's auth session."""
    if not access.kinds:
        return None
    if listener == "internal":
        client = world.client()
        operator = await world.operator()
        client.access_token = operator.access_token
    elif any(kind == "customer" for kind in access.kinds):
        client = await world.customer()
    else:
        client = await world.mitra(online=False)
    return client.access_token


@pytest.mark.parametrize(("listener", "method", "path", "body"), EXAMPLES)
async def test_every_example_is_accepted_by_the_service(
    world: World, listener: str, method: str, path: str, body: Any
) -> None:
    """Check that the service accepts each example of the document and answers as declared."""
    handler = routes(listener)[method, path]
    token = await token_for(world, listener, handler.opt["access"], path)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    headers["X-Callback-Token"] = CALLBACK_TOKEN
    headers["X-Forwarded-For"] = f"10.9.{len(path)}.{len(method)}"
    address = re.sub(r"\{key\}", "mitra_stale_after_seconds", path)
    address = re.sub(r"\{\w+\}", new_id(), address)
    url = getattr(world.stack.addresses, listener) + address
    if "role_id" in body:  # must name an existing role
        roles = (await (await world.operator()).get("/internal/roles"))["items"]
        body = {**body, "role_id": roles[0]["id"]}
    async with world.client()._http.request(method, url, json=body, headers=headers) as answer:
        said = operations(listener)[method, path]["responses"]
        assert str(answer.status) in said
        assert answer.status < 500
        # A new service has no history to simulate.
        assert answer.status != 422 or (await answer.json())["error"]["code"] == "NOT_ENOUGH_HISTORY"
        assert "X-Server-Time" in answer.headers
        content = said[str(answer.status)].get("content")
        if content is None:
            assert await answer.read() == b""
        else:
            assert answer.content_type in content
            validator(listener, content[answer.content_type]["schema"]).validate(await answer.json())


@both
async def test_document_and_its_page_are_served_without_third_parties(
    stack: Stack, world: World, listener: str
) -> None:
    base = getattr(stack.addresses, listener)
    http = world.client()._http
    async with http.get(base + "/openapi.json") as answer:
        assert answer.status == 200
        assert answer.content_type == "application/json"
        assert await answer.json() == DOCUMENTS[listener]
    async with http.get(base + "/docs") as answer:
        assert answer.status == 200
        page = await answer.text()
        policy = answer.headers.getall("Content-Security-Policy")
    assert len(policy) == 1
    assert "script-src 'self';" in policy[0]
    assert "http" not in page.replace("http-equiv", "")
    assert re.findall(r"<script(?![^>]* src=)", page) == []
    needed = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert len(needed) == 4
    kinds = {"js": "text/javascript", "css": "text/css", "png": "image/png"}
    for address in needed:
        async with http.get(base + address) as answer:
            assert answer.status == 200, address
            assert answer.content_type == kinds[address.rpartition(".")[2]]
            assert len(await answer.read()) > 50
    async with http.get(base + "/docs/start.js") as answer:
        start = await answer.text()
    assert '"/openapi.json"' in start
    assert "://" not in start
    for name in ("nothing.js", "..%2F..%2F__init__.py", "swagger-editor-bundle.js"):
        async with http.get(f"{base}/docs/{name}") as answer:
            assert answer.status == 404


@both
def test_openapi_command_prints_the_document_without_servers(stack: Stack, listener: str) -> None:
    nowhere = {"DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none", "REDIS_URL": "redis://127.0.0.1:1/0"}
    done = stack.command("openapi", listener, **nowhere)
    assert json.loads(done.stdout) == DOCUMENTS[listener]


def test_openapi_command_refuses_unknown_listener(stack: Stack) -> None:
    done = stack.command("openapi", "secret", check=False)
    assert (done.returncode, done.stdout) == (2, "")
