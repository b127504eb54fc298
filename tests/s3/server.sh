#!/usr/bin/env bash
# One S3 server on the loopback interface, for tests: S3Proxy over a local folder, which is a server that people use in
# earnest, checks signatures, and gives a conditional PUT to one of several racing writers.
#
#   server.sh start DIR    starts it with one empty bucket `checkpoints` under DIR, and prints its URL
#   server.sh stop DIR     stops it and waits until it has ended
#
# Key and secret are `anabranch` and `anabranch-secret`. It dies, and DIR is removed, when process ANABRANCH_SERVER_PARENT
# has ended, however it ended.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
start_seconds_max=90

fail() {
  echo "s3 server: $*" >&2
  exit 1
}

answers() {
  (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

# A port below the range from which the system gives ports to outgoing connections, so that none is taken by chance.
free_port() {
  local port
  for _ in {1..100}; do
    port=$((20000 + RANDOM % 12000))
    answers "$port" || { echo "$port"; return; }
  done
  fail "found no free port between 20000 and 32000"
}

# The server's process, if it lives: the pid may have been given to another program since.
server_pid() {
  local pid
  pid="$(cat "$1/server.pid" 2>/dev/null)" || return 1
  [[ -r /proc/$pid/cmdline ]] && tr '\0' '\n' <"/proc/$pid/cmdline" | grep -qxF "$1/server.properties" && echo "$pid"
}

write_properties() {
  cat >"$1/server.properties" <<PROPERTIES
s3proxy.endpoint=http://127.0.0.1:$2
s3proxy.authorization=aws-v2-or-v4
s3proxy.identity=anabranch
s3proxy.credential=anabranch-secret
jclouds.provider=filesystem
jclouds.filesystem.basedir=$1/data
PROPERTIES
}

# Returns 0 when the port answers, 1 when the server ended before.
wait_until_up() {
  local dir="$1" port="$2" pid="$3" deadline=$((SECONDS + start_seconds_max))
  until answers "$port"; do
    kill -0 "$pid" 2>/dev/null || return 1
    if ((SECONDS > deadline)); then
      kill -9 "$pid" 2>/dev/null || true
      fail "port $port did not answer within $start_seconds_max s; see $dir/server.log"
    fi
    sleep 0.1
  done
}

# Stops the server and removes its folder when process $2 has ended.
watch_parent() {
  setsid bash -c '
    while kill -0 "$1"; do sleep 0.5; done
    "$2" stop "$3"
    rm -rf "$3"' watcher "$2" "$here/server.sh" "$1" </dev/null >/dev/null 2>&1 &
  disown
}

start() {
  local dir="$1" port jars pid
  mkdir -p "$dir/data/checkpoints"
  dir="$(cd "$dir" && pwd)"
  jars="$("$here/fetch.sh")" || exit 1
  command -v java >/dev/null || fail "java is not installed; install it with 'apt-get install default-jre-headless'"
  for _ in {1..3}; do
    port="$(free_port)"
    write_properties "$dir" "$port"
    setsid java -Xms32m -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$jars/*" \
      -Dlogback.configurationFile="$here/logback.xml" \
      org.gaul.s3proxy.Main --properties "$dir/server.properties" </dev/null >>"$dir/server.log" 2>&1 &
    pid=$!
    disown
    echo "$pid" >"$dir/server.pid"
    # Until it is up, the server does not outlive this script.
    trap 'kill -9 "$pid" 2>/dev/null' EXIT
    if wait_until_up "$dir" "$port" "$pid"; then
      trap - EXIT
      [[ -z ${ANABRANCH_SERVER_PARENT:-} ]] || watch_parent "$dir" "$ANABRANCH_SERVER_PARENT"
      echo "http://127.0.0.1:$port"
      return
    fi
    # Somebody took a port between our look and the server's bind: look again.
    grep -q 'Failed to bind\|Address already in use' "$dir/server.log" || break
  done
  fail "the server ended while starting: $(tail -n 20 "$dir/server.log")"
}

stop() {
  local dir pid
  dir="$(cd "$1" 2>/dev/null && pwd)" || return 0
  pid="$(server_pid "$dir")" || return 0
  kill -9 "$pid" 2>/dev/null || true
  while kill -0 "$pid" 2>/dev/null; do sleep 0.05; done
  rm -f "$dir/server.pid"
}

case "${1:-}" in
  start) [[ $# == 2 ]] || fail "usage: server.sh start DIR"; start "$2" ;;
  stop) [[ $# == 2 ]] || fail "usage: server.sh stop DIR"; stop "$2" ;;
  *) fail "usage: server.sh start DIR | server.sh stop DIR" ;;
esac
