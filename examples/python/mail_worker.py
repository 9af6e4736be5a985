"""Sends evenly spaced mails, ten a second in all workers together.

    redis-cli RPUSH mail:jobs 'first mail' 'second mail'
    UPSTREAM=https://provider.example/send WORKER=one python mail_worker.py

The leaky bucket returns the delay of each mail. While Redis is down nothing is sent, as the jobs are there too.
"""

import asyncio
import logging

import httpx

from jobs import UPSTREAM, Queue, redis, run

log = logging.getLogger("mail")

http = httpx.AsyncClient(timeout=10)


async def turn() -> None:
    """Waits until it is this worker's turn to send."""
    while True:
        allowed, _, _, retry_ms, _, delay_ms = await redis.execute_command("RL.LEAKYBUCKET", "mail", 100, "10")
        if allowed:
            break
        # A hundred mails are already waiting.
        await asyncio.sleep(retry_ms / 1000)
    await asyncio.sleep(delay_ms / 1000)


async def send(queue: Queue, mail: str) -> None:
    await turn()
    try:
        (await http.post(UPSTREAM, content=mail)).raise_for_status()
    except httpx.HTTPError as error:
        if is_final(error):
            raise
        log.warning("will be sent later: %r", error)
        await queue.put_back()
    else:
        await queue.done(mail)


def is_final(error: httpx.HTTPError) -> bool:
    """Whether the provider rejects this mail for good."""
    return isinstance(error, httpx.HTTPStatusError) and error.response.status_code in (400, 404, 410, 413, 422)


if __name__ == "__main__":
    asyncio.run(run("mail", at_once=4, work=send))
