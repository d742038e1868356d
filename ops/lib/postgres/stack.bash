# PostgreSQL for ops/stack (sourced by it): one server of Debian's, on loopback and on a socket.
#
#   WRIT_POSTGRES_PORT   default 15432
#   WRIT_POSTGRES_DIR    where its files are (default: postgres in the state directory)
#   WRIT_POSTGRES_CONF   a file of settings to add (max_connections = 20 …)
#
# The server refuses to run as root. Then it runs as the user postgres, who must be able to reach
# its files: the state directory and the one above it get the right to be passed through (not to be
# read) for that; further up it is nobody's business of ours to change, and it says so.
postgres_port=${WRIT_POSTGRES_PORT:-15432}
postgres_home=${WRIT_POSTGRES_DIR:-$state/postgres}
postgres_bin=$(for place in /usr/lib/postgresql/*/bin; do echo "$place"; done | sort -V | tail -1)

postgres_cannot() {
    echo "ops/stack: postgres cannot be had here: $1" >&2
    exit 3
}

postgres_run() { # as who may: a program of the server's
    (cd / && if [ "$(id -u)" = 0 ]; then exec runuser -u postgres -- "$@"; else exec "$@"; fi)
}

postgres_pid() {
    local pid
    pid=$(head -1 "$postgres_home/data/postmaster.pid" 2>/dev/null) || return 0
    [ "$(cat "/proc/$pid/comm" 2>/dev/null)" != postgres ] || echo "$pid"
}
postgres_answers() { "$postgres_bin/pg_isready" -q -h 127.0.0.1 -p "$postgres_port" -t 3; }
postgres_address() { echo "postgresql://writ@127.0.0.1:$postgres_port/writ"; }
postgres_signal() { echo INT; } # "fast": TERM would wait until every client has gone

postgres_reach() {
    [ "$(id -u)" = 0 ] || return 0
    id postgres >/dev/null 2>&1 || postgres_cannot "there is no user postgres to run it as"
    chown postgres: "$postgres_home"
    local folder=$postgres_home
    for _ in 1 2; do
        folder=$(dirname "$folder")
        [ "$folder" = / ] || [ -n "${WRIT_POSTGRES_DIR:-}" ] || chmod o+x "$folder"
    done
    postgres_run test -w "$postgres_home" || postgres_cannot "the user postgres cannot reach $postgres_home: set WRIT_POSTGRES_DIR"
}

# Made beside and then renamed, so that what is there is whole.
postgres_make() {
    [ ! -d "$postgres_home/data" ] || return 0
    rm -rf "$postgres_home/fresh"
    postgres_run "$postgres_bin/initdb" -D "$postgres_home/fresh" -U writ -A trust --no-locale -E UTF8 >"$postgres_home/../postgres-initdb.log" 2>&1 || {
        tail -5 "$postgres_home/../postgres-initdb.log" >&2
        exit 1
    }
    mv "$postgres_home/fresh" "$postgres_home/data"
}

postgres_start() {
    [ -x "$postgres_bin/postgres" ] || postgres_cannot "it is not installed (ops/setup stack installs it)"
    need_port "$postgres_port" WRIT_POSTGRES_PORT
    mkdir -p "$postgres_home"
    postgres_reach
    postgres_make
    local options="-c listen_addresses=127.0.0.1 -c port=$postgres_port -c unix_socket_directories=$postgres_home"
    if [ -n "${WRIT_POSTGRES_CONF:-}" ]; then
        install -m 644 "$WRIT_POSTGRES_CONF" "$postgres_home/extra.conf"
        options+=" -c config_file=$postgres_home/with-extra.conf -c data_directory=$postgres_home/data"
        options+=" -c hba_file=$postgres_home/data/pg_hba.conf -c ident_file=$postgres_home/data/pg_ident.conf"
        printf "include '%s'\n" "$postgres_home/data/postgresql.conf" "$postgres_home/extra.conf" >"$postgres_home/with-extra.conf"
        chmod 644 "$postgres_home/with-extra.conf"
    fi
    # After a crash its children may hold the shared memory for a moment more.
    local tries
    for tries in 1 2 3 4 5; do
        postgres_run "$postgres_bin/pg_ctl" -s -w -t 60 -D "$postgres_home/data" -l "$postgres_home/log" -o "$options" start 2>/dev/null && break
        [ "$tries" -lt 5 ] || { tail -5 "$postgres_home/log" >&2; exit 1; }
        sleep 1
    done
    echo "SELECT 'CREATE DATABASE writ' WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = 'writ') \gexec" |
        postgres_run "$postgres_bin/psql" -X -q -h 127.0.0.1 -p "$postgres_port" -U writ -d postgres -At >/dev/null
}
