-- For Spring Cloud Gateway's RedisRateLimiter, in place of the script of this name.
-- KEYS: the names of its two keys. ARGV: replenishRate, burstCapacity, a time or nothing, requestedTokens.
if tonumber(ARGV[2]) < 1 then return {0, 0} end -- a burst of nothing lets nothing pass
-- A key of its own beside those of the former script, so that gateways with either script work side by side; it has
-- their hash tag. The rate comes as Java writes it, which may be 1.0E-4.
local rate = string.format('%.12f', ARGV[1])
local reply = redis.call('RL.TOKENBUCKET', KEYS[1] .. ':rl', ARGV[2], rate, 'COST', ARGV[4])
return {reply[1], reply[3]}
