#!/usr/bin/env bash
# Every shell script of the project is clean under shellcheck.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
shellcheck -x app/run tests/run tests/*.sh .ci/run cmake/*.sh tests/checks/*.sh
