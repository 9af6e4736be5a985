-- Leaky bucket. KEYS: level, time of the last leak. ARGV: capacity, rate a second.
local capacity, rate = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local level = tonumber(redis.call('GET', KEYS[1])) or 0
local last = tonumber(redis.call('GET', KEYS[2])) or now
level = math.max(0, level - (now - last) * rate)
if level + 1 > capacity then
    return {0, capacity, 0, math.ceil((level + 1 - capacity) / rate * 1000), math.ceil(level / rate * 1000), 0}
end
local ttl = math.ceil(capacity / rate) + 1
redis.call('SETEX', KEYS[1], ttl, level + 1)
redis.call('SETEX', KEYS[2], ttl, now)
return {1, capacity, math.floor(capacity - level - 1), 0, math.ceil((level + 1) / rate * 1000), math.ceil(level / rate * 1000)}
