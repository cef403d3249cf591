"""The command that proves a backup."""

import argparse
import asyncio
import datetime as dt
import pathlib
import tempfile
from typing import Any

from core.base.process import end_as_by_hand
from tools.commands import environment
from tools.commands.arguments import between, moment
from tools.commands.backups import STANZA


def add_arguments(parser: Any) -> None:
    """Add the options of `restore-proof`."""
    path = pathlib.Path
    parser.add_argument("--config", type=path, metavar="FILE", help="pgbackrest.conf (default: pgBackRest's own)")
    parser.add_argument("--stanza", default=STANZA, help=f"default {STANZA}")
    parser.add_argument("--to", type=moment, metavar="TIME", help="restore the data of this moment, not the newest")
    parser.add_argument(
        "--since",
        type=moment,
        metavar="TIME",
        help="compare the gateway's invoices from then on (default: 7 days before the newest restored data)",
    )
    parser.add_argument(
        "--max-age",
        type=between(float, 0.0, 1e6),
        default=15.0,
        metavar="MINUTES",
        help="fail if the newest restored data is older (default 15); not with --to",
    )
    parser.add_argument(
        "--folder",
        type=path,
        default=path(tempfile.gettempdir()),
        metavar="DIR",
        help="where to make the temporary folder, with space for the whole database (default %(default)s)",
    )
    parser.add_argument("--postgres", type=path, metavar="DIR", help="folder of PostgreSQL's programs")
    parser.add_argument("--database", help="the service's database (default: that of DATABASE_URL)")
    parser.add_argument("--user", help="a role that may read it (default: that of DATABASE_URL)")


def restore_proof(args: argparse.Namespace) -> int:
    """Restore a backup and check it; return 1 if something is wrong with it."""
    from tools.commands.restore_proof import Order, prove
    from tools.commands.running import console

    end_as_by_hand()
    order = Order(
        config=args.config,
        stanza=args.stanza,
        to=args.to,
        since=args.since,
        max_age=dt.timedelta(minutes=args.max_age),
        folder=args.folder,
        postgres=args.postgres,
        database=args.database,
        user=args.user,
    )
    well = asyncio.run(prove(order, environment.read(servers=False)))
    console.print("The backup is good." if well else "The backup is not good: see above.")
    return 0 if well else 1
