-- For Spring Cloud Gateway's RedisRateLimiter, in place of the script of this name.
-- KEYS: the two keys of that script. ARGV: replenishRate, burstCapacity, a time or nothing, requestedTokens.
if tonumber(ARGV[2]) < 1 then return {0, 0} end -- a burst of zero denies all requests
-- Uses a separate key with the same hash tag, so that gateways with the old script can run at the same time. The rate
-- is formatted by Java, so it may be 1.0E-4.
local rate = string.format('%.12f', ARGV[1])
local reply = redis.call('RL.TOKENBUCKET', KEYS[1] .. ':rl', ARGV[2], rate, 'COST', ARGV[4])
return {reply[1], reply[3]}
