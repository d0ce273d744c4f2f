#!/usr/bin/env bash
# Usage: bench/routing/sets.sh NEXUS DATA OUT [EVAL ROUTE FLAGS]
#
# `nexus eval route` on the test side of every published set that
# tools/train/prepare.py has written to DATA: pools of 10 to 250 tools, each query
# once more without its right tools. A JSON file a set goes to OUT; those that are
# there already are kept, so a run that was stopped goes on. Then the table:
#
#   bench/routing/sets.sh build/release/nexus WORK/data OUT
#   bench/routing/sets.sh build/release/nexus WORK/data OUT2 --pool random
#   python3 bench/routing/table.py OUT OUT2
#
# MetaTool has more queries than all others together: 150 are drawn of each set. The
# first run embeds 16,000 tools, about half an hour on one core.
set -euo pipefail
if [[ $# -lt 3 ]]; then
  sed -n '2,16s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
nexus="$1" data="$2" out="$3"
shift 3
mkdir -p "$out"
pool=(--pool neighbour)
case " $* " in *" --pool "*) pool=() ;; esac
failed=0
for set in acebench_en api_bank bfcl_v4_pooled graph_tool_call livemcpbench metatool \
  seal_tools stabletoolbench toolalpaca toollinkos when2call; do
  [[ -s "$out/$set.json" ]] && continue
  echo "$set" >&2
  if "$nexus" eval route --registry "$data/$set.tools.jsonl" \
    --queries "$data/$set.queries.jsonl" --split test --limit 150 --near-miss \
    ${pool[@]+"${pool[@]}"} --sweep 10,25,50,100,250 --seeds 5 \
    --twins "$data/tools.splits.jsonl" --cache "$data/route.cache" --json "$@" >"$out/$set.part"; then
    mv "$out/$set.part" "$out/$set.json"
  else
    failed=1
  fi
done
exit $failed
