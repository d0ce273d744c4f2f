# Shared by the scripts that bring packages of Python, for the end-to-end tests and the
# serving benchmark: source it after common.sh.

# python_client FOLDER WHAT PACKAGE==VERSION...: installs the packages once, into a
# folder of the cache, and prints the Python to run them with.
python_client() {
  local root=$NEXUS_CACHE/$1 what=$2 versions packages program
  shift 2
  versions=$(printf '+%s' "${@##*==}")
  # Not a venv: Debian has those in a package of their own.
  packages=$root/${versions#+}
  program=$root/python

  mkdir -p "$root"
  lock "$root/.lock"
  trap unlock EXIT
  if [ ! -f "$packages/.installed" ]; then
    step "Installing $what ($*)"
    rm -rf "$packages"
    PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet \
      --disable-pip-version-check --no-warn-conflicts \
      --target "$packages" "$@" >&2 9>&- ||
      fail "pip could not install $*"
    : >"$packages/.installed"
  fi
  printf '#!/bin/sh\nPYTHONPATH="%s" exec python3 "$@"\n' "$packages" >"$program"
  chmod +x "$program"
  echo "$program"
}
