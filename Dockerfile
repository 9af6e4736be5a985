# The official server image with the module, which every server that is started in it loads.
#
#   docker build --tag redis-ratelimit .
#   docker build --tag redis-ratelimit --build-arg SERVER=valkey/valkey:8 .
#   docker run --rm --publish 127.0.0.1:6379:6379 redis-ratelimit --appendonly yes

# Any image of Redis from 7.0 or Valkey from 7.2 on, if it is Debian 12 or later: what is built on Debian 12 needs a C
# library that is not older, and Alpine has another.
ARG SERVER=redis:8

FROM rust:1.95-slim-bookworm AS build
RUN apt-get update && \
    apt-get install --yes --no-install-recommends libclang-dev && \
    rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
# What cargo fetched and built is kept from one build to the next, for other sources too, so the module itself is always
# built anew.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/source/target \
    touch src/lib.rs && \
    cargo build --release --locked && \
    cp target/release/libredis_ratelimit.so /ratelimit.so

FROM ${SERVER}
# Not where Redis 8 looks for modules of its own: the server would be told twice to load it.
COPY --from=build --chmod=755 /ratelimit.so /usr/lib/redis/modules/ratelimit.so
COPY --chmod=755 packaging/docker-entrypoint /usr/local/bin/ratelimit-entrypoint
ENTRYPOINT ["ratelimit-entrypoint"]
CMD []
