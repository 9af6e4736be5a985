//! The programs in `examples/`, with the clients that they use: each is a process, and is used over HTTP as its users
//! would, many at once, while Redis is there, goes away, hangs and comes back. Run by `make test-clients`, which installs
//! what they need.

#[path = "../common/mod.rs"]
mod common;
mod http;
mod llm_worker;
mod mail_worker;
mod program;
mod quickstart;
mod scripts;
mod upstream;
mod web;
mod web_limits;
mod web_outages;

use common::stats::{take, Map};
use common::Client;

/// What of a limit is used.
fn used(client: &mut Client, key: &str) -> i64 {
    client.get::<Option<Map>>(&format!("RL.INFO {key}")).map_or(0, |mut info| take(&mut info, "used"))
}

/// Tests of each web application, in a module of its name.
macro_rules! web_applications {
    ($($name:ident: $app:ident($file:literal),)*) => {$(
        mod $name {
            use crate::web::App;
            web_tests! {
                App::$app($file),
                web_limits::under_load_exactly_the_limit_passes,
                web_limits::waits_of_several_seconds_are_rounded_up,
                web_limits::two_users_do_not_share_a_limit,
                web_limits::the_header_counts_before_the_cookie_and_the_cookie_before_the_address,
                web_limits::on_a_unix_socket_nobody_has_an_address,
                web_limits::it_ends_when_it_is_asked_to,
                web_outages::it_starts_without_redis_and_lets_all_pass_if_it_is_not_told_otherwise,
                web_outages::a_choice_that_it_does_not_know_is_refused,
                web_outages::a_stop_of_redis_is_survived,
                web_outages::a_restart_under_load_is_survived_and_forgives_nothing,
                web_outages::while_redis_hangs_answers_come_soon_and_none_is_charged_twice,
                web_outages::an_error_of_redis_is_taken_like_its_absence,
                web_outages::a_server_that_is_loading_is_taken_like_its_absence,
            }
        }
    )*};
}

macro_rules! web_tests {
    ($app:expr, $($topic:ident::$test:ident,)*) => {$(
        #[test]
        #[ignore = "needs what `make test-clients` installs"]
        fn $test() {
            crate::$topic::$test($app);
        }
    )*};
}

web_applications! {
    app_async: Python("app_async"),
    app_sync: Python("app_sync"),
    app_node_redis: Node("app-node-redis.js"),
    app_ioredis: Node("app-ioredis.js"),
}
