"""requests.jsonl -> a table (Markdown) and a plot (SVG).

    python3 bench/serving/report.py DIR
"""

import json
import pathlib
import random
import sys

RESAMPLES = 2000


def read(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def quantile(values, share):
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (at - low) * (ordered[high] - ordered[low])


def mean(values):
    return sum(values) / len(values) if values else float("nan")


def ratio_interval(ours, theirs, seed=1):
    """mean(ours) / mean(theirs) over paired turns, with a 95 % bootstrap
    interval."""
    draw = random.Random(seed)
    count = len(ours)
    found = []
    for _ in range(RESAMPLES):
        picks = [draw.randrange(count) for _ in range(count)]
        found.append(sum(ours[i] for i in picks) / sum(theirs[i] for i in picks))
    return (mean(ours) / mean(theirs), quantile(found, 0.025),
            quantile(found, 0.975))


def answered(rows, trace, arm):
    """{(agent, turn): row} of the turns that brought an answer."""
    return {(r["agent"], r["turn"]): r for r in rows
            if r["trace"] == trace and r["arm"] == arm and r["kind"] == "turn" and
            "error" not in r}


def arm_row(rows, trace, arm, base):
    mine, theirs = answered(rows, trace, arm), answered(rows, trace, base)
    turns = [r for r in rows if r["trace"] == trace and r["arm"] == arm and
             r["kind"] == "turn"]
    warm = [k for k in mine if k[1] > 0]
    first = [k for k in mine if k[1] == 0]
    both = [k for k in warm if k in theirs]
    judged = [r for r in mine.values() if "tool" in r]
    end = [r for r in rows if r["trace"] == trace and r["arm"] == arm and
           r["kind"] == "end"]
    out = {
        "trace": trace, "arm": arm, "n": len(turns),
        "errors": len(turns) - len(mine),
        "first_s": mean([mine[k]["ttft_s"] for k in first]),
        "warm_mean_s": mean([mine[k]["ttft_s"] for k in warm]),
        "tokens": max(r["usage"]["prompt_tokens"] for r in mine.values()),
        "tool": sum(r["tool"] for r in judged),
        "exact": sum(r["exact"] for r in judged), "judged": len(judged),
        "idle_cpu_s": mean([r["idle_cpu_s"] for r in mine.values()]),
        "peak_mib": end[-1]["peak_mib"] if end else None,
    }
    if warm:
        times = [mine[k]["ttft_s"] for k in warm]
        out["warm_p50_s"] = quantile(times, 0.5)
        out["warm_p95_s"] = quantile(times, 0.95)
    if both and arm != base:
        out["ratio"] = ratio_interval([mine[k]["ttft_s"] for k in both],
                                      [theirs[k]["ttft_s"] for k in both])
    shared = [k for k in first if k in theirs]
    if shared and arm != base:
        out["first_ratio"] = (mean([mine[k]["ttft_s"] for k in shared]) /
                              mean([theirs[k]["ttft_s"] for k in shared]))
    return out


def summary(rows, base="llama"):
    """One entry a trace and arm, in the order of the file."""
    pairs = list(dict.fromkeys(
        (r["trace"], r["arm"]) for r in rows if r["kind"] == "turn"))
    return [arm_row(rows, trace, arm, base) for trace, arm in pairs
            if answered(rows, trace, arm)]


def table(entries, base="llama"):
    lines = [
        f"| trace | server | turns | first turn | against `{base}` | warm TTFT mean "
        "(p50, p95) | against it [95 %] | prompt tokens, longest | right tool | "
        "exact arguments | idle CPU a turn | peak memory |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"]
    for e in entries:
        warm = (f"{e['warm_mean_s']:.2f} s ({e['warm_p50_s']:.2f}, "
                f"{e['warm_p95_s']:.2f})") if "warm_p50_s" in e else "–"
        ratio = ("{:.2f}x [{:.2f}–{:.2f}]".format(*e["ratio"]) if "ratio" in e
                 else "1" if e["arm"] == base else "–")
        first = (f"{e['first_ratio']:.2f}x" if "first_ratio" in e
                 else "1" if e["arm"] == base else "–")
        turns = f"{e['n']}" + (f" ({e['errors']} failed)" if e["errors"] else "")
        memory = f"{e['peak_mib']:,.0f} MiB" if e["peak_mib"] else "–"
        lines.append(
            f"| {e['trace']} | {e['arm']} | {turns} | {e['first_s']:.2f} s | {first} "
            f"| {warm} | {ratio} | {e['tokens']:,} | {e['tool']} of {e['judged']} | "
            f"{e['exact']} of {e['judged']} | {e['idle_cpu_s']:.1f} s | {memory} |")
    return "\n".join(lines) + "\n"


def plot(rows, path):
    """TTFT by turn, a panel for each trace; the mean over agents."""
    import matplotlib
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "nexus"
    from matplotlib import pyplot
    names = list(dict.fromkeys(r["trace"] for r in rows if r["kind"] == "turn"))
    figure, axes = pyplot.subplots(1, len(names), figsize=(4.2 * len(names), 3.4),
                                   sharey=True, squeeze=False)
    arms = list(dict.fromkeys(r["arm"] for r in rows if r["kind"] == "turn"))
    for axis, trace in zip(axes[0], names):
        for number, arm in enumerate(arms):
            mine = answered(rows, trace, arm)
            turns = sorted({t for _, t in mine})
            axis.plot([t + 1 for t in turns],
                      [mean([r["ttft_s"] for (_, t), r in mine.items() if t == turn])
                       for turn in turns], marker="o", markersize=3, label=arm,
                      color=f"C{number}",
                      linestyle="--" if arm.startswith("llama") else "-")
        axis.set_title(trace)
        axis.set_xlabel("turn")
        axis.set_yscale("log")
        axis.grid(alpha=0.3)
    axes[0][0].set_ylabel("time to first token, s")
    axes[0][0].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def write(rows, folder):
    entries = summary(rows)
    folder = pathlib.Path(folder)
    text = table(entries)
    starts = [r for r in rows if r["kind"] == "start"]
    if starts:
        text += "\nStart until /health, s: " + ", ".join(
            f"{r['trace']} {r['arm']} {r['ready_s']:.1f}" for r in starts) + "\n"
    for row in starts:
        if "warm" in row and row["trace"] == starts[0]["trace"]:
            text += (f"\n{row['arm']}: its store took {row['warm']['compile_s']:.0f} s "
                     f"to compile, and one request of {row['warm']['request_s']:.0f} "
                     "s before the first trace\n")
    (folder / "serving.md").write_text(text, encoding="utf-8")
    (folder / "serving.json").write_text(json.dumps(entries, indent=1) + "\n")
    plot(rows, folder / "serving.svg")


if __name__ == "__main__":
    write(read(pathlib.Path(sys.argv[1]) / "requests.jsonl"), sys.argv[1])
