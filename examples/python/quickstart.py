import redis.asyncio as redis
from fastapi import FastAPI, HTTPException, Request

app, r = FastAPI(), redis.Redis()

@app.get("/")
async def hello(request: Request):
    # Ten at once for each address, then one a second.
    allowed, _, _, retry_ms, _ = await r.execute_command("RL.TOKENBUCKET", f"hello:{request.client.host}", 10, 1)
    if not allowed:
        raise HTTPException(429, headers={"Retry-After": str(-(-retry_ms // 1000))})
    return {"hello": "world"}
