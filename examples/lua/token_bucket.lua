-- For callers that must keep EVALSHA. KEYS: the key. ARGV: capacity, rate a second, and a cost if it is not 1.
return redis.call('RL.TOKENBUCKET', KEYS[1], ARGV[1], ARGV[2], 'COST', ARGV[3] or 1)
