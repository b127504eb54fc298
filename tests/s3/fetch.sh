#!/usr/bin/env bash
# Ensures that the jars of S3Proxy are in the cache, and prints their folder.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
version="$(sed -n 's:.*<s3proxy.version>\(.*\)</s3proxy.version>.*:\1:p' "$here/pom.xml")"
exec "$here/../fetch-jars.sh" "s3proxy-$version" "$here/pom.xml" "s3proxy-$version.jar"
