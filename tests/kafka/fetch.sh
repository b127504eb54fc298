#!/usr/bin/env bash
# Makes sure that the jars of a Kafka broker are in the cache, and prints the folder that holds them.
# Safe to run from several processes at once: one downloads, the others wait.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
version="$(sed -n 's:.*<kafka.version>\(.*\)</kafka.version>.*:\1:p' "$here/pom.xml")"
cache="${ANABRANCH_CACHE:-$HOME/.cache/anabranch}"
jars="$cache/kafka-$version"

fail() {
  echo "kafka jars: $*" >&2
  exit 1
}

# A folder is moved into place whole, so one that exists is complete.
if [[ -d $jars ]]; then
  echo "$jars"
  exit 0
fi

command -v mvn >/dev/null || fail "mvn is not installed; install it with 'apt-get install maven default-jre-headless'"
mkdir -p "$cache"
exec 9>"$cache/.kafka-$version.lock"
flock -w 600 9 || fail "another process has held $cache/.kafka-$version.lock for 10 minutes"
if [[ ! -d $jars ]]; then
  part="$(mktemp -d "$cache/.kafka-$version.XXXXXX")"
  trap 'rm -rf "$part"' EXIT
  # What Maven says goes to standard error: standard output is for the folder's name only.
  timeout 600 mvn --batch-mode --quiet -Dstyle.color=never --file "$here/pom.xml" dependency:copy-dependencies \
    -DincludeScope=runtime -DoutputDirectory="$part/jars" >&2 ||
    fail "Maven could not resolve org.apache.kafka:kafka_2.13:$version; is Maven Central reachable?"
  compgen -G "$part/jars/kafka_2.13-$version.jar" >/dev/null || fail "Maven ended well but left no broker in $part/jars"
  chmod 755 "$part/jars"
  mv -T "$part/jars" "$jars"
fi
echo "$jars"
