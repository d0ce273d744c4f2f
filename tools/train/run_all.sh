#!/usr/bin/env bash
# Data, bi-encoder, re-ranker and their GGUF files, in this order, at the lowest
# priority. Each stage goes on where it was stopped, so the command can be started
# again at any time; finished stages take seconds.
#
#   setsid tools/train/run_all.sh DATA WORK >LOG 2>&1 &
#
# DATA holds the published sets, WORK gets data/, biencoder/, crossencoder/ and the
# two GGUF files with their reference files.
set -euo pipefail
if [[ $# -ne 2 ]]; then
  sed -n '2,10s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
data="$1" work="$2"
here="$(cd "$(dirname "$0")" && pwd)"
# A session is a scheduling group of its own; nice alone counts within one.
echo 19 2>/dev/null >/proc/self/autogroup || true
renice -n 19 $$ >/dev/null
# Spinning threads would take from the others what they don't use themselves.
export OMP_WAIT_POLICY=passive OMP_NUM_THREADS=2

read -r python minilm < <("$here/setup.sh")
mkdir -p "$work"
if [[ ! -f "$work/data/report.json" ]]; then
  "$python" "$here/prepare.py" "$data" "$work/data" --model-dir "$minilm"
fi
"$python" "$here/train_biencoder.py" --data "$work/data" \
  --model-dir "$minilm" --run "$work/biencoder"
"$python" "$here/export_gguf.py" --model-dir "$minilm" \
  --run "$work/biencoder" --out "$work/nexus-route-minilm-Q8_0.gguf" \
  --reference "$work/nexus-route-minilm.reference.jsonl"
"$python" "$here/train_crossencoder.py" --data "$work/data" \
  --model-dir "$minilm" --encoder "$work/biencoder" --run "$work/crossencoder"
"$python" "$here/export_gguf.py" --model-dir "$minilm" \
  --run "$work/crossencoder" --out "$work/nexus-rerank-minilm-Q8_0.gguf" \
  --reference "$work/nexus-rerank-minilm.reference.jsonl"
