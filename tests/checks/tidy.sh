#!/usr/bin/env bash
# tidy.sh BUILD: clang-tidy over every source of the program, as BUILD compiles it.
set -euo pipefail
build=$(cd "$1" && pwd)
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
run-clang-tidy -quiet -p "$build" -j 1 "^$source_dir/(engine|viz|app|kernels)/.*\.cpp\$" 2>/dev/null | grep -v '^clang-tidy '
