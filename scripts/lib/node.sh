# Shared by the scripts that install programs of Node's: source it after common.sh.

need_npm() {
  local program
  for program in node npm; do
    have "$program" || fail "$program isn't in PATH; install it first:" \
      "apt install nodejs npm (Debian, Ubuntu), brew install node (macOS)"
  done
}

npm_install() {
  npm install --prefix "$1" --no-audit --no-fund --ignore-scripts \
    --loglevel=error "${@:2}" >&2 9>&- || fail "npm could not install ${*:2}"
}

# choose_node FOLDER VERSION WHAT: prints the path of a node of at least VERSION's
# major number; where the one in PATH is older, VERSION is brought into FOLDER.
choose_node() {
  local folder=$1 version=$2 what=$3 major=${2%%.*} found brought arch
  found=$(command -v node)
  if [ "$("$found" -p 'parseInt(process.versions.node)')" -ge "$major" ]; then
    echo "$found"
    return
  fi
  arch=$("$found" -p 'process.platform + "-" + process.arch')
  case $arch in
    linux-x64 | linux-arm64) ;;
    *) fail "node is $("$found" --version), $what need $major: install a newer one" ;;
  esac
  brought=$folder/node$major/node_modules/node-$arch/bin/node
  if [ ! -x "$brought" ]; then
    step "node is $("$found" --version): bringing $version for $what"
    npm_install "$folder/node$major" "node-$arch@$version"
  fi
  echo "$brought"
}
