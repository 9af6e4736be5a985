-- Fixed window. KEYS: a counter, named after the window by the script. ARGV: limit, window in seconds.
local limit, window = tonumber(ARGV[1]), tonumber(ARGV[2]) * 1000
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local key = KEYS[1] .. ':' .. math.floor(now / window)
local reset = window - now % window
local count = tonumber(redis.call('GET', key) or '0')
if count >= limit then
    return {0, limit, 0, reset, reset}
end
redis.call('INCR', key)
if count == 0 then
    redis.call('PEXPIRE', key, reset)
end
return {1, limit, limit - count - 1, 0, reset}
