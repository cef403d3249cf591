"""The REST peer: FastAPI and SQLAlchemy on the service's own tables, as a team with experience in both would write it.

`GET /sessions/{id}` and `GET /availability` answer like the service's `/api/shared/chat/sessions/{id}` and
`/api/client/mitras/availability`: the same JSON from the same rows, for the same access tokens, and only to those who
may see it. It is optimized as such services can be: uvloop and httptools, a large pool, no access log, no transaction
around reads (AUTOCOMMIT saves two round trips a request), joins instead of lazy loads, only the needed columns, and
pydantic's serializer.

Where our service keeps data in memory, it does what is usual: each request checks its token, reads its auth session, so
that a revoked one is refused at once, and reads its answer from the database.

Environment: DATABASE_URL of a migrated database, JWT_SECRETS as for the service. It runs in .venv-bench:
`.venv-bench/bin/python tools/bench/peers/fastapi_sessions.py PORT`.
"""

import contextlib
import os
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Annotated
from uuid import UUID

import jwt
import uvicorn
from fastapi import Depends, FastAPI, HTTPException
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel, ConfigDict
from sqlalchemy import ARRAY, DateTime, ForeignKey, Text, func, select
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, joinedload, mapped_column, relationship

POOL_SIZE = 20  # as in an API process of the service
SECRETS = dict(part.split(":", 1) for part in os.environ["JWT_SECRETS"].split(","))

engine = create_async_engine(
    os.environ["DATABASE_URL"].replace("postgresql://", "postgresql+asyncpg://", 1).removesuffix("?sslmode=disable"),
    connect_args={"ssl": False},
    isolation_level="AUTOCOMMIT",
    skip_autocommit_rollback=True,
    pool_size=POOL_SIZE,
    max_overflow=0,
)
sessions = async_sessionmaker(engine, expire_on_commit=False, autoflush=False)


# -- tables


class Base(DeclarativeBase):
    """Base of the tables, which have only the columns that are needed here."""

    type_annotation_map = {datetime: DateTime(timezone=True), list[str]: ARRAY(Text)}  # noqa: RUF012 - SQLAlchemy's way


class Customer(Base):
    """A customer."""

    __tablename__ = "customers"
    id: Mapped[UUID] = mapped_column(primary_key=True)
    display_name: Mapped[str | None]
    account_belongs_to: Mapped[UUID | None]


class Mitra(Base):
    """A mitra."""

    __tablename__ = "mitras"
    id: Mapped[UUID] = mapped_column(primary_key=True)
    display_name: Mapped[str]
    is_active: Mapped[bool]


class MitraOnlineStatus(Base):
    """Whether a mitra is online."""

    __tablename__ = "mitra_online_status"
    id: Mapped[UUID] = mapped_column(primary_key=True)
    mitra_id: Mapped[UUID]
    is_online: Mapped[bool]
    last_heartbeat_at: Mapped[datetime | None]


class AuthSession(Base):
    """An auth session."""

    __tablename__ = "auth_sessions"
    id: Mapped[UUID] = mapped_column(primary_key=True)
    user_type: Mapped[str]
    user_id: Mapped[UUID]
    expires_at: Mapped[datetime]
    revoked_at: Mapped[datetime | None]


class ChatSession(Base):
    """A session."""

    __tablename__ = "chat_sessions"
    id: Mapped[UUID] = mapped_column(primary_key=True)
    customer_id: Mapped[UUID] = mapped_column(ForeignKey("customers.id"))
    mitra_id: Mapped[UUID | None] = mapped_column(ForeignKey("mitras.id"))
    mode: Mapped[str]
    status: Mapped[str]
    topics: Mapped[list[str] | None]
    topic_sensitivity: Mapped[str]
    duration_minutes: Mapped[int | None]
    extended_minutes: Mapped[int]
    price: Mapped[int]
    is_first_session_discount: Mapped[bool]
    created_at: Mapped[datetime]
    paired_at: Mapped[datetime | None]
    expires_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]
    ended_by: Mapped[str | None]
    last_seq: Mapped[int]
    customer_read_seq: Mapped[int]
    mitra_read_seq: Mapped[int]
    customer: Mapped[Customer] = relationship(lazy="raise")
    mitra: Mapped[Mitra | None] = relationship(lazy="raise")


class ChatMessage(Base):
    """A message."""

    __tablename__ = "chat_messages"
    id: Mapped[UUID] = mapped_column(primary_key=True)
    session_id: Mapped[UUID]
    seq: Mapped[int]
    sender_type: Mapped[str]


class AppConfig(Base):
    """A configuration row."""

    __tablename__ = "app_config"
    key: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[dict[str, int | bool]] = mapped_column(JSONB)


# -- answers


class PersonOut(BaseModel):
    """A party."""

    model_config = ConfigDict(from_attributes=True)
    id: UUID
    display_name: str | None


class SessionOut(BaseModel):
    """A session as one of its parties sees it."""

    model_config = ConfigDict(from_attributes=True)
    id: UUID
    customer: PersonOut
    mitra: PersonOut | None
    mode: str
    status: str
    topics: list[str] | None
    topic_sensitivity: str
    duration_minutes: int | None
    extended_minutes: int
    price: int
    is_first_session_discount: bool
    created_at: datetime
    paired_at: datetime | None
    expires_at: datetime | None
    ended_at: datetime | None
    ended_by: str | None
    last_seq: int
    unread_count: int = 0


class Available(BaseModel):
    """How many mitras could take a request."""

    available: int


class User(BaseModel):
    """The caller."""

    kind: str
    id: UUID


# -- dependencies


async def database() -> AsyncIterator[AsyncSession]:
    """Yield a database connection for one request."""
    async with sessions() as session:
        yield session


Database = Annotated[AsyncSession, Depends(database)]
Bearer = Annotated[HTTPAuthorizationCredentials | None, Depends(HTTPBearer(auto_error=False))]


async def signed_in(bearer: Bearer, db: Database) -> User:
    """Return the caller, after checking the token and its auth session."""
    if bearer is None:
        raise HTTPException(401)
    try:
        secret = SECRETS[jwt.get_unverified_header(bearer.credentials)["kid"]]
        claims = jwt.decode(
            bearer.credentials, secret, algorithms=["HS256"], audience="public", options={"require": ["exp", "sid"]}
        )
    except (jwt.PyJWTError, KeyError) as error:
        raise HTTPException(401) from error
    login = await db.get(AuthSession, claims["sid"])
    if login is None or login.revoked_at is not None or login.expires_at <= datetime.now(UTC):
        raise HTTPException(401)
    return User(kind=login.user_type, id=login.user_id)


SignedIn = Annotated[User, Depends(signed_in)]


# -- routes

limits: dict[str, int | bool] = {}


@contextlib.asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Read the configured limits once."""
    async with sessions() as db:
        names = ("require_mitra_ping", "mitra_stale_after_seconds", "max_customers_per_mitra")
        for row in await db.scalars(select(AppConfig).where(AppConfig.key.in_(names))):
            limits[row.key] = row.value["value"]
    yield
    await engine.dispose()


app = FastAPI(lifespan=lifespan)


@app.get("/sessions/{session_id}")
async def session(session_id: UUID, user: SignedIn, db: Database) -> SessionOut:
    """Return a session of the caller."""
    found = await db.get(
        ChatSession, session_id, options=[joinedload(ChatSession.customer), joinedload(ChatSession.mitra)]
    )  # fmt: skip
    if found is None or user.id not in (
        (found.mitra_id,) if user.kind == "mitra" else (found.customer_id, found.customer.account_belongs_to)
    ):
        raise HTTPException(404)
    shown = SessionOut.model_validate(found)
    read_seq = found.mitra_read_seq if user.kind == "mitra" else found.customer_read_seq
    if found.last_seq > read_seq:
        shown.unread_count = await db.scalar(
            select(func.count()).where(
                ChatMessage.session_id == found.id, ChatMessage.seq > read_seq, ChatMessage.sender_type != user.kind
            )
        ) or 0  # fmt: skip
    return shown


@app.get("/availability")
async def availability(user: SignedIn, db: Database) -> Available:
    """Return how many mitras could take a request."""
    if user.kind != "customer":
        raise HTTPException(403)
    load = (
        select(func.count())
        .where(ChatSession.mitra_id == Mitra.id, ChatSession.status.in_(("active", "expired")))
        .scalar_subquery()
    )
    free = (
        select(func.count())
        .select_from(Mitra)
        .join(MitraOnlineStatus, MitraOnlineStatus.mitra_id == Mitra.id)
        .where(Mitra.is_active, MitraOnlineStatus.is_online, load < limits["max_customers_per_mitra"])
    )
    if limits["require_mitra_ping"]:
        oldest = datetime.now(UTC) - timedelta(seconds=limits["mitra_stale_after_seconds"])
        free = free.where(MitraOnlineStatus.last_heartbeat_at > oldest)
    return Available(available=await db.scalar(free) or 0)


if __name__ == "__main__":
    uvicorn.run(
        app,
        host="127.0.0.1",
        port=int(sys.argv[1]),
        loop="uvloop",
        http="httptools",
        access_log=False,
        log_level="warning",
    )
