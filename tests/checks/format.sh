#!/usr/bin/env bash
# Every C++ file of the project is formatted as .clang-format says. To mend: clang-format -i FILE.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
status=0
while IFS= read -r -d '' file; do
  if ! clang-format "$file" | cmp -s - "$file"; then
    echo "not formatted: $file"
    status=1
  fi
done < <(find engine viz app kernels tests -regextype egrep -regex '.*\.(cpp|h|cu|cuh)' -print0 2>/dev/null)
exit "$status"
