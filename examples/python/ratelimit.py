"""FastAPI middleware that limits requests with redis-ratelimit: what app_async.py and app_sync.py have in common."""

import logging
import os

from fastapi import Request
from fastapi.responses import JSONResponse
from redis.exceptions import RedisError

REDIS_URL = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379")

# When Redis cannot be asked, "open" lets requests pass without a limit, and "closed" answers 503. An API is better
# open, a login closed.
WHEN_REDIS_FAILS = os.environ.get("WHEN_REDIS_FAILS", "open")
if WHEN_REDIS_FAILS not in ("open", "closed"):
    raise ValueError(f"WHEN_REDIS_FAILS must be open or closed, not {WHEN_REDIS_FAILS}")

# How long a request may wait for Redis, in seconds.
PATIENCE = float(os.environ.get("PATIENCE", "0.5"))

# A hundred at once for each user, refilled at a hundred a minute: from empty to full in 60 seconds.
CAPACITY, RATE, WINDOW = 100, "100/m", 60

log = logging.getLogger("uvicorn.error")


def limit(ask):
    """The middleware. `ask` sends a command to Redis, given its words, and is awaited for the reply."""

    async def middleware(request: Request, call_next):
        try:
            reply = await ask("RL.TOKENBUCKET", f"api:{who(request)}", CAPACITY, RATE)
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
    """The user, else the address that the request comes from.

    Whoever can choose a name can choose a limit: have the header and the cookie set by what knows the user, your
    gateway or your login, and do not let clients make them up. Behind a proxy, run uvicorn with --forwarded-allow-ips
    so that the address is the client's.
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
    """Rounded up, so that nobody comes back too early."""
    return -(-ms // 1000)
