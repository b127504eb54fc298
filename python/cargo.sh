#!/usr/bin/env bash
# The cargo that maturin calls. `cargo rustc`, which maturin uses, selects the features of dependencies for one package, and builds most of
# them again. `cargo build --workspace` selects them as all other builds of this repository do. maturin is given a copy without symbols.
set -euo pipefail
[[ ${1:-} == rustc ]] || exec cargo "$@"
shift
# Options for rustc would build everything again.
arguments=()
for argument in "$@"; do
  [[ $argument != -- ]] || break
  arguments+=("$argument")
done
messages=$(cargo build --workspace "${arguments[@]}")
program=$(sed -n 's/.*"executable":"\([^"]*\/anabranch\)".*/\1/p' <<<"$messages" | head -n 1)
[[ -x $program ]] || { echo "cargo has not built the program anabranch" >&2; exit 1; }
mkdir -p "${program%/*}/wheel"
strip -o "${program%/*}/wheel/anabranch" "$program"
sed "s|\"$program\"|\"${program%/*}/wheel/anabranch\"|g" <<<"$messages"
