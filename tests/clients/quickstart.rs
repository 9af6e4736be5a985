//! The quick start program of the README.

use std::fs;

use serde_json::json;

use super::http::{get, Message};
use super::program::{read, uvicorn, Service};
use super::web::load;
use crate::common::{eventually, Server};

const FILE: &str = "examples/python/quickstart.py";

/// The program from its file, with the server's port.
fn start(server: &Server) -> Service {
    let program = read(FILE);
    assert_eq!(program.matches("redis.Redis()").count(), 1);
    let program = program.replace("redis.Redis()", &format!("redis.Redis(port={})", server.port));
    fs::write(server.folder().join("quickstart.py"), program).expect("written");
    Service::start(server, "quickstart", |address| {
        let mut command = uvicorn("quickstart:app", address);
        command.current_dir(server.folder());
        command
    })
}

fn assert_denied(answer: &Message) {
    assert_eq!((answer.status(), answer.header("Retry-After")), (429, Some("1")), "{answer:?}");
}

#[test]
#[ignore = "needs what `make test-clients` installs"]
fn it_is_in_the_readme() {
    let block = format!("\n```python\n{}```\n", read(FILE));
    assert!(read("README.md").contains(&block), "README.md does not have this block:\n{block}");
}

#[test]
#[ignore = "needs what `make test-clients` installs"]
fn ten_pass_at_once_and_then_one_a_second() {
    let mut server = Server::with_clock(&[]);
    let service = start(&server);
    let answers = load(&service.address, 20, 100, &[]);
    let (passed, denied): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status() == 200);
    assert_eq!((passed.len(), denied.len()), (10, 90));
    assert!(passed.iter().all(|answer| answer.json() == json!({"hello": "world"})));
    denied.into_iter().for_each(assert_denied);
    assert_eq!(server.connect().get::<Vec<String>>("KEYS *"), ["hello:127.0.0.1"]);

    let ask = || get(&service.address, &[]).expect("an answer");
    server.clock().advance_ms(999);
    assert_denied(&ask());
    server.clock().advance_ms(1);
    assert_eq!(ask().status(), 200);
    assert_denied(&ask());
}

#[test]
#[ignore = "needs what `make test-clients` installs"]
fn it_replies_with_an_error_while_redis_is_down_and_recovers() {
    let mut server = Server::start(&[]);
    let mut service = start(&server);
    let status = |service: &Service| get(&service.address, &[]).expect("an answer").status();
    assert_eq!(status(&service), 200);
    server.stop();
    assert_eq!(status(&service), 500);
    server.start_again_in_place();
    eventually("it limits again", || status(&service) == 200);
    assert!(service.program.is_running());
}
