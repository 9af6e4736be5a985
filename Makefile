# `make help` lists what there is to do.

CARGO ?= cargo
PORT ?= 6379
# What `make top` watches: host:port, or a URL such as redis://user:password@host:port.
ADDRESS ?= 127.0.0.1:$(PORT)
# The server to run and to test on: the system's, or any other, such as REDIS_SERVER=/path/to/valkey-server.
REDIS_SERVER ?= redis-server
export REDIS_SERVER
# What the metrics are tested with: Debian's, or any other redis_exporter.
REDIS_EXPORTER ?= prometheus-redis-exporter
export REDIS_EXPORTER

MODULE := target/release/libredis_ratelimit.so
# Where `make install` puts the module: where the distribution's server looks for modules, and may execute them. Debian's
# has lib/redis/modules, Fedora's lib64/redis/modules.
PREFIX ?= /usr
MODULE_DIR ?= $(firstword $(wildcard $(PREFIX)/lib64/redis/modules) $(PREFIX)/lib/redis/modules)
EXAMPLES_DIR = $(PREFIX)/share/doc/redis-ratelimit/examples

.DEFAULT_GOAL := help
.PHONY: help setup build run top test test-unit test-servers test-clients test-faults fuzz bench bench-instructions pictures \
	lint install uninstall deb test-package dist clean

help: ## list what there is to do
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what is missing: a server, libclang, a C compiler
	@scripts/setup "$(REDIS_SERVER)"

build: setup ## build the module
	$(CARGO) build --release --locked
	@echo "built $(MODULE)"

run: build ## build the module and start a server with it (PORT=6379, or the next free one)
	@scripts/run "$(REDIS_SERVER)" "$(MODULE)" "$(PORT)"

# Not the release profile: the module that a server runs would be built anew.
top: setup ## show live what the module does on a running server (PORT=6379, or ADDRESS=host:port)
	@$(CARGO) run --locked --example top -- "$(ADDRESS)"

test: ## run the tests (REDIS_SERVER=/path/to/valkey-server for another server)
	@scripts/setup "$(REDIS_SERVER)" tmux "$(REDIS_EXPORTER)"
	$(CARGO) test --locked
	$(CARGO) test --locked --features panic-probe --target-dir target/panic-probe --test panics

test-unit: setup ## run the tests that need no server, within a minute
	$(CARGO) test --locked --package redis-ratelimit-limiter
	$(CARGO) test --locked --lib --test unit
	$(CARGO) test --locked --test docs links

# All servers that are supported, as scripts/get-server knows them.
SERVERS ?= redis-7.0 redis-8.0 valkey-8.0 valkey-8.1 valkey-9.1
test-servers: build ## run these tests on every supported server, with the module as it is shipped (SERVERS="valkey-9.1" for some)
	@scripts/setup "$(REDIS_SERVER)" tmux "$(REDIS_EXPORTER)"
	CARGO="$(CARGO)" scripts/test-servers "$(MODULE)" $(SERVERS)

test-clients: ## run the example programs with their clients, under load and without Redis (needs Python 3.11)
	@scripts/setup "$(REDIS_SERVER)" python3-venv
	@scripts/setup-clients
	$(CARGO) test --locked --test clients -- --ignored

# Only what is lost for sure counts: the test harness of Rust has some that is perhaps.
MEMCHECK := valgrind --quiet --error-exitcode=1 --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite
test-faults: build ## run the longer tests, and the live module under valgrind
	@scripts/setup "$(REDIS_SERVER)" valgrind
	$(CARGO) test --locked --lib --config "target.'cfg(unix)'.runner = '$(MEMCHECK)'"
	$(CARGO) test --locked --test memcheck -- --ignored
	RATELIMIT_MODULE="$(abspath $(MODULE))" $(CARGO) test --locked --test load memory -- --ignored

# How long `make fuzz` goes on with each target.
FUZZ_SECONDS ?= 120
fuzz: ## throw hostile input at everything that reads any (FUZZ_SECONDS=120 for each part)
	@scripts/setup "$(REDIS_SERVER)" g++
	scripts/fuzz $(FUZZ_SECONDS)
	HOSTILE_SECONDS=$(FUZZ_SECONDS) $(CARGO) test --locked --test load hostile_input

bench: setup ## measure the server's time and memory for each command, beside plain writes and Lua scripts
	$(CARGO) bench --locked --bench bench -- time $(PARTS)

bench-instructions: ## count the server's instructions for the same, which no busy machine disturbs
	@scripts/setup "$(REDIS_SERVER)" valgrind
	$(CARGO) bench --locked --bench bench -- instructions $(PARTS)

pictures: setup ## draw the pictures of the README anew, from what the limiters decide
	$(CARGO) run --locked --example pictures

lint: ## check format, clippy and documentation, warnings denied
	@scripts/setup "$(REDIS_SERVER)" g++
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets --all-features -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps --quiet
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps --quiet --document-private-items

# Built only if it is not there, so that `sudo make install` needs no cargo.
$(MODULE):
	$(MAKE) build

install: $(MODULE) ## install the module as it was built, and examples of configuration (PREFIX=/usr)
	install -D -m 755 $(MODULE) "$(DESTDIR)$(MODULE_DIR)/ratelimit.so"
	install -D -m 644 -t "$(DESTDIR)$(EXAMPLES_DIR)" packaging/ratelimit.conf examples/policies.conf
	@echo "Add this line to the server's own configuration, such as /etc/redis/redis.conf, and restart it:"
	@echo
	@echo "    loadmodule $(MODULE_DIR)/ratelimit.so"
	@echo
	@echo "$(EXAMPLES_DIR)/ratelimit.conf has the settings."

uninstall: ## remove what install installed
	rm -f "$(DESTDIR)$(MODULE_DIR)/ratelimit.so"
	rm -f "$(DESTDIR)$(EXAMPLES_DIR)/ratelimit.conf" "$(DESTDIR)$(EXAMPLES_DIR)/policies.conf"
	@rmdir "$(DESTDIR)$(EXAMPLES_DIR)" "$(DESTDIR)$(dir $(EXAMPLES_DIR))" 2>/dev/null || true

deb: build ## make a Debian package of the module
	@scripts/deb

test-package: build ## install the Debian package for real, try it with Debian's server, and remove it again
	@scripts/test-package

dist: deb ## make what a release consists of, in target/dist
	@scripts/dist

clean: ## remove what was built
	$(CARGO) clean
