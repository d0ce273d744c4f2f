"""What `nexus eval route --json` found on several sets -> tables (Markdown).

    python3 bench/routing/table.py DIR [DIR...]

A DIR has a JSON file a set, as bench/routing/sets.sh writes them. Two tables a DIR: by
size of the pool over all sets, each query counting once ("micro") and each set
counting once ("macro", sets of 30 queries or more); and by set.
"""

import json
import pathlib
import sys

# A set of six queries says nothing for itself.
LEAST_FOR_MACRO = 30
BASELINES = ("bm25", "dense-int8", "rrf", "nexus")


def read(folder):
    found = {}
    for path in sorted(pathlib.Path(folder).glob("*.json")):
        found[path.stem] = json.loads(path.read_text(encoding="utf-8"))
    return found


def percent(value):
    return f"{100 * value:.1f}"


def top1(point, name):
    return next(r["top1"] for r in point["rankings"] if r["name"] == name)


def mean(points, value, weighted):
    """Over sets; weighted: over their queries."""
    if not weighted:
        points = [p for p in points if p["n"] >= LEAST_FOR_MACRO]
    weights = [p["n"] if weighted else 1 for p in points]
    total = sum(weights)
    return sum(w * value(p) for w, p in zip(weights, points)) / total if total else 0


def one_tool_precision(point):
    """Right, of the auto-routed queries that need one tool: where several are
    needed, routing one of them counts as wrong, whichever it is."""
    several = point.get("several_needed", {"routed_one": 0, "n": 0})
    routed = point["auto_share"] * point["n"] - several["routed_one"] * several["n"]
    right = point["auto_share"] * point["auto_precision"] * point["n"]
    return right / routed if routed > 0 else 0


def by_size(sets):
    # A registry smaller than the pool is asked whole: it counts with the others.
    places = max(len(found["sweep"]) for found in sets.values())
    lines = ["| tools | n | BM25 | dense, un-tuned | reciprocal ranks | **Nexus** | macro | "
             "recall@5 | auto-routed | precision | where one tool is needed | "
             "near misses routed |", "|---:" * 12 + "|"]
    for at in range(places):
        points = [found["sweep"][min(at, len(found["sweep"]) - 1)]
                  for found in sets.values()]
        cells = [f"{max(p['tools'] for p in points):,}", str(sum(p["n"] for p in points))]
        for name in BASELINES:
            cells.append(percent(mean(points, lambda p, k=name: top1(p, k), True)))
        cells[-1] = f"**{cells[-1]}**"
        cells.append(percent(mean(points, lambda p: top1(p, "nexus"), False)))
        for value in (lambda p: p["recall_at_5"], lambda p: p["auto_share"],
                      lambda p: p["auto_precision"], one_tool_precision,
                      lambda p: p["oos"]["near_miss"]["value"]):
            cells.append(percent(mean(points, value, True)))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def by_set(sets):
    lines = ["| set | n | tools | top-1 by pool size | BM25 and dense at the largest | "
             "auto-routed at precision, one tool needed | near misses routed | AUROC of the lead, of the "
             "best cosine |", "|---|---:|---:|---|---|---|---:|---|"]
    for name, found in sets.items():
        sweep = found["sweep"]
        last = sweep[-1]
        signals = {s["name"]: s["auroc"] for s in last["oos"]["signals"]}
        lines.append("| " + " | ".join([
            name, str(found["n"]), f"{found['registry_tools']:,}",
            ", ".join(percent(p["top1"]) for p in sweep),
            f"{percent(top1(last, 'bm25'))}, {percent(top1(last, 'dense-int8'))}",
            f"{percent(last['auto_share'])} at {percent(one_tool_precision(last))}",
            percent(last["oos"]["near_miss"]["value"]),
            f"{signals.get('lead', 0):.2f}, {signals.get('top score', 0):.2f}"]) + " |")
    return "\n".join(lines)


def main():
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    for folder in sys.argv[1:]:
        sets = read(folder)
        if not sets:
            raise SystemExit(f"{folder}: holds no *.json of `nexus eval route --json`")
        pools = sorted({found["pool"] for found in sets.values()})
        print(f"pool: {', '.join(pools)}\n\n{by_size(sets)}\n\n{by_set(sets)}\n")


if __name__ == "__main__":
    main()
