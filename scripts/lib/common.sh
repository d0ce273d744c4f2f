# Shared by the scripts of this folder: source it, don't run it. Works with the
# bash 3.2 of macOS.
set -euo pipefail

NEXUS_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
NEXUS_CACHE=${NEXUS_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/nexus}

# Colours only on a terminal, and not against the user's word (no-color.org).
if [ -t 2 ] && [ -z "${NO_COLOR:-}" ] && [ "${TERM:-dumb}" != dumb ]; then
  BOLD=$(printf '\033[1m') DIM=$(printf '\033[2m') RED=$(printf '\033[31m')
  PLAIN=$(printf '\033[0m')
else
  BOLD='' DIM='' RED='' PLAIN=''
fi

# All talk goes to standard error: standard output is for results.
step() { printf '%s==> %s%s\n' "$BOLD" "$*" "$PLAIN" >&2; }
note() { printf '%s    %s%s\n' "$DIM" "$*" "$PLAIN" >&2; }
fail() {
  printf '%serror:%s %s\n' "$RED" "$PLAIN" "$*" >&2
  exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

# Prints the comment at the head of the calling script as its help.
usage() { sed -n '2,/^[^#]/ s/^# \{0,1\}//p' "$0"; }

# with_timeout SECONDS COMMAND...: macOS has no timeout, but Perl.
with_timeout() {
  if have timeout; then
    timeout "$@"
  else
    perl -e 'alarm shift; exec @ARGV or exit 127' "$@"
  fi
}

sha256_of() {
  if have sha256sum; then
    sha256sum "$1" | cut -d ' ' -f 1
  else
    shasum -a 256 "$1" | cut -d ' ' -f 1
  fi
}

cpu_count() { getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2; }

# "3 min 07 s" since a value of $SECONDS.
elapsed_since() {
  local seconds=$((SECONDS - $1))
  printf '%d min %02d s' $((seconds / 60)) $((seconds % 60))
}

# lock FILE: holds it until this process ends; waits for another holder. Children
# that outlive us must not keep it: start them with 9>&-.
lock() {
  mkdir -p "$(dirname "$1")"
  if have flock; then
    exec 9>"$1"
    if ! flock -n 9; then
      note "waiting for another run (it holds $1)"
      flock 9
    fi
    return
  fi
  # A folder can be made only once. A holder that died is told by its number.
  while ! mkdir "$1.d" 2>/dev/null; do
    local holder
    holder=$(cat "$1.d/pid" 2>/dev/null || true)
    if [ -n "$holder" ] && ! kill -0 "$holder" 2>/dev/null; then
      rm -rf "$1.d"
      continue
    fi
    note "waiting for another run (process ${holder:-?} holds $1.d)"
    sleep 5
  done
  echo $$ >"$1.d/pid"
  LOCK_DIR=$1.d
}

unlock() {
  if [ -n "${LOCK_DIR:-}" ]; then rm -rf "$LOCK_DIR"; LOCK_DIR=''; fi
  exec 9>&-
}

# run_logged LOG COMMAND...: on a terminal the command talks for itself; elsewhere
# its output goes to LOG, with a sign of life each minute, and the end of LOG is
# shown if it fails.
run_logged() {
  local log=$1 status=0 pid
  shift
  if [ -t 2 ]; then
    "$@" >&2 9>&- || status=$?
    return $status
  fi
  "$@" >"$log" 2>&1 9>&- &
  pid=$!
  # The child must go with us when somebody presses Ctrl-C.
  trap 'kill "$pid" 2>/dev/null; exit 130' INT TERM
  local waited=0
  while kill -0 "$pid" 2>/dev/null; do
    sleep 1
    waited=$((waited + 1))
    if [ $((waited % 60)) = 0 ]; then note "$(tail -n 1 "$log" | cut -c 1-72)"; fi
  done
  wait "$pid" || status=$?
  trap - INT TERM
  if [ $status != 0 ]; then
    tail -n 40 "$log" >&2
    note "the whole log: $log"
  fi
  return $status
}
