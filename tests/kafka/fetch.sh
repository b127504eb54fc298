#!/usr/bin/env bash
# Ensures that the jars of a Kafka broker are in the cache, and prints their folder.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
version="$(sed -n 's:.*<kafka.version>\(.*\)</kafka.version>.*:\1:p' "$here/pom.xml")"
exec "$here/../fetch-jars.sh" "kafka-$version" "$here/pom.xml" "kafka_2.13-$version.jar"
