//! The worker with a token budget for a language model: it charges exactly the tokens that the model reports, and never
//! reserves more than the budget has.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use serde_json::{json, Value};

use super::program::{python, url, Program};
use super::upstream::{Answer, Upstream};
use super::used;
use crate::common::stats::Counted;
use crate::common::{eventually, free_port, Client, Server};

const LIMIT: i64 = 10_000;

fn worker(server: &Server, upstream: &str, name: &str) -> Program {
    let mut command = python();
    command.arg("llm_worker.py").env("REDIS_URL", url(server)).env("UPSTREAM", upstream).env("WORKER", name);
    Program::start(server, name, &mut command)
}

/// Queues a question for which an [`answering`] model reports this number of tokens.
fn queue(client: &mut Client, id: &str, team: &str, tokens: i64, max_tokens: i64) {
    let prompt = prompt(tokens);
    let job = json!({"id": id, "team": team, "prompt": prompt, "max_tokens": max_tokens}).to_string();
    client.call_bytes(&[b"RPUSH", b"llm:jobs", job.as_bytes()]).expect("queued");
}

/// A prompt of seventy characters.
fn prompt(tokens: i64) -> String {
    format!("{tokens:<70}")
}

/// The worker's estimate for such a question.
fn estimate(max_tokens: i64) -> i64 {
    70 / 4 + 1 + max_tokens
}

/// The number in the prompt of a question, and its `max_tokens`.
fn question(body: &str) -> (i64, i64) {
    let body: Value = serde_json::from_str(body).expect("JSON");
    assert_eq!((&body["messages"][0]["role"], &body["messages"][1]), (&json!("user"), &Value::Null));
    let prompt = body["messages"][0]["content"].as_str().expect("a prompt");
    (prompt.trim_end().parse().expect("a number"), body["max_tokens"].as_i64().expect("a number"))
}

/// The reply of a model that used this number of tokens.
fn answering(tokens: i64) -> (u16, String) {
    let choices = json!([{"message": {"content": format!("{tokens} words")}}]);
    (200, json!({"choices": choices, "usage": {"total_tokens": tokens}}).to_string())
}

/// Waits for `count` results, and returns them by their unique id.
fn results(client: &mut Client, count: usize) -> HashMap<String, Value> {
    eventually("all are done", || client.get::<usize>("LLEN llm:done") >= count);
    eventually("no job is taken", || client.get::<Vec<String>>("KEYS llm:taken:*").is_empty());
    let done: Vec<String> = client.get("LRANGE llm:done 0 -1");
    let done = done.iter().map(|result| serde_json::from_str::<Value>(result).expect("JSON"));
    let results: HashMap<_, _> = done.map(|it| (it["id"].as_str().expect("an id").to_owned(), it)).collect();
    assert_eq!((results.len(), client.get::<usize>("LLEN llm:done")), (count, count), "{results:?}");
    results
}

fn used_by(client: &mut Client, team: &str) -> i64 {
    used(client, &format!("llm:{team}"))
}

#[test]
#[ignore = "needs what `make test-clients` installs"]
fn exactly_the_tokens_that_the_model_reports_are_used() {
    let server = Server::with_clock(&[]);
    let mut client = server.connect();
    let upstream = Upstream::start(|body| Some(answering(question(body).0)));
    let mut workers = ["one", "two"].map(|name| worker(&server, &upstream.url, name));
    let jobs = (0..60).zip(["red", "green", "blue"].into_iter().cycle());
    // Less than the estimate, exactly that, and more.
    let tokens =
        |number| [number, estimate(100), estimate(100) + number][usize::try_from(number % 7 % 3).expect("a few")];
    for (number, team) in jobs.clone() {
        queue(&mut client, &number.to_string(), team, tokens(number), 100);
    }
    let results = results(&mut client, 60);
    let mut expected = BTreeMap::new();
    for (number, team) in jobs {
        let (id, used) = (number.to_string(), tokens(number));
        assert_eq!(results[&id], json!({"id": id, "used": used, "text": format!("{used} words")}));
        *expected.entry(team).or_insert(0) += used;
    }
    for (team, tokens) in expected {
        assert_eq!(used_by(&mut client, team), tokens, "{team}");
    }
    assert!(workers.iter_mut().all(Program::is_running));
}

#[test]
#[ignore = "needs what `make test-clients` installs"]
fn failed_questions_are_refunded_unless_the_model_may_have_used_tokens() {
    let server = Server::with_clock(&[]);
    let mut client = server.connect();
    let choices = json!([{"message": {"content": "text"}}]);
    let answers: [Answer; 8] = [
        Some((500, "{}".to_owned())),
        Some((429, "{}".to_owned())),
        None,
        Some((200, "no JSON".to_owned())),
        Some((200, "[]".to_owned())),
        Some((200, json!({"choices": choices}).to_string())),
        Some((200, json!({"choices": choices, "usage": null}).to_string())),
        Some((200, json!({"choices": choices, "usage": {"total_tokens": null}}).to_string())),
    ];
    let upstream = Upstream::start(move |body| match usize::try_from(question(body).0) {
        Ok(number) if number < answers.len() => answers[number].clone(),
        _ => Some(answering(250)),
    });
    let mut worker = worker(&server, &upstream.url, "one");
    for number in 0..9 {
        queue(&mut client, &format!("job{number}"), "red", number, 100);
    }
    let results = results(&mut client, 9);
    assert_eq!(results["job8"], json!({"id": "job8", "used": 250, "text": "250 words"}));
    for number in 0..8 {
        let result = &results[&format!("job{number}")];
        assert!(result["error"].is_string() && result["used"].is_null(), "{result}");
    }
    // Only the first two are known to have used nothing.
    assert_eq!(used_by(&mut client, "red"), 250 + 6 * estimate(100));
    assert!(worker.is_running());
}

#[test]
#[ignore = "needs what `make test-clients` installs"]
fn an_unreachable_model_costs_nothing() {
    let server = Server::with_clock(&[]);
    let mut client = server.connect();
    let _worker = worker(&server, &format!("http://127.0.0.1:{}/", free_port()), "one");
    (0..10).for_each(|number| queue(&mut client, &format!("job{number}"), "red", 1, 100));
    let results = results(&mut client, 10);
    assert!(results.values().all(|result| result["error"].is_string()), "{results:?}");
    assert_eq!(used_by(&mut client, "red"), 0);
}

#[test]
#[ignore = "needs what `make test-clients` installs"]
fn a_question_above_the_limit_is_rejected_and_one_at_the_limit_is_asked() {
    let server = Server::with_clock(&[]);
    let mut client = server.connect();
    let upstream = Upstream::start(|body| Some(answering(question(body).0)));
    let _worker = worker(&server, &upstream.url, "one");
    let fitting = LIMIT - estimate(0);
    // The model uses more than the limit, and all of it is charged.
    let tokens = LIMIT + 300;
    queue(&mut client, "too large", "red", tokens, fitting + 1);
    queue(&mut client, "fitting", "red", tokens, fitting);
    let results = results(&mut client, 2);
    assert_eq!(results["too large"], json!({"id": "too large", "error": "too large"}));
    assert_eq!(results["fitting"]["used"], json!(tokens));
    assert_eq!(used_by(&mut client, "red"), tokens);
    assert_eq!(upstream.arrivals().len(), 1);
}

/// Of eight questions three fit, and the fourth lacks fifty tokens, which refill in 300 ms.
#[test]
#[ignore = "needs what `make test-clients` installs"]
fn no_more_than_the_budget_is_reserved_and_further_questions_wait() {
    let mut server = Server::with_clock(&[]);
    let mut client = server.connect();
    let (reserved, is_open) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicBool::new(false)));
    let upstream = Upstream::start({
        let (reserved, is_open) = (reserved.clone(), is_open.clone());
        move |body| {
            reserved.fetch_add(estimate(question(body).1), Ordering::SeqCst);
            while !is_open.load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(5));
            }
            Some(answering(question(body).0))
        }
    });
    let cost = 1_000;
    let before = LIMIT - 3 * cost - (cost - 50);
    client.limit(&format!("RL.TOKENBUCKET llm:red 10000 10000/m COST {before}"));
    let _workers = ["one", "two"].map(|name| worker(&server, &upstream.url, name));
    (0..8).for_each(|number| queue(&mut client, &format!("job{number}"), "red", 100, cost - estimate(0)));
    let denied = |client: &mut Client| Counted::of(client.get("RL.STATS")).algorithms["TOKENBUCKET"].denied;
    eventually("five have retried several times", || denied(&mut client) >= 15);
    assert_eq!((reserved.load(Ordering::SeqCst), used_by(&mut client, "red")), (3 * cost, before + 3 * cost));

    server.clock().advance_ms(299);
    let so_far = denied(&mut client);
    eventually("they have retried", || denied(&mut client) >= so_far + 10);
    assert_eq!(reserved.load(Ordering::SeqCst), 3 * cost);
    server.clock().advance_ms(1);
    eventually("a fourth is asked", || reserved.load(Ordering::SeqCst) == 4 * cost);
    let so_far = denied(&mut client);
    eventually("they have retried", || denied(&mut client) >= so_far + 8);
    assert_eq!((reserved.load(Ordering::SeqCst), used_by(&mut client, "red")), (4 * cost, LIMIT));

    is_open.store(true, Ordering::SeqCst);
    results(&mut client, 8);
    assert_eq!(used_by(&mut client, "red"), LIMIT - 4 * cost + 8 * 100);
}

#[test]
#[ignore = "needs what `make test-clients` installs"]
fn invalid_jobs_are_set_aside_and_the_others_done() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    let upstream = Upstream::start(|body| Some(answering(question(body).0)));
    let bad = [
        "no JSON".to_owned(),
        json!({"id": 1}).to_string(),
        json!({"id": 1, "team": "red", "prompt": null, "max_tokens": 5}).to_string(),
        json!({"id": 1, "team": "red", "prompt": "why", "max_tokens": "5"}).to_string(),
        json!({"id": 1, "team": "red", "prompt": "why", "max_tokens": -50}).to_string(),
    ];
    // More than are worked on concurrently.
    let bad = [bad.clone(), bad.clone(), bad].concat();
    for job in &bad {
        client.call_bytes(&[b"RPUSH", b"llm:jobs", job.as_bytes()]).expect("queued");
    }
    queue(&mut client, "good", "red", 100, 100);
    let mut worker = worker(&server, &upstream.url, "one");
    assert_eq!(results(&mut client, 1)["good"]["used"], json!(100));
    eventually("the invalid jobs are set aside", || client.get::<usize>("LLEN llm:failed") == bad.len());
    let failed = client.get::<Vec<String>>("LRANGE llm:failed 0 -1");
    assert_eq!(BTreeSet::from_iter(failed), BTreeSet::from_iter(bad));
    assert!(worker.is_running());
}

#[test]
#[ignore = "needs what `make test-clients` installs"]
fn a_restart_of_redis_loses_no_job_and_no_tokens() {
    let mut server = Server::with_clock(&["--appendonly", "yes"]);
    let upstream = Upstream::start(|body| {
        thread::sleep(Duration::from_millis(50));
        Some(answering(question(body).0))
    });
    let mut worker = worker(&server, &upstream.url, "one");
    let mut client = server.connect();
    let ids: BTreeSet<String> = (0..40).map(|number| format!("job{number}")).collect();
    for id in &ids {
        queue(&mut client, id, "red", 60, 60);
    }
    eventually("some are done", || client.get::<usize>("LLEN llm:done") >= 10);
    server.stop();
    server.start_again_in_place();
    let mut client = server.connect();
    eventually("all are done", || client.get::<Vec<String>>("KEYS llm:[jt]*").is_empty());
    let done: Vec<String> = client.get("LRANGE llm:done 0 -1");
    let done = done.iter().map(|result| serde_json::from_str::<Value>(result).expect("JSON"));
    assert_eq!(done.map(|it| it["id"].as_str().expect("an id").to_owned()).collect::<BTreeSet<_>>(), ids);
    // Estimates may stay charged, but no tokens that the model used are lost.
    assert!(used_by(&mut client, "red") >= 60 * 40);
    assert!(worker.is_running());
}
