//! The programs in `examples/` with their Redis clients. Each runs as a process under concurrent HTTP requests, while
//! Redis is up, down, hanging and restarted. `make test-clients` installs what they need and runs these tests.

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

/// How much of a limit is used.
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
                web_limits::on_a_unix_socket_all_clients_share_the_anonymous_key,
                web_limits::it_ends_cleanly_on_sigterm,
                web_outages::it_starts_without_redis_and_is_open_by_default,
                web_outages::an_unknown_failure_mode_is_rejected,
                web_outages::it_survives_a_stop_of_redis,
                web_outages::a_restart_under_load_resets_no_limit,
                web_outages::while_redis_hangs_replies_are_quick_and_no_request_counts_twice,
                web_outages::an_error_of_redis_is_treated_like_an_outage,
                web_outages::a_loading_server_is_treated_like_an_outage,
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
