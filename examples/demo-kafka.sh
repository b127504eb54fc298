#!/usr/bin/env bash
# A query over a real Kafka broker: starts a broker, fills a topic from one process, queries it from another, and
# stops everything at the end, however the end comes. Arguments go to the query's `anabranch run`.
#
#   ANABRANCH   the binary (default: the release build)
#   RATE        events per second (default 100000)
#   KAFKA_PORT  port of the broker (default: a free one)
set -euo pipefail
cd "$(dirname "$0")/.."

anabranch=${ANABRANCH:-${CARGO_TARGET_DIR:-$HOME/.cache/anabranch/target}/release/anabranch}
rate=${RATE:-100000}
if [[ ! -x $anabranch ]]; then
    echo "error: there is no $anabranch; build it with: make demo-kafka" >&2
    exit 1
fi

# If this script is killed, the broker ends with it.
export ANABRANCH_BROKER_PARENT=$$
folder=$(mktemp -d "${TMPDIR:-/tmp}/anabranch-kafka.XXXXXX")
filler=
stop_all() {
    local status=$?
    trap '' INT TERM
    if [[ -n $filler ]]; then
        kill -TERM "$filler" 2>/dev/null || true
        # It stops when the broker has accepted its records. It must not wait for a broker that is gone.
        for _ in {1..50}; do
            kill -0 "$filler" 2>/dev/null || break
            sleep 0.1
        done
        kill -KILL "$filler" 2>/dev/null || true
        wait "$filler" 2>/dev/null || true
    fi
    tests/kafka/broker.sh stop "$folder" >/dev/null || true
    if ((status != 0)) && [[ -s $folder/fill.log ]]; then
        echo "the last lines of the process that fills the topic:" >&2
        tail -n 5 "$folder/fill.log" >&2
    fi
    rm -rf "$folder"
    exit "$status"
}
trap stop_all EXIT
trap 'exit 0' INT
trap 'exit 143' TERM

echo "starting a Kafka broker"
servers=$(tests/kafka/broker.sh start "$folder" ${KAFKA_PORT:+"$KAFKA_PORT"} | tail -n 1)
servers=${servers##*=}
echo "Kafka is at $servers; filling the topic 'ad-events' with $rate events per second"

fill=(
    "$anabranch" run examples/fill_kafka.sql --quiet
    --option events.rows-per-second="$rate" --option topic.properties.bootstrap.servers="$servers"
)
# The first second runs in the foreground: it creates the topic and shows errors. The rest runs beside the query.
"${fill[@]}" --duration 1s
"${fill[@]}" >"$folder/fill.log" 2>&1 &
filler=$!

"$anabranch" run examples/ad_campaigns_kafka.sql --option events.properties.bootstrap.servers="$servers" \
    --option results.properties.bootstrap.servers="$servers" "$@"

echo "what the topic 'ad-results' holds now:"
"$anabranch" run examples/read_results.sql --quiet --option topic.properties.bootstrap.servers="$servers"
