"""The clients for asyncio, under the same names as in `tailrace`.

async with tailrace.aio.Producer("localhost:9092") as producer:
    await producer.send_and_wait("page_views", key=b"user-7", value=b"/pricing")
"""

from tailrace.client.admin.aio import Admin
from tailrace.client.fetch.aio import Consumer
from tailrace.client.produce.aio import Producer

__all__ = ["Admin", "Consumer", "Producer"]
