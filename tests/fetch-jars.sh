#!/usr/bin/env bash
# Ensures that the jars of a Java program are in the cache, and prints their folder.
# Safe to run from several processes at once: one downloads, the others wait.
#
#   fetch-jars.sh NAME POM JAR    NAME of the folder, with the version; POM: what to resolve; JAR: one that must be there
set -euo pipefail

name="$1" pom="$2" jar="$3"
cache="${ANABRANCH_CACHE:-$HOME/.cache/anabranch}"
jars="$cache/$name"

fail() {
  echo "$name: $*" >&2
  exit 1
}

# A folder is complete before it is moved into place.
if [[ -d $jars ]]; then
  echo "$jars"
  exit 0
fi

command -v mvn >/dev/null || fail "mvn is not installed; install it with 'apt-get install maven default-jre-headless'"
mkdir -p "$cache"
exec 9>"$cache/.$name.lock"
flock -w 600 9 || fail "another process has held $cache/.$name.lock for 10 minutes"
if [[ ! -d $jars ]]; then
  part="$(mktemp -d "$cache/.$name.XXXXXX")"
  trap 'rm -rf "$part"' EXIT
  # Maven's output goes to standard error: standard output is for the folder's name only.
  timeout 600 mvn --batch-mode --quiet -Dstyle.color=never --file "$pom" dependency:copy-dependencies \
    -DincludeScope=runtime -DoutputDirectory="$part/jars" >&2 ||
    fail "Maven could not resolve what $pom names; is Maven Central reachable?"
  [[ -e $part/jars/$jar ]] || fail "Maven ended well but left no $jar in $part/jars"
  chmod 755 "$part/jars"
  mv -T "$part/jars" "$jars"
fi
echo "$jars"
