"""Which odd invoices and refunds operators see in the log of webhook calls."""

from collections.abc import Sequence

from core.storage import sql_files
from core.storage.transaction import Reader

SQL = sql_files.load(__file__)


async def recorded(reader: Reader, invoice_ids: Sequence[str]) -> set[str]:
    """Return which of these invoices or refunds the log of webhook calls shows as a conflict or as overpaid."""
    return {row["gateway_invoice_id"] for row in await reader.fetch(SQL["recorded"], invoice_ids)}
