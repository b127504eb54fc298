#!/usr/bin/env bash
# Evaluates the expressions of corpus.sql that answers.tsv lacks in Apache Flink, and writes its answers there,
# and the names of Flink's functions to functions.txt.
# Remove answers.tsv to record all of them again.
# Needs a JDK of version 17 or 21, Maven, and Maven Central. `make test` does not run this: it reads answers.tsv.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
version="$(sed -n 's:.*<flink.version>\(.*\)</flink.version>.*:\1:p' "$here/pom.xml")"
jars="$("$here/../fetch-jars.sh" "flink-$version" "$here/pom.xml" "flink-table-runtime-$version.jar")"
opens=()
for package in java.lang java.lang.reflect java.net java.nio java.text java.time java.util java.util.concurrent sun.util.calendar; do
  opens+=(--add-opens "java.base/$package=ALL-UNNAMED")
done
# Flink prints the code of each expression that fails; FLINK_ERRORS=1 shows the errors alone.
java -Xmx2g -Duser.timezone=UTC "${opens[@]}" -cp "$jars/*" "$here/Record.java" \
  "$here/input.json" "$here/input.sql" "$here/corpus.sql" "$here/answers.tsv" "$here/functions.txt"
