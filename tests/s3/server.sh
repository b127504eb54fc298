#!/usr/bin/env bash
# One S3 server on the loopback interface, for tests: S3Proxy over a local folder. It is used in production elsewhere, checks
# signatures, and lets one of several racing writers succeed with a conditional PUT.
#
#   server.sh start DIR    starts it with one empty bucket `checkpoints` under DIR, and prints its URL
#   server.sh stop DIR     stops it and waits until it has ended
#
# Key and secret are `anabranch` and `anabranch-secret`. The server ends, and DIR is removed, when process
# ANABRANCH_SERVER_PARENT has ended, however it ended.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
server_name="s3 server" server_kind=server server_stop="$here/server.sh"
source "$here/../servers.sh"

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
    # Another process took a port between the check and the server's bind: check again.
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
