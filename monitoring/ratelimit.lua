#!lua flags=no-writes,allow-stale
-- What RL.STATS counts, for Prometheus, by the exporter that is usual for Redis (redis_exporter; Debian's package is
-- prometheus-redis-exporter):
--
--   prometheus-redis-exporter -redis.addr redis://127.0.0.1:6379 -script monitoring/ratelimit.lua
--
-- It makes a sample of redis_script_values of each number; the label `key` says which one it is:
--
--   ratelimit:keys, ratelimit:log_bytes, ratelimit:counted_since_ms
--   ratelimit:algorithms:TOKENBUCKET:allowed     also :denied, :forced, :refunded and :keys, of each algorithm
--   ratelimit:policies:login:allowed             the same of each policy
--
-- The name of a policy may have colons, what follows it has none: "ratelimit:policies:(.+):denied" finds any name.
-- Versions of the exporter after 1.45 add a label `filename`, which nothing here needs.
--
-- A user for the exporter, who can read no key. The first line is enough for all of this and for grafana.json; the
-- others are for what else the exporter asks, which would fill ACL LOG (CONFIG GET shows the passwords that are in the
-- configuration):
--
--   ACL SETUSER exporter on >secret +info +eval +rl.stats
--   ACL SETUSER exporter +config|get +client|setname +cluster|info
--   ACL SETUSER exporter +latency|latest +latency|histogram +slowlog|get +slowlog|len

local stats = redis.pcall('RL.STATS')
if stats.err then
    -- A server without the module is as well as any other: the exporter takes an error for one that is down.
    return string.find(stats.err, '^ERR Unknown') and {} or stats
end

local samples = {}

-- Maps are lists here, of names and values by turns.
local function add(prefix, map)
    for i = 1, #map, 2 do
        local name, value = prefix .. ':' .. map[i], map[i + 1]
        if type(value) == 'table' then
            add(name, value)
        elseif type(value) == 'number' then
            -- The exporter takes nothing but text.
            table.insert(samples, name)
            table.insert(samples, tostring(value))
        end
    end
end

add('ratelimit', stats)
return samples
