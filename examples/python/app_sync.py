"""A FastAPI application whose requests are limited, with redis-py's ordinary client.

    uvicorn app_sync:app

Blocking calls are made in threads, of which FastAPI has forty. While Redis hangs, each of them waits for as long as
PATIENCE says, and further requests wait for a thread; app_async.py has no such bound.
"""

from functools import partial

from fastapi import FastAPI
from fastapi.concurrency import run_in_threadpool
from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from ratelimit import PATIENCE, REDIS_URL, limit

# There are no retries: one could take twice from the limit.
redis = Redis.from_url(
    REDIS_URL, socket_timeout=PATIENCE, socket_connect_timeout=PATIENCE, retry=Retry(NoBackoff(), 0)
)

app = FastAPI()
app.middleware("http")(limit(partial(run_in_threadpool, redis.execute_command)))


@app.get("/")
def hello():
    return {"hello": "world"}
