# Shared by the scripts that start a server for tests and demos. To be sourced after these are set:
#
#   server_name   the server's name in messages
#   server_kind   the first part of the names of its files in its folder: KIND.pid, KIND.log
#   server_stop   the script that stops it, called with `stop DIR`
#
# A server is recognized by the path DIR/server.properties in its command line.

start_seconds_max=90

fail() {
  echo "$server_name: $*" >&2
  exit 1
}

answers() {
  (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

# A port below the range of ports for outgoing connections, so that none of these takes it by chance. Not $1.
free_port() {
  local port
  for _ in {1..100}; do
    port=$((20000 + RANDOM % 12000))
    [[ $port != "${1:-}" ]] || continue
    answers "$port" || { echo "$port"; return; }
  done
  fail "found no free port between 20000 and 32000"
}

# The server's process, if it lives: another program may have its pid by now.
server_pid() {
  local pid
  pid="$(cat "$1/$server_kind.pid" 2>/dev/null)" || return 1
  [[ -r /proc/$pid/cmdline ]] && tr '\0' '\n' <"/proc/$pid/cmdline" | grep -qxF "$1/server.properties" && echo "$pid"
}

# Returns 0 when the port answers, 1 when the server ended before.
wait_until_up() {
  local dir="$1" port="$2" pid="$3" deadline=$((SECONDS + start_seconds_max))
  until answers "$port"; do
    kill -0 "$pid" 2>/dev/null || return 1
    if ((SECONDS > deadline)); then
      kill -9 "$pid" 2>/dev/null || true
      fail "port $port did not answer within $start_seconds_max s; see $dir/$server_kind.log"
    fi
    sleep 0.1
  done
}

# Stops the server and removes its folder $1 when process $2 has ended, even if the server has ended before.
watch_parent() {
  setsid bash -c '
    while kill -0 "$1"; do sleep 0.5; done
    "$2" stop "$3"
    rm -rf "$3"' watcher "$2" "$server_stop" "$1" </dev/null >/dev/null 2>&1 &
  disown
}
