-- Sliding log. KEYS: a sorted set of times. ARGV: limit, window in seconds.
local limit, window = tonumber(ARGV[1]), tonumber(ARGV[2]) * 1000000
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, now - window)
local count = redis.call('ZCARD', KEYS[1])
if count >= limit then
    local oldest = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
    local newest = redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')
    local retry = math.ceil((tonumber(oldest[2]) + window - now) / 1000)
    return {0, limit, 0, retry, math.ceil((tonumber(newest[2]) + window - now) / 1000)}
end
redis.call('ZADD', KEYS[1], now, time[1] .. '.' .. time[2])
redis.call('PEXPIRE', KEYS[1], window / 1000)
return {1, limit, limit - count - 1, 0, window / 1000}
