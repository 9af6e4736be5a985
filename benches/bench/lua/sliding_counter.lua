-- Sliding counter. KEYS: a counter, named after the window by the script. ARGV: limit, window in seconds.
local limit, window = tonumber(ARGV[1]), tonumber(ARGV[2]) * 1000
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local index = math.floor(now / window)
local left = window - now % window
local key = KEYS[1] .. ':' .. index
local current = tonumber(redis.call('GET', key) or '0')
local previous = tonumber(redis.call('GET', KEYS[1] .. ':' .. (index - 1)) or '0')
local used = math.floor(previous * left / window) + current
if used >= limit then
    return {0, limit, 0, left, left + window}
end
redis.call('INCR', key)
redis.call('PEXPIRE', key, left + window)
return {1, limit, limit - used - 1, 0, left + window}
