"""FastAPI middleware that limits requests with redis-ratelimit. Used by app_async.py and app_sync.py."""

import logging
import os

from fastapi import Request
from fastapi.responses import JSONResponse
from redis.exceptions import RedisError

REDIS_URL = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379")

# While Redis fails, "open" lets requests pass without a limit, and "closed" responds with 503. Choose "open" for an API
# and "closed" for a login.
WHEN_REDIS_FAILS = os.environ.get("WHEN_REDIS_FAILS", "open")
if WHEN_REDIS_FAILS not in ("open", "closed"):
    raise ValueError(f"WHEN_REDIS_FAILS must be open or closed, not {WHEN_REDIS_FAILS}")

# How long a request may wait for Redis, in seconds.
PATIENCE = float(os.environ.get("PATIENCE", "0.5"))

# Bursts of a hundred requests for each user, refilled at a hundred a minute, so in 60 seconds.
CAPACITY, RATE, WINDOW = 100, "100/m", 60

log = logging.getLogger("uvicorn.error")


def limit(call):
    """The middleware. `call` sends a command, given its words, to Redis, and returns an awaitable of the reply."""

    async def middleware(request: Request, call_next):
        try:
            reply = await call("RL.TOKENBUCKET", f"api:{who(request)}", CAPACITY, RATE)
        except RedisError as error:
            log.warning("Redis cannot be asked: %s", error)
            return await call_next(request) if WHEN_REDIS_FAILS == "open" else unavailable()
        allowed, limit, remaining, retry_ms, reset_ms = reply
        response = await call_next(request) if allowed else too_many_requests(retry_ms)
        response.headers["RateLimit-Policy"] = f'"default";q={limit};w={WINDOW}'
        response.headers["RateLimit"] = f'"default";r={remaining};t={seconds(reset_ms)}'
        return response

    return middleware


def who(request: Request) -> str:
    """The key of a request: its user, else its address.

    Only your gateway or your login may set the header and the cookie: a client that can choose its name can evade its
    limit. Behind a proxy, run uvicorn with --forwarded-allow-ips so that the address is the client's.
    """
    if user := request.headers.get("X-User-Id") or request.cookies.get("user_id"):
        return f"user:{user}"
    return f"address:{request.client.host}" if request.client else "anonymous"


def too_many_requests(retry_ms: int) -> JSONResponse:
    body = {"error": "too many requests", "retry_after_ms": retry_ms}
    return JSONResponse(body, 429, {"Retry-After": str(seconds(retry_ms))})


def unavailable() -> JSONResponse:
    return JSONResponse({"error": "the rate limiter is not available"}, 503, {"Retry-After": "1"})


def seconds(ms: int) -> int:
    """Rounded up, so that no client retries too early."""
    return -(-ms // 1000)
