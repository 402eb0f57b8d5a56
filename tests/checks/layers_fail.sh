#!/usr/bin/env bash
# The layer check finds a fault in each folder that it guards.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree"/{engine/files,viz,kernels,app/command_line}
touch "$tree/app/document.h" "$tree/app/document.cpp"
"$here/layers.sh" "$tree"
while read -r file include; do
  echo "#include $include" >"$tree/$file"
  if "$here/layers.sh" "$tree" >/dev/null; then
    echo "not found: $include in $file"
    exit 1
  fi
  echo "// clean" >"$tree/$file"
done <<'FAULTS'
engine/a.h <QString>
engine/a.h "viz/stage.h"
engine/files/a.cpp <GL/glcorearb.h>
engine/a.cpp <cuda_runtime.h>
engine/a.cpp "imgui.h"
viz/a.cpp <QWidget>
viz/a.cpp "kernels/gpu_runner.h"
kernels/a.cpp "viz/stage.h"
app/command_line/a.cpp <QApplication>
app/document.h <QObject>
FAULTS
