// An Express application whose requests are limited, with node-redis.
//
//   PORT=3000 node app-node-redis.js

import express from "express";
import { createClient } from "redis";

import { limit, PATIENCE, REDIS_URL } from "./ratelimit.js";
import { serve } from "./serve.js";

const redis = createClient({
  url: REDIS_URL,
  // While there is no connection, requests fail at once instead of being kept for later.
  disableOfflineQueue: true,
  // A connection that is silent, though it is pinged, is given up.
  pingInterval: 2 * PATIENCE,
  socket: { connectTimeout: 4 * PATIENCE, socketTimeout: 4 * PATIENCE, reconnectStrategy: (tries) => Math.min(tries * 50, 500) },
});
redis.on("error", (error) => console.error(`redis: ${error.message}`));
// Not awaited: the application starts without Redis too. It goes on trying, and gives up only when it ends.
redis.connect().catch(() => {});

// The client bounds how long a command waits to be sent, not how long it waits for the reply.
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
