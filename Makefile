# `make help` lists the targets.

CARGO ?= cargo
PORT ?= 6379
# The server of `make top`: host:port, or a URL such as redis://user:password@host:port.
ADDRESS ?= 127.0.0.1:$(PORT)
# The server to run and test with: the system's, or another one, such as REDIS_SERVER=/path/to/valkey-server.
REDIS_SERVER ?= redis-server
export REDIS_SERVER
# The exporter in the tests of metrics: Debian's, or another redis_exporter.
REDIS_EXPORTER ?= prometheus-redis-exporter
export REDIS_EXPORTER

MODULE := target/release/libredis_ratelimit.so
# The folder for `make install`: the one from which the distribution's server may load modules. Debian has
# lib/redis/modules, Fedora lib64/redis/modules.
PREFIX ?= /usr
MODULE_DIR ?= $(firstword $(wildcard $(PREFIX)/lib64/redis/modules) $(PREFIX)/lib/redis/modules)
EXAMPLES_DIR = $(PREFIX)/share/doc/redis-ratelimit/examples

.DEFAULT_GOAL := help
.PHONY: help setup build run top test test-unit test-servers test-clients test-faults fuzz bench bench-instructions pictures \
	lint install uninstall deb test-package dist clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install missing dependencies: a server, libclang, a C compiler
	@scripts/setup "$(REDIS_SERVER)"

build: setup ## build the module
	$(CARGO) build --release --locked
	@echo "built $(MODULE)"

run: build ## build the module and start a server with it (PORT=6379, or the next free one)
	@scripts/run "$(REDIS_SERVER)" "$(MODULE)" "$(PORT)"

# Not the release profile, which would rebuild the module that a server runs.
top: setup ## show live statistics of a running server (PORT=6379, or ADDRESS=host:port)
	@$(CARGO) run --locked --example top -- "$(ADDRESS)"

test: ## run the tests (REDIS_SERVER=/path/to/valkey-server for another server)
	@scripts/setup "$(REDIS_SERVER)" tmux "$(REDIS_EXPORTER)"
	$(CARGO) test --locked
	$(CARGO) test --locked --features panic-probe --target-dir target/panic-probe --test panics

test-unit: setup ## run the tests that need no server, within a minute
	$(CARGO) test --locked --package redis-ratelimit-limiter
	$(CARGO) test --locked --lib --test unit
	$(CARGO) test --locked --test docs links

# All supported servers, by their names in scripts/get-server.
SERVERS ?= redis-7.0 redis-8.0 valkey-8.0 valkey-8.1 valkey-9.1
test-servers: build ## run the tests on every supported server, with the release build (SERVERS="valkey-9.1" for some)
	@scripts/setup "$(REDIS_SERVER)" tmux "$(REDIS_EXPORTER)"
	CARGO="$(CARGO)" scripts/test-servers "$(MODULE)" $(SERVERS)

test-clients: ## test the example programs, under load and without Redis (needs Python 3.11)
	@scripts/setup "$(REDIS_SERVER)" python3-venv
	@scripts/setup-clients
	$(CARGO) test --locked --test clients -- --ignored

# Only definite leaks count: the test harness of Rust has possible ones.
MEMCHECK := valgrind --quiet --error-exitcode=1 --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite
test-faults: build ## run the slow tests, and a server with the module under valgrind
	@scripts/setup "$(REDIS_SERVER)" valgrind
	$(CARGO) test --locked --lib --config "target.'cfg(unix)'.runner = '$(MEMCHECK)'"
	$(CARGO) test --locked --test memcheck -- --ignored
	RATELIMIT_MODULE="$(abspath $(MODULE))" $(CARGO) test --locked --test load memory -- --ignored

# The duration of each target of `make fuzz`.
FUZZ_SECONDS ?= 120
fuzz: ## fuzz every decoder and parser, and a server (FUZZ_SECONDS=120 for each part)
	@scripts/setup "$(REDIS_SERVER)" g++
	scripts/fuzz $(FUZZ_SECONDS)
	HOSTILE_SECONDS=$(FUZZ_SECONDS) $(CARGO) test --locked --test load hostile_input

bench: setup ## measure CPU time and memory of each command, of plain writes and of Lua scripts
	$(CARGO) bench --locked --bench bench -- time $(PARTS)

bench-instructions: ## count instructions for the same, which are exact also on a busy machine
	@scripts/setup "$(REDIS_SERVER)" valgrind
	$(CARGO) bench --locked --bench bench -- instructions $(PARTS)

pictures: setup ## redraw the pictures of the README from decisions of the limiters
	$(CARGO) run --locked --example pictures

lint: ## check the format, clippy and the documentation, without warnings
	@scripts/setup "$(REDIS_SERVER)" g++
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets --all-features -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps --quiet
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps --quiet --document-private-items

# Built only if it is missing, so that `sudo make install` needs no cargo.
$(MODULE):
	$(MAKE) build

install: $(MODULE) ## install the built module, and examples of configuration (PREFIX=/usr)
	install -D -m 755 $(MODULE) "$(DESTDIR)$(MODULE_DIR)/ratelimit.so"
	install -D -m 644 -t "$(DESTDIR)$(EXAMPLES_DIR)" packaging/ratelimit.conf examples/policies.conf
	@echo "Add this line to the server's own configuration, such as /etc/redis/redis.conf, and restart it:"
	@echo
	@echo "    loadmodule $(MODULE_DIR)/ratelimit.so"
	@echo
	@echo "$(EXAMPLES_DIR)/ratelimit.conf has the configuration parameters."

uninstall: ## remove the installed files
	rm -f "$(DESTDIR)$(MODULE_DIR)/ratelimit.so"
	rm -f "$(DESTDIR)$(EXAMPLES_DIR)/ratelimit.conf" "$(DESTDIR)$(EXAMPLES_DIR)/policies.conf"
	@rmdir "$(DESTDIR)$(EXAMPLES_DIR)" "$(DESTDIR)$(dir $(EXAMPLES_DIR))" 2>/dev/null || true

deb: build ## make a Debian package of the module
	@scripts/deb

test-package: build ## install the Debian package, test it with Debian's server, and remove it
	@scripts/test-package

dist: deb ## make the files of a release, in target/dist
	@scripts/dist

clean: ## remove the build
	$(CARGO) clean
