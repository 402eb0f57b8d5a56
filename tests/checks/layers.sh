#!/usr/bin/env bash
# Who may include whom: app above viz and kernels, both above engine; viz and kernels never see each other.
# Inside engine nothing of Qt, OpenGL, ImGui or CUDA; in viz no Qt and no CUDA; the command line without Qt.
set -euo pipefail
cd "${1:-$(dirname "${BASH_SOURCE[0]}")/../..}"

qt='<Q[A-Za-z]+|<qcustomplot'
screen='<(GL|EGL|GLES[0-9]*|KHR)/|[<"]imgui'
cuda='[<"](cuda|cupti|nvrtc|cublas|nvperf)'
status=0

# forbid FOLDER PATTERN: no #include in FOLDER matches.
forbid() {
  local hits
  [ -d "$1" ] || return 0
  hits=$(grep -rnE --include='*.h' --include='*.cpp' --include='*.cu' --include='*.cuh' \
    "^[[:space:]]*#[[:space:]]*include[[:space:]]*($2)" "$1") || return 0
  printf '%s must not include this:\n%s\n' "$1" "$hits"
  status=1
}
forbid engine "$qt|$screen|$cuda|\"(viz|app|kernels)/"
forbid viz "$qt|$cuda|\"(app|kernels)/"
forbid kernels "$qt|[<\"]imgui|\"(app|viz)/"
forbid app/command_line "$qt|\"app/window/"
for file in app/*.h app/document*.cpp; do
  if grep -nE "^[[:space:]]*#[[:space:]]*include[[:space:]]*($qt)" "$file" /dev/null; then
    echo "$file must not include Qt"
    status=1
  fi
done
exit "$status"
