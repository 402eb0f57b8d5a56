#!/usr/bin/env bash
# tidy.sh BUILD: clang-tidy over every source of the program, as BUILD compiles it. Prints the findings only.
set -euo pipefail
build=$(cd "$1" && pwd)
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# What goes to stderr counts warnings that the settings suppress; the command lines and colours say nothing.
if ! run-clang-tidy -quiet -p "$build" -j 1 "^$source_dir/(engine|viz|app|kernels)/.*\.cpp\$" >"$log" 2>/dev/null; then
  sed -e '/^clang-tidy[-0-9]* /d' -e 's/\x1b\[[0-9;]*m//g' "$log"
  exit 1
fi
