#!/usr/bin/env bash
# with_display.sh COMMAND...: runs it on a virtual X display of its own, drawn by software OpenGL, with settings
# of its own; several may run at once. Listing a test program's tests needs no display.
set -euo pipefail

for argument in "$@"; do
  if [ "$argument" = --gtest_list_tests ]; then exec "$@"; fi
done

scratch=$(mktemp -d)
server=
# shellcheck disable=SC2317  # called by the trap
cleanup() {
  if [ -n "$server" ]; then kill "$server" 2>/dev/null || true; fi
  rm -rf "$scratch"
}
trap cleanup EXIT

# -displayfd: the server takes a free number itself and says which, once it is ready.
mkfifo "$scratch/display"
Xvfb -displayfd 3 -screen 0 1920x1200x24 +extension GLX -nolisten tcp 3<>"$scratch/display" 2>"$scratch/log" &
server=$!
if ! IFS= read -r -t 30 number 3<>"$scratch/display" <&3; then
  echo "Xvfb did not start:" >&2
  cat "$scratch/log" >&2
  exit 1
fi
status=0
DISPLAY=:$number QT_QPA_PLATFORM=xcb LIBGL_ALWAYS_SOFTWARE=1 XDG_CONFIG_HOME=$scratch/config "$@" || status=$?
exit "$status"
