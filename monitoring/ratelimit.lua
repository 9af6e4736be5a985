#!lua flags=no-writes,allow-stale
-- The counters of RL.STATS for Prometheus, by redis_exporter (in Debian prometheus-redis-exporter):
--
--   prometheus-redis-exporter -redis.addr redis://127.0.0.1:6379 -script monitoring/ratelimit.lua
--
-- Each number is a sample of redis_script_values, named by the label `key`:
--
--   ratelimit:keys, ratelimit:log_bytes, ratelimit:counted_since_ms
--   ratelimit:algorithms:TOKENBUCKET:allowed     also :denied, :forced, :refunded and :keys, for each algorithm
--   ratelimit:policies:login:allowed             the same for each policy
--
-- Names of policies may contain colons: "ratelimit:policies:(.+):denied" matches any name. Versions of the exporter
-- after 1.45 add a label `filename`, which is not used here.
--
-- A user for the exporter without access to keys. The first line is enough for this script and for grafana.json. The
-- others allow the exporter's own commands, which would otherwise fill ACL LOG. (CONFIG GET shows passwords in the
-- configuration.)
--
--   ACL SETUSER exporter on >secret +info +eval +rl.stats
--   ACL SETUSER exporter +config|get +client|setname +cluster|info
--   ACL SETUSER exporter +latency|latest +latency|histogram +slowlog|get +slowlog|len

local stats = redis.pcall('RL.STATS')
if stats.err then
    -- No samples for a server without the module, as the exporter takes an error for an outage.
    return string.find(stats.err, '^ERR Unknown') and {} or stats
end

local samples = {}

-- Maps are lists of alternating names and values here.
local function add(prefix, map)
    for i = 1, #map, 2 do
        local name, value = prefix .. ':' .. map[i], map[i + 1]
        if type(value) == 'table' then
            add(name, value)
        elseif type(value) == 'number' then
            -- The exporter needs strings.
            table.insert(samples, name)
            table.insert(samples, tostring(value))
        end
    end
end

add('ratelimit', stats)
return samples
