"""Stands in for Spring Cloud Gateway in the tests: limits requests like its RedisRateLimiter, with the script SCRIPT."""

import os
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request, Response
from redis.asyncio import Redis
from redis.exceptions import NoScriptError, RedisError

REPLENISH_RATE = os.environ["REPLENISH_RATE"]
BURST_CAPACITY = os.environ["BURST_CAPACITY"]
REQUESTED_TOKENS = os.environ["REQUESTED_TOKENS"]

redis = Redis.from_url(os.environ["REDIS_URL"], socket_timeout=5)
with open(os.environ["SCRIPT"]) as file:
    script = redis.register_script(file.read())


@asynccontextmanager
async def lifespan(_: FastAPI):
    yield
    await redis.aclose()


app = FastAPI(lifespan=lifespan)


async def evaluate(*words: str) -> list[int]:
    """Calls the script by its hash, or sends it if the server does not know it."""
    try:
        return await redis.evalsha(script.sha, *words)
    except NoScriptError:
        return await redis.eval(script.script, *words)


@app.middleware("http")
async def limit(request: Request, call_next):
    principal = request.headers.get("X-Principal")
    if not principal:
        return Response(status_code=403)
    tokens, timestamp = (f"request_rate_limiter.{{{principal}}}.{name}" for name in ("tokens", "timestamp"))
    try:
        allowed, left = await evaluate(2, tokens, timestamp, REPLENISH_RATE, BURST_CAPACITY, "", REQUESTED_TOKENS)
    except RedisError:
        # Like the gateway, fail open.
        allowed, left = 1, -1
    response = await call_next(request) if allowed else Response(status_code=429)
    response.headers["X-RateLimit-Remaining"] = str(left)
    response.headers["X-RateLimit-Requested-Tokens"] = REQUESTED_TOKENS
    response.headers["X-RateLimit-Burst-Capacity"] = BURST_CAPACITY
    response.headers["X-RateLimit-Replenish-Rate"] = REPLENISH_RATE
    return response


@app.get("/")
async def hello():
    return {"hello": "world"}
