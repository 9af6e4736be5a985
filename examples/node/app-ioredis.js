// An Express application whose requests are limited, with ioredis.
//
//   PORT=3000 node app-ioredis.js

import express from "express";
import { Redis } from "ioredis";

import { limit, PATIENCE, REDIS_URL } from "./ratelimit.js";
import { serve } from "./serve.js";

const redis = new Redis(REDIS_URL, {
  // Also what ends requests whose connection breaks before the reply.
  commandTimeout: PATIENCE,
  // While there is no connection, requests fail at once instead of being kept for later; and none is sent again, which
  // could take twice from the limit.
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
  // A connection that leaves requests without a reply is given up.
  socketTimeout: 4 * PATIENCE,
  connectTimeout: 4 * PATIENCE,
  retryStrategy: (tries) => Math.min(tries * 50, 500),
});
redis.on("error", (error) => console.error(`redis: ${error.message}`));

const app = express();
app.use(limit((...words) => redis.call(...words)));
app.get("/", (req, res) => res.json({ hello: "world" }));

serve(app, () => redis.disconnect());
