// An Express application with rate limits, with node-redis.
//
//   PORT=3000 node app-node-redis.js

import express from "express";
import { createClient } from "redis";

import { limit, PATIENCE, REDIS_URL } from "./ratelimit.js";
import { serve } from "./serve.js";

const redis = createClient({
  url: REDIS_URL,
  // Without a connection requests fail at once.
  disableOfflineQueue: true,
  // A connection without replies to pings is closed.
  pingInterval: 2 * PATIENCE,
  socket: { connectTimeout: 4 * PATIENCE, socketTimeout: 4 * PATIENCE, reconnectStrategy: (tries) => Math.min(tries * 50, 500) },
});
redis.on("error", (error) => console.error(`redis: ${error.message}`));
// Not awaited, so that the application also starts without Redis. The client retries until the application ends.
redis.connect().catch(() => {});

// The client limits the time in which a command is sent, but not the time until the reply.
async function call(...words) {
  let timer;
  const tooLate = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error("Redis does not reply")), PATIENCE);
  });
  try {
    return await Promise.race([redis.sendCommand(words), tooLate]);
  } finally {
    clearTimeout(timer);
  }
}

const app = express();
app.use(limit(call));
app.get("/", (req, res) => res.json({ hello: "world" }));

serve(app, () => redis.destroy());
