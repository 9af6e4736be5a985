"""A FastAPI application with rate limits, with redis-py's blocking client.

    uvicorn app_sync:app

Blocking calls run in FastAPI's forty threads. While Redis hangs, each thread waits for up to PATIENCE seconds, and
further requests wait for a thread. app_async.py has no such bottleneck.
"""

from functools import partial

from fastapi import FastAPI
from fastapi.concurrency import run_in_threadpool
from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from ratelimit import PATIENCE, REDIS_URL, limit

# There are no retries, as a command could count twice.
redis = Redis.from_url(
    REDIS_URL, socket_timeout=PATIENCE, socket_connect_timeout=PATIENCE, retry=Retry(NoBackoff(), 0)
)

app = FastAPI()
app.middleware("http")(limit(partial(run_in_threadpool, redis.execute_command)))


@app.get("/")
def hello():
    return {"hello": "world"}
