#!/usr/bin/env bash
# One PostgreSQL server on the loopback interface, for tests.
#
#   server.sh start DIR    starts it with its data in DIR and prints its port; an existing DIR is continued, on its old port
#   server.sh stop DIR     stops it and waits until it has ended
#
# The database is `tests`, the user `anabranch` with the password `anabranch-secret`. The server ends, and DIR is removed, when process
# ANABRANCH_SERVER_PARENT has ended, however it ended. ANABRANCH_SERVER_KEYS=FOLDER: connections may be encrypted, with the key and
# certificate of FOLDER/server.pem.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
server_name="postgresql server" server_kind=server server_stop="$here/server.sh"
source "$here/../servers.sh"

# The server's process, if it lives: another program may have its pid by now.
server_pid() {
  local pid
  pid="$(cat "$1/$server_kind.pid" 2>/dev/null)" || return 1
  [[ -r /proc/$pid/cmdline ]] && tr '\0' '\n' <"/proc/$pid/cmdline" | grep -qxF "$1/data" && echo "$pid"
}

# The programs of the newest version that is installed; Debian keeps them outside of the path.
programs() {
  local initdb
  initdb="$(printf '%s\n' /usr/lib/postgresql/*/bin/initdb | sort --version-sort | tail -n 1)"
  [[ -x $initdb ]] || initdb="$(command -v initdb)" || fail "it is not installed; install it with 'apt-get install postgresql'"
  dirname "$(readlink -f "$initdb")"
}

# The server refuses to run as root.
as_user=()
((EUID != 0)) || as_user=(setpriv --reuid=nobody --regid=nogroup --clear-groups)

create() {
  local dir="$1" bin="$2"
  [[ ! -e $dir/data/PG_VERSION ]] || return 0
  mkdir -p "$dir/data"
  echo anabranch-secret >"$dir/password"
  ((EUID != 0)) || chown nobody:nogroup "$dir/data" "$dir/password"
  "${as_user[@]}" "$bin/initdb" --pgdata="$dir/data" --username=anabranch --pwfile="$dir/password" --auth=scram-sha-256 --encoding=UTF8 \
    --locale=C --no-sync >"$dir/initdb.log" 2>&1 || fail "creating $dir/data failed: $(tail -n 5 "$dir/initdb.log")"
  if [[ -n ${ANABRANCH_SERVER_KEYS:-} ]]; then
    install --mode=600 "$ANABRANCH_SERVER_KEYS/server.pem" "$dir/data/server.pem"
    ((EUID != 0)) || chown nobody:nogroup "$dir/data/server.pem"
    echo "ssl = on
ssl_cert_file = 'server.pem'
ssl_key_file = 'server.pem'" >>"$dir/data/postgresql.conf"
  fi
  echo "create database tests" | "${as_user[@]}" "$bin/postgres" --single -D "$dir/data" postgres >>"$dir/initdb.log" 2>&1 ||
    fail "creating a database failed: $(tail -n 5 "$dir/initdb.log")"
}

start() {
  local dir="$1" port bin pid
  mkdir -p "$dir"
  dir="$(cd "$dir" && pwd)"
  chmod 755 "$dir"
  bin="$(programs)"
  create "$dir" "$bin"
  for _ in {1..3}; do
    port="$(cat "$dir/port" 2>/dev/null || free_port)"
    "${as_user[@]}" setsid "$bin/postgres" -D "$dir/data" -c listen_addresses=127.0.0.1 -c port="$port" -c unix_socket_directories= -c fsync=off \
      -c max_connections=60 -c shared_buffers=32MB </dev/null >>"$dir/server.log" 2>&1 &
    pid=$!
    disown
    echo "$pid" >"$dir/server.pid"
    # Until it is up, the server does not outlive this script.
    trap 'kill -9 "$pid" 2>/dev/null' EXIT
    if wait_until_up "$dir" "$port" "$pid"; then
      # After a crash it reads its log before it takes connections.
      until "$bin/pg_isready" --quiet --host=127.0.0.1 --port="$port" || ! kill -0 "$pid" 2>/dev/null; do sleep 0.05; done
      trap - EXIT
      [[ -z ${ANABRANCH_SERVER_PARENT:-} ]] || watch_parent "$dir" "$ANABRANCH_SERVER_PARENT"
      echo "$port" | tee "$dir/port"
      return
    fi
    # Another process took a port between the check and the server's bind: check again.
    grep -q 'Address already in use' "$dir/server.log" || break
  done
  fail "the server ended while starting: $(tail -n 20 "$dir/server.log")"
}

# An immediate stop is a crash: it loses nothing that was committed.
stop() {
  local dir pid
  dir="$(cd "$1" 2>/dev/null && pwd)" || return 0
  pid="$(server_pid "$dir")" || return 0
  kill -QUIT "$pid" 2>/dev/null || true
  while kill -0 "$pid" 2>/dev/null; do sleep 0.05; done
  rm -f "$dir/server.pid"
}

case "${1:-}" in
  start) [[ $# == 2 ]] || fail "usage: server.sh start DIR"; start "$2" ;;
  stop) [[ $# == 2 ]] || fail "usage: server.sh stop DIR"; stop "$2" ;;
  *) fail "usage: server.sh start DIR | server.sh stop DIR" ;;
esac
