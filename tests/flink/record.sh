#!/usr/bin/env bash
# Asks Apache Flink what its answers lack, and writes them:
#   answers.tsv      the values of the expressions in corpus.sql. Remove the file to record all of them again
#   functions.txt    the names of Flink's functions
#   zones/answers.tsv  the values of the expressions in zones/corpus.sql in the time zones of zones/zones.txt
#   queries/*.sql    below each query, the rows that Flink has for it. Remove an answer to record it again
#   debezium/        the records that Flink writes of the changes that it reads in debezium/changes.json
#
#   record.sh [expressions | zones | queries | debezium]
#
# Needs a JDK of version 17 or 21, Maven, and Maven Central. `make test` does not run this: it reads the answers.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
what="${1:-all}"
version="$(sed -n 's:.*<flink.version>\(.*\)</flink.version>.*:\1:p' "$here/pom.xml")"
jars="$("$here/../fetch-jars.sh" "flink-sql-$version" "$here/pom.xml" "flink-csv-$version.jar")"
classes="$(mktemp -d)"
trap 'rm -rf "$classes"' EXIT
javac -d "$classes" -cp "$jars/*" "$here"/*.java
opens=()
for package in java.lang java.lang.reflect java.net java.nio java.text java.time java.util java.util.concurrent sun.util.calendar; do
  opens+=(--add-opens "java.base/$package=ALL-UNNAMED")
done
run=(java -Xmx2g -Duser.timezone=UTC -Duser.language=en -Duser.country=US "${opens[@]}" -cp "$classes:$jars/*")
# Flink prints the code of each expression that fails; FLINK_ERRORS=1 shows the errors alone.
if [[ $what == all || $what == expressions ]]; then
  "${run[@]}" Record "$here/input.json" "$here/input.sql" "$here/corpus.sql" "$here/answers.tsv" "$here/functions.txt"
fi
if [[ $what == all || $what == zones ]]; then
  zones="$here/zones"
  "${run[@]}" Record "$zones/input.json" "$zones/input.sql" "$zones/corpus.sql" "$zones/answers.tsv" "$here/functions.txt" "$zones/zones.txt"
fi
if [[ $what == all || $what == queries ]]; then
  "${run[@]}" Queries "$here/queries"
fi
if [[ $what == all || $what == debezium ]]; then
  "${run[@]}" Changes "$here/debezium" "$classes/written"
fi
