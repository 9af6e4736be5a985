// An Express application with rate limits, with ioredis.
//
//   PORT=3000 node app-ioredis.js

import express from "express";
import { Redis } from "ioredis";

import { limit, PATIENCE, REDIS_URL } from "./ratelimit.js";
import { serve } from "./serve.js";

const redis = new Redis(REDIS_URL, {
  // Also ends requests whose connection breaks before the reply.
  commandTimeout: PATIENCE,
  // Without a connection requests fail at once. None is sent again, as it could count twice.
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
  // A connection without replies is closed.
  socketTimeout: 4 * PATIENCE,
  connectTimeout: 4 * PATIENCE,
  retryStrategy: (tries) => Math.min(tries * 50, 500),
});
redis.on("error", (error) => console.error(`redis: ${error.message}`));

const app = express();
app.use(limit((...words) => redis.call(...words)));
app.get("/", (req, res) => res.json({ hello: "world" }));

serve(app, () => redis.disconnect());
