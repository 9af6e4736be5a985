"""Calls a language model with a token budget for each team: reserves an estimate first, and settles it afterwards.

    redis-cli RPUSH llm:jobs '{"id": 1, "team": "search", "prompt": "Why is the sky blue?", "max_tokens": 500}'
    UPSTREAM=https://model.example/v1/chat/completions WORKER=one python llm_worker.py

Results are pushed to llm:done. While Redis is down, the model is not called.
"""

import asyncio
import json
import logging
from dataclasses import dataclass

import httpx
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from jobs import REDIS_URL, UPSTREAM, Queue, redis, run

log = logging.getLogger("llm")

# For each team bursts of ten thousand tokens, and ten thousand a minute.
CAPACITY, RATE = 10_000, "10000/m"

http = httpx.AsyncClient(timeout=60)

# A command that is retried after a lost reply may run twice. That is safe for reservations and charges, but not for
# refunds.
redis_once = Redis.from_url(REDIS_URL, retry=Retry(NoBackoff(), 0))


@dataclass
class Job:
    id: int | str
    team: str
    prompt: str
    max_tokens: int

    def __post_init__(self) -> None:
        if not (isinstance(self.prompt, str) and isinstance(self.max_tokens, int) and self.max_tokens > 0):
            raise ValueError("a prompt and a number of tokens are needed")


async def take(team: str, tokens: int, *options: str) -> tuple[bool, int]:
    """Takes tokens of the team; returns whether that was allowed, and otherwise the wait."""
    key = f"llm:{team}"
    reply = await redis.execute_command("RL.TOKENBUCKET", key, CAPACITY, RATE, "COST", tokens, *options)
    return reply[0] == 1, reply[3]


async def reserve(team: str, tokens: int) -> bool:
    """Waits until the tokens are available; returns False if they are more than the capacity."""
    while True:
        allowed, retry_ms = await take(team, tokens)
        if allowed or retry_ms < 0:
            return allowed
        await asyncio.sleep(retry_ms / 1000)


async def settle(team: str, reserved: int, used: int) -> None:
    if used > reserved:
        await take(team, used - reserved, "FORCE")
    elif used < reserved:
        try:
            await redis_once.execute_command("RL.REFUND", f"llm:{team}", reserved - used)
        except RedisError as error:
            log.warning("%d tokens of %s were not refunded: %s", reserved - used, team, error)


async def ask(prompt: str, max_tokens: int) -> tuple[str, int]:
    """The answer of the model, and the tokens that it used."""
    question = {"messages": [{"role": "user", "content": prompt}], "max_tokens": max_tokens}
    answer = (await http.post(UPSTREAM, json=question)).raise_for_status().json()
    return answer["choices"][0]["message"]["content"], int(answer["usage"]["total_tokens"])


async def answer(job: Job) -> dict:
    # A token has about four characters in English.
    estimate = len(job.prompt) // 4 + 1 + job.max_tokens
    if not await reserve(job.team, estimate):
        return {"error": "too large"}
    # If the response is lost or invalid, the model may have used tokens.
    used = estimate
    try:
        text, used = await ask(job.prompt, job.max_tokens)
        return {"used": used, "text": text}
    except (httpx.ConnectError, httpx.ConnectTimeout, httpx.HTTPStatusError) as error:
        used = 0
        return {"error": repr(error)}
    except (httpx.HTTPError, ValueError, LookupError, TypeError) as error:
        return {"error": repr(error)}
    finally:
        await settle(job.team, estimate, used)


async def work(queue: Queue, text: str) -> None:
    job = Job(**json.loads(text))
    await redis.rpush("llm:done", json.dumps({"id": job.id, **await answer(job)}))
    await queue.done(text)


if __name__ == "__main__":
    asyncio.run(run("llm", at_once=8, work=work))
