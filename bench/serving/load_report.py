"""load.json -> a table (Markdown) of the load benchmark.

    python3 bench/serving/load_report.py DIR
"""

import json
import pathlib
import statistics
import sys

# Figure, its heading, how it is written. Each also stands as a ratio to the base's.
FIGURES = (("ttft_p50_s", "TTFT p50", "{:.1f} s"), ("ttft_p95_s", "p95", "{:.1f} s"),
           ("answers_s", "answers a second", "{:.3f}"),
           ("tokens_s", "tokens a second", "{:.1f}"))


def summary(rows):
    """{arm: its figures}: medians over rounds, counts added up."""
    out = {}
    for arm in dict.fromkeys(row["arm"] for row in rows):
        mine = [row for row in rows if row["arm"] == arm]
        # A round without a single answer has no figures but its errors.
        done = [row for row in mine if "ttft_p50_s" in row]
        entry = {key: sum(row.get(key, 0) for row in mine)
                 for key in ("requests", "errors", "right_tool", "exact", "judged")}
        entry["rounds"] = len(mine)
        entry["peak_mib"] = max(row["peak_mib"] for row in mine)
        if done:
            entry.update({key: statistics.median(row[key] for row in done)
                          for key in (*(key for key, _, _ in FIGURES),
                                      "prompt_tokens")})
        out[arm] = entry
    return out


def figure(entry, base, key, form):
    if key not in entry:
        return "–"
    text = form.format(entry[key])
    if base is None or base is entry or not base.get(key):
        return text
    return f"{text} ({entry[key] / base[key]:.2f}x)"


def table(rows, base="llama"):
    entries = summary(rows)
    lines = [
        "| server | rounds | requests | " +
        " | ".join(heading for _, heading, _ in FIGURES) +
        " | prompt tokens, mean | peak memory | right tool | exact arguments |",
        "|---" + "|---:" * (6 + len(FIGURES)) + "|"]
    for arm, entry in entries.items():
        requests = f"{entry['requests']}"
        if entry["errors"]:
            requests += f" ({entry['errors']} failed)"
        figures = [figure(entry, entries.get(base), key, form)
                   for key, _, form in FIGURES]
        prompt = f"{entry['prompt_tokens']:.0f}" if "prompt_tokens" in entry else "–"
        lines.append("| " + " | ".join([
            arm, str(entry["rounds"]), requests, *figures, prompt,
            f"{entry['peak_mib']:,.0f} MiB",
            f"{entry['right_tool']} of {entry['judged']}",
            f"{entry['exact']} of {entry['judged']}"]) + " |")
    return "\n".join(lines) + "\n"


def write(rows, folder):
    first = rows[0]
    text = (f"{first['sessions']} sessions of {first['turns']} turns at once, "
            f"{first['tools']} tools; in brackets against `llama`\n\n" + table(rows))
    (pathlib.Path(folder) / "load.md").write_text(text, encoding="utf-8")
    return text


if __name__ == "__main__":
    print(write(json.loads((pathlib.Path(sys.argv[1]) / "load.json").read_text()),
                sys.argv[1]), end="")
