"""A FastAPI application with rate limits, with redis-py's asyncio client.

    uvicorn app_async:app
"""

from contextlib import asynccontextmanager

from fastapi import FastAPI
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from ratelimit import PATIENCE, REDIS_URL, limit

# When all connections are busy, a request waits for one, where the default pool raises an error. There are no retries,
# as a command could count twice.
pool = BlockingConnectionPool.from_url(
    REDIS_URL,
    max_connections=50,
    timeout=PATIENCE,
    socket_timeout=PATIENCE,
    socket_connect_timeout=PATIENCE,
    retry=Retry(NoBackoff(), 0),
)
redis = Redis.from_pool(pool)


@asynccontextmanager
async def lifespan(_: FastAPI):
    yield
    await redis.aclose()


app = FastAPI(lifespan=lifespan)
app.middleware("http")(limit(redis.execute_command))


@app.get("/")
async def hello():
    return {"hello": "world"}
