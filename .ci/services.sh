# Starts throw-away services for the tests and stops them again. Sourced by run and test.
# A service that was given from outside (its URL is set, or the engine answers) is used as it is.

SERVICES=$(mktemp -d)
chmod 755 "$SERVICES" # the postgres user has to pass through
STOP=()

services_stop() {
  local command
  for command in "${STOP[@]}"; do
    $command || true
  done
  rm -rf "$SERVICES"
}

services_logs() {
  local log
  for log in "$SERVICES"/*.log; do
    [[ -s $log ]] || continue
    printf '\n== last lines of %s\n' "${log##*/}"
    tail -n 40 "$log"
  done
}

# Prints a port of 127.0.0.1 where nobody listens, away from the usual ones.
free_port() {
  local port
  while port=$((20000 + RANDOM % 10000)); (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do :; done
  echo "$port"
}

# Runs a command until it succeeds, for at most $1 seconds.
wait_for() {
  local end=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < end)) || return 1
    sleep 0.2
  done
}

# PostgreSQL: a cluster in a temporary folder, quick instead of durable.

as_postgres() {
  if ((UID)); then "$@"; else runuser -u postgres -- "$@"; fi
}

# Prints the folder of the newest server's programs; Debian keeps them out of the PATH.
postgres_programs() {
  local found
  found=$(find /usr/lib/postgresql -name initdb 2>/dev/null | sort -V | tail -n 1)
  found=${found:-$(command -v initdb)} || return 1
  dirname "$found"
}

postgres_start() {
  [[ -z ${OMNIWEB_TEST_POSTGRES_URL:-} ]] || return 0
  local programs port data=$SERVICES/postgres
  programs=$(postgres_programs) || return 1
  port=$(free_port)
  mkdir "$data" && touch "$SERVICES/postgres.log"
  ((UID)) || chown postgres "$data" "$SERVICES/postgres.log"
  (
    cd / # where the postgres user may be
    as_postgres "$programs/initdb" -D "$data" -U omniweb -A trust -E UTF8 --locale=C --no-sync
    as_postgres "$programs/pg_ctl" -D "$data" -l "$SERVICES/postgres.log" -w start -o "\
      -p $port -c listen_addresses=127.0.0.1 -c unix_socket_directories='' \
      -c fsync=off -c synchronous_commit=off -c full_page_writes=off -c max_connections=300"
  ) >"$SERVICES/postgres-start.log" || return 1
  POSTGRES_STOP=("$programs/pg_ctl" -D "$data" -m immediate stop)
  STOP+=(postgres_stop)
  export OMNIWEB_TEST_POSTGRES_URL="postgres://omniweb@127.0.0.1:$port/postgres"
}

postgres_stop() {
  (cd / && as_postgres "${POSTGRES_STOP[@]}") >/dev/null
}

# Redis: one in memory only.

redis_start() {
  [[ -z ${OMNIWEB_TEST_REDIS_URL:-} ]] || return 0
  local port
  command -v redis-server >/dev/null || return 1
  port=$(free_port)
  redis-server --bind 127.0.0.1 --port "$port" --save '' --appendonly no --databases 64 \
    --dir "$SERVICES" >"$SERVICES/redis.log" &
  REDIS_PID=$!
  STOP+=(redis_stop)
  wait_for 10 redis-cli -p "$port" ping || return 1
  export OMNIWEB_TEST_REDIS_URL="redis://127.0.0.1:$port"
}

redis_stop() {
  kill "$REDIS_PID" && wait "$REDIS_PID"
}

# Docker: an engine started by hand, which knows gVisor where its runsc is installed.

docker_start() {
  ! docker info >/dev/null 2>&1 || return 0
  local runtimes='{}'
  if command -v runsc >/dev/null; then
    # Inside another sandbox gVisor can neither make cgroups nor set up its own network.
    runtimes='{"runsc": {"path": "'$(command -v runsc)'",
      "runtimeArgs": ["--ignore-cgroups", "--network=none"]}}'
  fi
  echo "{\"runtimes\": $runtimes}" >"$SERVICES/docker.json"
  # An exec-root of its own, because pid files of an engine that was killed confuse the next one.
  dockerd --config-file "$SERVICES/docker.json" --exec-root "$SERVICES/docker" \
    --pidfile "$SERVICES/docker.pid" --log-level warn >"$SERVICES/docker.log" 2>&1 &
  DOCKER_PID=$!
  STOP+=(docker_stop)
  wait_for 60 docker info
}

docker_stop() {
  kill "$DOCKER_PID" && wait "$DOCKER_PID"
}

# Builds the images that the tests run commands in, and that stand between them and the network.
docker_images() {
  docker_image omniweb-test:latest bash,ca-certificates,procps,python3
  # The same packages as in the image that is shipped.
  docker_image omniweb-gateway:test \
    "$(sed -n 's/^ARG PACKAGES="\(.*\)"$/\1/p' deploy/gateway/Dockerfile | tr ' ' ,)"
}

# Builds an image with some packages. Its other name tells its recipe, so that an engine which has
# kept it needs no second build.
docker_image() {
  local suite name image packages=$2
  suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
  name=${1%:*}:$(echo "$suite $packages" | sha256sum | cut -c 1-12)
  if ! docker image inspect "$name" >/dev/null 2>&1; then
    # Named only when complete: an import of half an archive succeeds.
    image=$(mmdebstrap --quiet --variant=minbase --include="$packages" "$suite" - |
      docker import --change 'CMD ["bash"]' -)
    docker tag "$image" "$name"
  fi
  docker tag "$name" "$1"
}
