#!/usr/bin/env bash
# One Kafka broker (KRaft, broker and controller in one process) on the loopback interface, for demos and tests.
#
#   broker.sh start DIR [PORT]   starts it with its data in DIR and prints its bootstrap.servers; an existing DIR is
#                                continued, on its old port unless PORT is given
#   broker.sh stop DIR           stops it and waits until it has ended
#
# ANABRANCH_BROKER_PARENT=PID    the broker ends and DIR is removed when process PID has ended, however it ended
# ANABRANCH_BROKER_SECURE=KEYS   two more listeners, with the key and certificate of KEYS/server.pem and the authority of KEYS/ca.pem:
#                                logins over TLS, its address in DIR/sasl.servers, and certificates of clients, in
#                                DIR/mutual.servers; user 'writer' has the password of KEYS/password
# ANABRANCH_BROKER_JAVA_OPTS     options of the JVM, instead of a small heap and quick start
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
server_name="kafka broker" server_kind=broker server_stop="$here/broker.sh"
source "$here/../servers.sh"

usage() {
  fail "usage: broker.sh start DIR [PORT] | broker.sh stop DIR"
}

write_properties() {
  local dir="$1" port="$2" controller_port="$3"
  cat >"$dir/server.properties" <<PROPERTIES
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$controller_port
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$controller_port
advertised.listeners=PLAINTEXT://127.0.0.1:$port
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=$dir/data
auto.create.topics.enable=false
num.partitions=1
default.replication.factor=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
log.cleaner.threads=1
log.cleaner.dedupe.buffer.size=4194304
log.retention.ms=-1
num.network.threads=2
num.io.threads=2
PROPERTIES
  [[ -z ${ANABRANCH_BROKER_SECURE:-} ]] || secure_properties "$dir" "$port" "$ANABRANCH_BROKER_SECURE" >>"$dir/server.properties"
}

# The listeners of a broker with logins and certificates. In a properties file the last line for a name wins.
secure_properties() {
  local dir="$1" port="$2" keys="$3" sasl mutual module=org.apache.kafka.common.security
  sasl="$(free_port "$port")" mutual="$(free_port "$port")"
  echo "127.0.0.1:$sasl" >"$dir/sasl.servers"
  echo "127.0.0.1:$mutual" >"$dir/mutual.servers"
  cat <<PROPERTIES
listeners=$(sed -n 's/^listeners=//p' "$dir/server.properties"),SECURE://127.0.0.1:$sasl,MUTUAL://127.0.0.1:$mutual
advertised.listeners=PLAINTEXT://127.0.0.1:$port,SECURE://127.0.0.1:$sasl,MUTUAL://127.0.0.1:$mutual
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL,MUTUAL:SSL
ssl.keystore.type=PEM
ssl.keystore.location=$keys/server.pem
ssl.truststore.type=PEM
ssl.truststore.location=$keys/ca.pem
listener.name.mutual.ssl.client.auth=required
listener.name.secure.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER
listener.name.secure.plain.sasl.jaas.config=$module.plain.PlainLoginModule required user_writer="$(cat "$keys/password")";
listener.name.secure.scram-sha-256.sasl.jaas.config=$module.scram.ScramLoginModule required;
listener.name.secure.scram-sha-512.sasl.jaas.config=$module.scram.ScramLoginModule required;
listener.name.secure.oauthbearer.sasl.jaas.config=$module.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";
PROPERTIES
}

# The JVM's command line, up to the main class.
java_command() {
  local jars
  jars="$("$here/fetch.sh")" || exit 1
  command -v java >/dev/null || fail "java is not installed; install it with 'apt-get install default-jre-headless'"
  # shellcheck disable=SC2206 # options are words
  java=(java ${ANABRANCH_BROKER_JAVA_OPTS:--Xms64m -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1}
    -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -Dorg.slf4j.simpleLogger.showDateTime=true -cp "$jars/*")
}

format() {
  local dir="$1" id users=()
  [[ ! -e $dir/data/meta.properties ]] || return 0
  # A cluster id is 16 random bytes in URL-safe base 64; the fixed first letter keeps it from looking like an option.
  id="A$(head -c 16 /dev/urandom | base64 | tr '+/' '-_' | cut -c 2-22)"
  if [[ -n ${ANABRANCH_BROKER_SECURE:-} ]]; then
    for mechanism in SCRAM-SHA-256 SCRAM-SHA-512; do
      users+=(--add-scram "$mechanism=[name=writer,password=$(cat "$ANABRANCH_BROKER_SECURE/password")]")
    done
  fi
  "${java[@]}" kafka.tools.StorageTool format --cluster-id "$id" --config "$dir/server.properties" "${users[@]}" \
    >"$dir/format.log" 2>&1 || fail "formatting $dir/data failed: $(tail -n 5 "$dir/format.log")"
}

start() {
  local dir="$1" wanted="${2:-}" port controller_port
  mkdir -p "$dir"
  dir="$(cd "$dir" && pwd)"
  if pid="$(server_pid "$dir")"; then
    fail "a broker already runs in $dir as process $pid on $(cat "$dir/bootstrap.servers"); stop it first"
  fi
  if [[ -z $wanted && -e $dir/bootstrap.servers ]]; then
    wanted="$(cut -d : -f 2 "$dir/bootstrap.servers")"
  fi
  java_command
  for _ in {1..3}; do
    port="${wanted:-$(free_port)}"
    ! answers "$port" || fail "port $port is taken"
    controller_port="$(free_port "$port")"
    write_properties "$dir" "$port" "$controller_port"
    format "$dir"
    setsid "${java[@]}" kafka.Kafka "$dir/server.properties" </dev/null >>"$dir/broker.log" 2>&1 9>&- &
    pid=$!
    disown
    echo "$pid" >"$dir/broker.pid"
    # Until it is up, the broker does not outlive this script.
    trap 'kill -9 "$pid" 2>/dev/null' EXIT
    [[ -z ${ANABRANCH_BROKER_PARENT:-} ]] || watch_parent "$dir" "$ANABRANCH_BROKER_PARENT"
    if wait_until_up "$dir" "$port" "$pid"; then
      trap - EXIT
      echo "127.0.0.1:$port" >"$dir/bootstrap.servers"
      cat "$dir/bootstrap.servers"
      return
    fi
    # Another process took a port between the check and the broker's bind: check again.
    grep -q 'Address already in use' "$dir/broker.log" || break
  done
  fail "the broker ended while starting: $(tail -n 20 "$dir/broker.log")"
}

stop() {
  local dir pid
  dir="$(cd "$1" 2>/dev/null && pwd)" || return 0
  pid="$(server_pid "$dir")" || return 0
  kill "$pid" 2>/dev/null || true
  for _ in {1..100}; do
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
  done
  kill -9 "$pid" 2>/dev/null || true
  while kill -0 "$pid" 2>/dev/null; do sleep 0.05; done
  rm -f "$dir/broker.pid"
}

case "${1:-}" in
  start) [[ $# == 2 || $# == 3 ]] || usage; start "$2" "${3:-}" ;;
  stop) [[ $# == 2 ]] || usage; stop "$2" ;;
  *) usage ;;
esac
