"""A queue of jobs in Redis that loses none: what mail_worker.py and llm_worker.py have in common.

A job that is being worked on is kept in a list of its worker until it is done. So after a crash the worker of the same
name finds it there; a job is done at least once. One that makes no sense is set aside in `{name}:failed`. Jobs have to differ
from each other.
"""

import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import ConstantBackoff
from redis.exceptions import RedisError

log = logging.getLogger("jobs")

REDIS_URL = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379")
UPSTREAM = os.environ.get("UPSTREAM", "http://127.0.0.1:8000/")
WORKER = os.environ.get("WORKER") or sys.exit("WORKER must be a name that is only this worker's, and stays so over restarts")

# Without Redis there are neither jobs nor limits: whatever is asked of it waits until it is back.
redis = Redis.from_url(REDIS_URL, decode_responses=True, retry=Retry(ConstantBackoff(0.2), -1))


class Queue:
    """The jobs `{name}:jobs`, and the one that this worker has taken."""

    def __init__(self, name: str, worker: str) -> None:
        self.waiting, self.taken, self.failed = f"{name}:jobs", f"{name}:taken:{worker}", f"{name}:failed"

    async def take(self) -> str:
        """The job that was not finished, else the next one."""
        # Read from the list even if it was just moved there: a move whose reply was lost is tried again, and takes two.
        while (job := await redis.lindex(self.taken, 0)) is None:
            await redis.blmove(self.waiting, self.taken, 1, "LEFT", "RIGHT")
        return job

    async def put_back(self) -> None:
        """Leaves the job for later, behind all others."""
        await redis.lmove(self.taken, self.waiting, "LEFT", "RIGHT")

    async def set_aside(self) -> None:
        """Leaves the job for somebody to look at."""
        await redis.lmove(self.taken, self.failed, "LEFT", "RIGHT")

    async def done(self, job: str) -> None:
        await redis.lrem(self.taken, 1, job)


async def run(name: str, at_once: int, work: Callable[[Queue, str], Awaitable[None]]) -> None:
    """Works on the jobs of the queue, several at once, until the process is ended."""

    async def loop(queue: Queue) -> None:
        while True:
            try:
                await attempt(queue, await queue.take())
            except RedisError as error:
                # Out of memory, say, or a replica now. The job is still taken, and is tried again.
                log.warning("Redis refuses: %s", error)
                await asyncio.sleep(1)

    async def attempt(queue: Queue, job: str) -> None:
        try:
            await work(queue, job)
        except RedisError:
            raise
        except Exception:
            # One bad job is no reason to stop, and would fail after a restart too.
            log.exception("this job fails, and is set aside: %s", job)
            await queue.set_aside()

    print(f"{WORKER} waits for Redis", flush=True)
    await redis.ping()
    print(f"{WORKER} works on {name}:jobs", flush=True)
    async with asyncio.TaskGroup() as group:
        for number in range(at_once):
            group.create_task(loop(Queue(name, f"{WORKER}:{number}")))
