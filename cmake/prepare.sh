# shellcheck shell=bash
# What app/run and tests/run share: the lists of packages, installing what is missing, a quiet build.
# Everything that is said here goes to standard error: standard output belongs to the program.

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# To build and to start the program.
# shellcheck disable=SC2034  # read by app/run and tests/run
build_packages=(
  build-essential cmake ninja-build pkg-config
  qt6-base-dev libqt6opengl6-dev qt6-svg-dev libqcustomplot-dev libqcustomplot2.1-qt6
  libimgui-dev libegl-dev libgl-dev libegl1 libgl1 libegl-mesa0 libgl1-mesa-dri libstb-dev
  libhwy-dev libeigen3-dev libfmt-dev nlohmann-json3-dev libcli11-dev libminizip-dev zlib1g-dev
  fonts-dejavu-core
)
# Only to test it.
# shellcheck disable=SC2034  # read by tests/run
test_packages=(
  libgtest-dev libgmock-dev xvfb ccache clang-format clang-tidy shellcheck python3 python3-numpy
)

say() { printf 'flashscope: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

# Runs a command with its output kept in a log, which is shown where the command fails.
quietly() {
  local log status=0
  log=$(mktemp)
  "$@" >"$log" 2>&1 </dev/null || status=$?
  if [ "$status" -ne 0 ]; then cat "$log" >&2; fi
  rm -f "$log"
  return "$status"
}

# Those of the named packages that are not installed, one a line. A name that another installed package
# provides counts as installed (Ubuntu renamed some libraries so).
missing_packages() {
  # shellcheck disable=SC2016  # the fields are dpkg-query's
  dpkg-query -W -f '${db:Status-Status} ${Package} ${Provides}\n' |
    awk -v wanted="$*" '
      $1 == "installed" { gsub(/\([^)]*\)|,/, ""); for (i = 2; i <= NF; i++) have[$i] = 1 }
      END { n = split(wanted, names, " "); for (i = 1; i <= n; i++) if (!(names[i] in have)) print names[i] }'
}

# install_missing WHY PACKAGE...
install_missing() {
  local why=$1 system missing=() root=()
  shift
  # shellcheck disable=SC1091
  system=$(. /etc/os-release 2>/dev/null && echo "${ID:-unknown} ${VERSION_ID:-}") || system="unknown"
  case "$system" in
    "debian 12") ;;
    "ubuntu 24.04") say "Ubuntu 24.04: best effort, this was tested on Debian 12 only" ;;
    *)
      say "this system ($system) is not known here, so nothing is installed; on Debian 12 the needed packages are: $*"
      return
      ;;
  esac
  mapfile -t missing < <(missing_packages "$@")
  if [ "${#missing[@]}" -eq 0 ]; then return; fi
  if [ "$EUID" -ne 0 ]; then
    command -v sudo >/dev/null || fail "root is needed to install: apt-get install ${missing[*]}"
    root=(sudo)
  fi
  say "installing with ${root[*]:+sudo }apt-get, $why: ${missing[*]}"
  if [ "${#root[@]}" -gt 0 ]; then sudo -v; fi  # asks for the password where it can be seen
  quietly "${root[@]}" apt-get update -qq || say "the package lists could not be renewed; trying with those that are here"
  quietly "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" ||
    fail "apt-get could not install the packages (its messages are above)"
}

# build PRESET TARGET [CMAKE ARGS]: configures where that is needed and builds, showing how far it is; on
# failure the log.
build() {
  local preset=$1 target=$2 directory=$source_dir/build/$1 log line shown=-1 percent
  shift 2
  log=$(mktemp)
  if [ ! -f "$directory/build.ninja" ]; then
    say "configuring build/$preset"
    (cd "$source_dir" && quietly cmake --preset "$preset" "$@") || fail "cmake could not configure build/$preset"
  fi
  if ! cmake --build "$directory" --target "$target" --parallel "$(nproc)" 2>&1 </dev/null | tee "$log" |
    while IFS= read -r line; do
      # Ninja's "[17/112] Building ..."; a run of one or two steps is its check for new files.
      [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]] && [ "${BASH_REMATCH[2]}" -gt 2 ] || continue
      percent=$((100 * BASH_REMATCH[1] / BASH_REMATCH[2]))
      if [ -t 2 ]; then
        printf '\rflashscope: building build/%s %3d %%' "$preset" "$percent" >&2
        [ "$percent" -lt 100 ] || printf '\n' >&2
      elif [ $((percent / 20)) -gt "$shown" ]; then
        shown=$((percent / 20))
        say "building build/$preset, $percent %"
      fi
    done; then
    printf '\n' >&2
    sed -n '/FAILED:\|rror/,$p' "$log" | grep . >&2 || tail -n 50 "$log" >&2
    rm -f "$log"
    fail "build/$preset could not be built (the log is above)"
  fi
  rm -f "$log"
}
