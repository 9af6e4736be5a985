//! Metrics by `redis_exporter`: every number of `RL.STATS`, and a dashboard whose queries find series.

#![allow(clippy::float_cmp)] // all are integers, and exact

mod dashboard;
mod exporter;
mod promql;
mod samples;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;

use redis::Value;

use crate::common::policies::set_policies;
use crate::common::{eventually, Client, Server, FREE_PORT};
use dashboard::{list, number, text, Dashboard};
use exporter::{only, Exporter, SCRIPT};
use promql::evaluate;
use samples::{Labels, Sample, NAME};

/// Each algorithm with a limit of 2 that lasts for hours.
const LIMITS: [(&str, &str); 5] = [
    ("TOKENBUCKET", "2 1/h"),
    ("LEAKYBUCKET", "2 1/h"),
    ("FIXEDWINDOW", "2 100w"),
    ("SLIDINGLOG", "2 1d"),
    ("SLIDINGCOUNTER", "2 100w"),
];
/// Names that resemble other parts of a sample's key.
const POLICIES: [&str; 4] = ["login", "a:b/c.d-e_f:denied", "ratelimit:policies:x:keys", "never_used"];

/// The counters of algorithms and policies.
const FIELDS: [&str; 5] = ["allowed", "denied", "forced", "refunded", "keys"];
/// The counters by name and field.
type Rows = HashMap<String, HashMap<String, f64>>;

fn set_all_policies(client: &mut Client) {
    let lines = POLICIES.map(|name| format!("{name} SLIDINGLOG 2 1d TOKENBUCKET 2 1/h"));
    set_policies(client, &lines.each_ref().map(String::as_str));
}

/// Sends to each algorithm, and to each policy but the last, two requests that are allowed, two that are denied, one of
/// them with force, and a refund. And a request of quantity zero, which does not count.
fn send_traffic(client: &mut Client, key: &str) {
    let algorithms = LIMITS.map(|(name, limit)| (format!("RL.{name} {name}:{key} {limit}"), format!("{name}:{key}")));
    let policies = POLICIES[..3].iter().map(|name| (format!("RL.CHECK {name} {name}:{key}"), format!("{name}:{key}")));
    for (request, key) in algorithms.into_iter().chain(policies) {
        for options in ["", "", "", "FORCE"] {
            client.get::<Value>(&format!("{request} {options}"));
        }
        client.get::<Value>(&format!("RL.REFUND {key} 1"));
    }
    client.get::<Value>("CL.THROTTLE none 1 1 60 0");
}

/// The numbers of `RL.STATS` by the names of the script's samples.
fn stats(client: &mut Client) -> BTreeMap<String, f64> {
    let mut reply: HashMap<String, Value> = client.get("RL.STATS");
    let mut named = BTreeMap::new();
    for name in ["keys", "log_bytes", "counted_since_ms"] {
        let value = redis::from_redis_value(reply.remove(name).expect("a value")).expect("a number");
        named.insert(format!("ratelimit:{name}"), value);
    }
    for kind in ["algorithms", "policies"] {
        let rows: Rows = redis::from_redis_value(reply.remove(kind).expect("a value")).expect("rows");
        for (name, row) in rows {
            named.extend(FIELDS.map(|field| (format!("ratelimit:{kind}:{name}:{field}"), row[field])));
        }
    }
    named
}

/// The script's samples of a scrape without errors.
fn scripted(samples: &[Sample]) -> BTreeMap<String, f64> {
    assert_eq!(only(samples, "redis_up").expect("a sample").value, 1.0);
    let error = only(samples, "redis_exporter_last_scrape_error").expect("a sample");
    assert_eq!((error.labels["err"].as_str(), error.value), ("", 0.0));
    // Newer exporters have this sample: 1, or 2 without values.
    assert!(only(samples, "redis_script_result").is_none_or(|result| result.value != 0.0));
    let scripted: Vec<_> = samples.iter().filter(|sample| sample.labels[NAME] == "redis_script_values").collect();
    let named: BTreeMap<_, _> = scripted.iter().map(|it| (it.labels["key"].clone(), it.value)).collect();
    assert_eq!(named.len(), scripted.len(), "a key occurs twice");
    named
}

fn labels(samples: Vec<Sample>) -> Vec<Labels> {
    samples.into_iter().map(|sample| sample.labels).collect()
}

#[test]
fn every_number_of_stats_is_a_sample() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    let exporter = Exporter::start(&server, &[]);
    // All zero, and no policies.
    let idle = scripted(&exporter.scrape());
    assert_eq!(idle, stats(&mut client));
    assert_eq!(idle.len(), 3 + 5 * 5);

    set_all_policies(&mut client);
    send_traffic(&mut client, "user");
    let busy = scripted(&exporter.scrape());
    assert_eq!(busy, stats(&mut client));
    let algorithms = LIMITS.map(|(name, _)| format!("algorithms:{name}"));
    for name in algorithms.into_iter().chain(POLICIES[..3].iter().map(|name| format!("policies:{name}"))) {
        let counted = FIELDS.map(|field| busy[&format!("ratelimit:{name}:{field}")]);
        assert_eq!(counted, [2.0, 2.0, 1.0, 1.0, 1.0], "{name}");
    }
    assert_eq!(busy["ratelimit:policies:never_used:allowed"], 0.0);
    assert_eq!(busy["ratelimit:keys"], 8.0);
    assert!(busy["ratelimit:log_bytes"] > 0.0);

    send_traffic(&mut client, "user");
    send_traffic(&mut client, "another");
    client.get::<()>("RL.POLICY DEL never_used");
    let busier = scripted(&exporter.scrape());
    assert_eq!(busier, stats(&mut client));
    assert!(!busier.contains_key("ratelimit:policies:never_used:allowed"));
    assert!(busier["ratelimit:policies:login:denied"] > busy["ratelimit:policies:login:denied"]);
    assert_eq!(busier["ratelimit:keys"], 16.0);

    client.get::<()>("RL.STATS RESET");
    let reset = scripted(&exporter.scrape());
    assert_eq!(reset, stats(&mut client));
    assert_eq!((reset["ratelimit:policies:login:denied"], reset["ratelimit:keys"]), (0.0, 16.0));
    assert!(reset["ratelimit:counted_since_ms"] >= busier["ratelimit:counted_since_ms"]);
}

#[test]
fn it_works_while_writes_fail() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    let exporter = Exporter::start(&server, &[]);
    set_all_policies(&mut client);
    send_traffic(&mut client, "user");
    let expected = stats(&mut client);
    client.get::<()>("CONFIG SET maxmemory 1");
    assert!(client.error("RL.CHECK login new").starts_with("OOM"));
    assert_eq!(scripted(&exporter.scrape()), expected, "memory is full");
    client.get::<()>("CONFIG SET maxmemory 0");
    // As in a failover.
    client.get::<()>("CLIENT PAUSE 1000000 WRITE");
    assert_eq!(scripted(&exporter.scrape()), expected, "clients are paused");
    client.get::<()>("CLIENT UNPAUSE");
    client.get::<()>("CONFIG SET replica-serve-stale-data no");
    client.get::<()>("REPLICAOF 127.0.0.1 1");
    assert!(client.error("RL.PEEK TOKENBUCKET:user").starts_with("MASTERDOWN"));
    assert_eq!(scripted(&exporter.scrape()), expected, "a replica has lost its primary");
}

#[test]
fn a_server_without_the_module_is_up_and_has_no_samples() {
    let server = Server::without_module();
    let exporter = Exporter::start(&server, &[]);
    assert_eq!(scripted(&exporter.scrape()), BTreeMap::new());
}

#[test]
fn an_error_is_reported() {
    let server = Server::start(&[]);
    server.connect().get::<()>("ACL SETUSER exporter on >secret +info +eval");
    let exporter = Exporter::start(&server, &["-redis.user", "exporter", "-redis.password", "secret"]);
    let samples = exporter.scrape();
    assert_eq!(only(&samples, "redis_up").expect("a sample").value, 0.0);
    let error = only(&samples, "redis_exporter_last_scrape_error").expect("a sample");
    assert!(!error.labels["err"].is_empty() && error.value == 1.0, "{error:?}");
}

#[test]
fn the_permissions_in_the_script_are_enough() {
    let script = fs::read_to_string(SCRIPT).expect("a script");
    let lines = script.lines().filter_map(|line| line.strip_prefix("--   "));
    let lines: Vec<_> = lines.filter(|line| line.starts_with("ACL SETUSER exporter ")).collect();
    let (enough, others) = lines.split_first().expect("a line that makes the user");
    for settings in [&[][..], &["--cluster-enabled", "yes", "--cluster-port", FREE_PORT]] {
        let server = Server::start(settings);
        let mut client = server.connect();
        if !settings.is_empty() {
            client.get::<()>("CLUSTER ADDSLOTSRANGE 0 16383");
            eventually("the cluster is ready", || client.get::<String>("CLUSTER INFO").contains("cluster_state:ok"));
        }
        set_all_policies(&mut client);
        send_traffic(&mut client, "user");
        client.get::<()>(enough);
        let exporter = Exporter::start(&server, &["-redis.user", "exporter", "-redis.password", "secret"]);
        let samples = exporter.scrape();
        assert_eq!(scripted(&samples), stats(&mut client));
        check(&Dashboard::read(), &labels(samples));

        // With the other permissions nothing is logged in ACL LOG.
        for line in others.iter().chain([&"ACL LOG RESET"]) {
            client.get::<()>(line);
        }
        assert_eq!(scripted(&exporter.scrape()), stats(&mut client));
        assert_eq!(client.get::<Vec<Value>>("ACL LOG"), []);
        let mut user = server.connect();
        user.get::<()>("AUTH exporter secret");
        for command in
            ["RL.STATS RESET", "RL.PEEK TOKENBUCKET:user", "RL.CHECK login new", "CONFIG SET maxmemory 1", "GET key"]
        {
            assert!(user.error(command).starts_with("NOPERM"), "{command}");
        }
    }
}

#[test]
fn every_query_of_the_dashboard_finds_series() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    let exporter = Exporter::start(&server, &[]);
    set_all_policies(&mut client);
    send_traffic(&mut client, "user");
    let series = labels(exporter.scrape());
    let dashboard = Dashboard::read();
    let shown = check(&dashboard, &series);
    let values =
        |label: &str| shown.iter().filter_map(|series| series.get(label)).map(String::as_str).collect::<BTreeSet<_>>();
    assert_eq!(values("algorithm"), LIMITS.iter().map(|it| it.0).collect());
    assert_eq!(values("policy"), POLICIES.into_iter().collect());
    assert!(values("cmd").contains("RL.REFUND") && !values("cmd").contains("config|get"));
    // The variable for instances.
    let variable = dashboard.variable("instance");
    assert_eq!(variable["query"]["query"], variable["definition"]);
    let query = text(&variable["definition"]);
    let selector = query.strip_prefix("label_values(").and_then(|it| it.strip_suffix(", instance)")).expect("a query");
    assert_eq!(evaluate(selector, &series).expect("instances").len(), 1);

    // Misspelt queries are detected.
    for (right, wrong) in [
        ("redis_", "redis_script_"),
        ("_values", "_value"),
        ("_total", ""),
        ("policies:", "policy:"),
        (":denied", ":refused"),
        ("ratelimit:keys", "ratelimit:key"),
        (", key", ", name"),
        ("\"key\"", "\"name\""),
        ("(.+)", "([0-9]+)"),
        ("cmd=", "command="),
        ("(rl|cl)", "(rl|ck)"),
        ("|policies)", "|policy)"),
        ("master", "primary"),
        ("by (policy)", "by (policies)"),
        ("on (instance)", "on (instance, key)"),
        ("rate(", "rates("),
        ("[$__rate_interval]", ""),
        ("}", ""),
        (")", "))"),
    ] {
        let expressions = dashboard.shown().into_iter().map(|shown| shown.expression);
        let spoilt: Vec<_> = expressions.filter(|it| it.contains(right)).map(|it| it.replace(right, wrong)).collect();
        assert!(!spoilt.is_empty(), "{right}");
        for expression in spoilt {
            assert!(evaluate(&expression, &series).is_err(), "{expression}");
        }
    }
}

/// Checks that every expression of a dashboard finds series, with the labels of its legend. Returns all series.
fn check(dashboard: &Dashboard, series: &[Labels]) -> Vec<Labels> {
    let mut all = Vec::new();
    for shown in dashboard.shown() {
        let found = evaluate(&shown.expression, series);
        let found = found.unwrap_or_else(|error| panic!("{}: {error}: {}", shown.panel, shown.expression));
        assert!(!found.is_empty(), "{}: {}", shown.panel, shown.expression);
        for label in shown.legend.split("{{").skip(1).map(|part| part.split("}}").next().unwrap_or_default()) {
            assert!(found.iter().all(|series| series.contains_key(label)), "{}: {label} in {found:?}", shown.panel);
        }
        all.extend(found);
    }
    all
}

#[test]
fn the_dashboard_is_well_formed() {
    let dashboard = Dashboard::read();
    let data_source = dashboard.variable("datasource");
    assert_eq!((&data_source["type"], &data_source["query"]), (&"datasource".into(), &"prometheus".into()));
    let (mut ids, mut taken) = (BTreeSet::new(), BTreeSet::new());
    for panel in dashboard.panels() {
        let title = text(&panel["title"]);
        assert!(ids.insert(number(&panel["id"])), "{title}");
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|side| number(&panel["gridPos"][side]));
        assert!(w > 0 && h > 0 && x + w <= 24, "{title}");
        let squares = (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y)));
        squares.for_each(|square| assert!(taken.insert(square), "{title} is where another panel is"));
        if panel["type"] == "row" {
            assert_eq!(list(&panel["panels"]), [] as [serde_json::Value; 0], "{title}");
            continue;
        }
        assert_eq!(
            (text(&panel["datasource"]["type"]), text(&panel["datasource"]["uid"])),
            ("prometheus", "${datasource}")
        );
        assert!(!text(&panel["fieldConfig"]["defaults"]["unit"]).is_empty(), "{title}");
        let targets = list(&panel["targets"]);
        let names: BTreeSet<_> = targets.iter().map(|target| text(&target["refId"])).collect();
        assert!(!targets.is_empty() && names.len() == targets.len(), "{title}");
        // Exactly the chosen instances; roles are selected by instance.
        let mut selectors = targets.iter().flat_map(|target| text(&target["expr"]).split('{').skip(1));
        let chosen = |selector: &str| ["instance=~\"$instance\"", "role="].iter().any(|it| selector.starts_with(it));
        assert!(selectors.all(chosen), "{title}");
    }
    // No gaps either.
    let height = taken.iter().map(|square| square.1 + 1).max().unwrap_or_default();
    assert_eq!(u64::try_from(taken.len()), Ok(24 * height));
}
