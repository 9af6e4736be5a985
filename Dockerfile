# The official server image with the module, which its servers load.
#
#   docker build --tag redis-ratelimit .
#   docker build --tag redis-ratelimit --build-arg SERVER=valkey/valkey:8 .
#   docker run --rm --publish 127.0.0.1:6379:6379 redis-ratelimit --appendonly yes

# Any image with Redis 7.0 or Valkey 7.2 or later on Debian 12 or later. The module needs Debian 12's C library or a
# newer one, and Alpine has a different one.
ARG SERVER=redis:8

FROM rust:1.95-slim-bookworm AS build
RUN apt-get update && \
    apt-get install --yes --no-install-recommends libclang-dev && \
    rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
# The caches are kept between builds, also for other sources, so the module and its limiters are always rebuilt.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/source/target \
    touch src/lib.rs limiter/src/lib.rs && \
    cargo build --release --locked && \
    cp target/release/libredis_ratelimit.so /ratelimit.so

FROM ${SERVER}
# Not in the folder from which Redis 8 loads its own modules: the server would load it twice.
COPY --from=build --chmod=755 /ratelimit.so /usr/lib/redis/modules/ratelimit.so
COPY --chmod=755 packaging/docker-entrypoint /usr/local/bin/ratelimit-entrypoint
ENTRYPOINT ["ratelimit-entrypoint"]
CMD []
