#!/usr/bin/env bash
# Ensures that the Python environment of tests and builds is in the cache, and prints its folder. It holds what requirements.txt names, and
# belongs to these requirements and this Python: another version of either gets another folder.
# Safe to run from several processes at once: one installs, the others wait.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
cache="${ANABRANCH_CACHE:-$HOME/.cache/anabranch}"
key="$({ python3 -VV && command -v python3 && cat "$here/requirements.txt"; } | sha256sum | cut -c 1-16)"
environment="$cache/python-$key"

if [[ ! -e $environment/complete ]]; then
  mkdir -p "$cache"
  exec 9>"$cache/.python-$key.lock"
  flock -w 900 9 || { echo "another process has held $cache/.python-$key.lock for 15 minutes" >&2; exit 1; }
fi
if [[ ! -e $environment/complete ]]; then
  # Programs of an environment contain its path, so it is made in place.
  rm -rf "$environment"
  python3 -m venv "$environment" >&2
  timeout 800 "$environment/bin/pip" install --quiet --disable-pip-version-check --requirement "$here/requirements.txt" >&2
  touch "$environment/complete"
fi
echo "$environment"
