"""A reliable queue of jobs in Redis. Used by mail_worker.py and llm_worker.py.

A worker keeps its job in a list until it is done, and finds it there after a crash, by its name. So each job is done at
least once. Invalid jobs are set aside in `{name}:failed`. All jobs must differ.
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

# Commands wait until Redis is back, as there are no jobs and no limits without it.
redis = Redis.from_url(REDIS_URL, decode_responses=True, retry=Retry(ConstantBackoff(0.2), -1))


class Queue:
    """The jobs `{name}:jobs`, and the one that this worker has taken."""

    def __init__(self, name: str, worker: str) -> None:
        self.waiting, self.taken, self.failed = f"{name}:jobs", f"{name}:taken:{worker}", f"{name}:failed"

    async def take(self) -> str:
        """The job that is not done yet, else the next one."""
        # Read from the list after a move too: a move whose reply is lost is retried, and then moves two jobs.
        while (job := await redis.lindex(self.taken, 0)) is None:
            await redis.blmove(self.waiting, self.taken, 1, "LEFT", "RIGHT")
        return job

    async def put_back(self) -> None:
        """Puts the job at the end of the queue."""
        await redis.lmove(self.taken, self.waiting, "LEFT", "RIGHT")

    async def set_aside(self) -> None:
        """Moves the job to the list of failed jobs."""
        await redis.lmove(self.taken, self.failed, "LEFT", "RIGHT")

    async def done(self, job: str) -> None:
        await redis.lrem(self.taken, 1, job)


async def run(name: str, at_once: int, work: Callable[[Queue, str], Awaitable[None]]) -> None:
    """Works on the jobs of the queue, several concurrently, until the process ends."""

    async def loop(queue: Queue) -> None:
        while True:
            try:
                await attempt(queue, await queue.take())
            except RedisError as error:
                # Redis may be out of memory or a replica, for example. The job is still taken, and is retried.
                log.warning("Redis replied with an error: %s", error)
                await asyncio.sleep(1)

    async def attempt(queue: Queue, job: str) -> None:
        try:
            await work(queue, job)
        except RedisError:
            raise
        except Exception:
            # An invalid job would fail again, so it must not stop the worker.
            log.exception("the job failed and is set aside: %s", job)
            await queue.set_aside()

    print(f"{WORKER} waits for Redis", flush=True)
    await redis.ping()
    print(f"{WORKER} works on {name}:jobs", flush=True)
    async with asyncio.TaskGroup() as group:
        for number in range(at_once):
            group.create_task(loop(Queue(name, f"{WORKER}:{number}")))
