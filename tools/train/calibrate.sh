#!/usr/bin/env bash
# Calibrates the router of the committed encoder on the calibration split of every
# set that has one:
#
#   tools/train/calibrate.sh NEXUS WORK/data [--reranker FILE] [FLAGS...]
#
# FLAGS are calibrate-router's. MetaTool has more queries than all others together:
# --limit 300, unless FLAGS have another, keeps it from outvoting them.
set -euo pipefail
if [[ $# -lt 2 ]]; then
  sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
nexus="$1" data="$2"
shift 2
files=()
for set in acebench_en api_bank bfcl_v4_pooled graph_tool_call livemcpbench \
  metatool restbench seal_tools stabletoolbench toolalpaca toollinkos when2call; do
  files+=(--registry "$data/$set.tools.jsonl" --queries "$data/$set.queries.jsonl")
done
limit=(--limit 300)
case " $* " in *" --limit "*) limit=() ;; esac
exec "$nexus" calibrate-router "${files[@]}" --split calibration \
  --twins "$data/tools.splits.jsonl" "${limit[@]}" "$@"
