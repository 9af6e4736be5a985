-- Token bucket. KEYS: tokens, time of the last refill. ARGV: capacity, rate a second.
local capacity, rate = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local tokens = tonumber(redis.call('GET', KEYS[1])) or capacity
local last = tonumber(redis.call('GET', KEYS[2])) or now
tokens = math.min(capacity, tokens + math.max(0, now - last) * rate)
local allowed = tokens >= 1
local retry = 0
if allowed then
    tokens = tokens - 1
else
    retry = math.ceil((1 - tokens) / rate * 1000)
end
local ttl = math.ceil(capacity / rate) + 1
redis.call('SETEX', KEYS[1], ttl, tokens)
redis.call('SETEX', KEYS[2], ttl, now)
return {allowed and 1 or 0, capacity, math.floor(tokens), retry, math.ceil((capacity - tokens) / rate * 1000)}
