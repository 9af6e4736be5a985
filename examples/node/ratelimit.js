// Express middleware that limits requests with redis-ratelimit, for any client. Used by app-node-redis.js and
// app-ioredis.js.

import { parse } from "cookie";

export const REDIS_URL = process.env.REDIS_URL ?? "redis://127.0.0.1:6379";

// While Redis fails, "open" lets requests pass without a limit, and "closed" responds with 503. Choose "open" for an
// API and "closed" for a login.
const WHEN_REDIS_FAILS = process.env.WHEN_REDIS_FAILS ?? "open";
if (!["open", "closed"].includes(WHEN_REDIS_FAILS)) {
  throw new Error(`WHEN_REDIS_FAILS must be open or closed, not ${WHEN_REDIS_FAILS}`);
}

// How long a request may wait for Redis, in milliseconds; the variable is in seconds.
export const PATIENCE = Number(process.env.PATIENCE ?? "0.5") * 1000;

// Bursts of a hundred requests for each user, refilled at a hundred a minute, so in 60 seconds.
const [CAPACITY, RATE, WINDOW] = ["100", "100/m", 60];

// `call` sends a command, given its words, to Redis, and returns a promise of the reply.
export function limit(call) {
  return async (req, res, next) => {
    let reply;
    try {
      reply = await call("RL.TOKENBUCKET", `api:${who(req)}`, CAPACITY, RATE);
    } catch (error) {
      console.error(`Redis cannot be asked: ${error.message}`);
      if (WHEN_REDIS_FAILS === "open") return next();
      return res.status(503).set("Retry-After", "1").json({ error: "the rate limiter is not available" });
    }
    const [allowed, limit, remaining, retryMs, resetMs] = reply;
    res.set("RateLimit-Policy", `"default";q=${limit};w=${WINDOW}`);
    res.set("RateLimit", `"default";r=${remaining};t=${Math.ceil(resetMs / 1000)}`);
    if (allowed) return next();
    res.status(429).set("Retry-After", String(Math.ceil(retryMs / 1000)));
    res.json({ error: "too many requests", retry_after_ms: retryMs });
  };
}

// The key of a request: its user, else its address.
//
// Only your gateway or your login may set the header and the cookie: a client that can choose its name can evade its
// limit. Behind a proxy, use Express's "trust proxy" so that the address is the client's.
function who(req) {
  const user = req.get("X-User-Id") || parse(req.headers.cookie ?? "", { decode: String }).user_id;
  if (user) return `user:${user}`;
  return req.ip ? `address:${req.ip}` : "anonymous";
}
