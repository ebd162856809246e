"""The clients for asyncio, under the names they have in `runnel`.

async with runnel.aio.Producer("localhost:9092") as producer:
    await producer.send_and_wait("page_views", key=b"user-7", value=b"/pricing")
"""

from runnel.client.aio_admin import Admin
from runnel.client.aio_consumer import Consumer
from runnel.client.aio_producer import Producer

__all__ = ["Admin", "Consumer", "Producer"]
