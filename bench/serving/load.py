"""Many sessions at once: errors, TTFT, throughput, Nexus beside llama-server.

    scripts/bench_serving load [--sessions 32] [--turns 2] [--tasks 6] [--out DIR]

Each session is a client with a conversation of its own over the same list of tools:
it sends a turn, waits for the whole answer, and sends the next at once. All begin
together. The servers run one after the other, for each wants the whole machine; the
list is short, so that llama-server's prompts fit all its slots. --rounds repeats
both, in turn.
"""

import json
import statistics
import sys
import threading
import time

import client
import load_report
import servers
import setting
import traces


def parse(arguments):
    parser = setting.parser(__doc__, ctx=4096)
    parser.add_argument("--arms", default="nexus route,llama")
    parser.add_argument("--sessions", type=int, default=32)
    parser.add_argument("--turns", type=int, default=2, help="of each session; even")
    parser.add_argument("--tasks", type=int, default=6,
                        help="that the sessions draw on; their tools are the list")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--contexts", type=int, default=2)
    options = parser.parse_args(arguments)
    if not 1 <= options.sessions <= 256:
        parser.error("--sessions must be 1 to 256")
    if not 2 <= options.turns <= 2 * options.tasks or options.turns % 2:
        parser.error("--turns must be even, and at most twice --tasks")
    return options


def conversations(tools, options):
    """[session] -> its turns. Sessions begin at different tasks of the script."""
    script = traces.read_script()[:options.tasks]
    wanted = {task["tool"] for task in script}
    shown = [t for t in tools if t["name"] in wanted]
    out = []
    for session in range(options.sessions):
        at = session % len(script)
        tasks = script[at:] + script[:at]
        # The number makes conversations of one task differ from the start.
        tasks[0] = {**tasks[0], "user": f"({session + 1}) {tasks[0]['user']}"}
        out.append([traces.request(tasks, turn, shown)
                    for turn in range(options.turns)])
    return out


def ttft(kind, answer):
    """As client.ttft, with the wait for a slot: llama-server's own times leave it
    out, so its first token's time is the answer's end less its generation."""
    if kind != "llama-server" or not answer["timings"]:
        return client.ttft(kind, answer)
    own = answer["timings"]
    later = own["predicted_ms"] - own.get("predicted_per_token_ms", 0)
    first = answer["total_s"] - max(later, 0) / 1000
    return first if answer["first_s"] is None else min(first, answer["first_s"])


def talk(port, model, kind, steps, rows):
    for step in steps:
        try:
            answer = client.chat(port, model, step["body"])
        except client.Failed as problem:
            rows.append({"error": str(problem)})
            continue
        row = {"ttft_s": ttft(kind, answer), "total_s": answer["total_s"],
               "tokens": answer["usage"]["completion_tokens"],
               "prompt": answer["usage"]["prompt_tokens"]}
        if step["expect"]:
            row["tool"], row["exact"] = traces.judge(answer, step["expect"])
        rows.append(row)


def load(kind, command, talks, options, log):
    server = servers.Server(command, log)
    try:
        server.await_ready()
        rows = []
        threads = [threading.Thread(target=talk, args=(
            server.port, options.model, kind, steps, rows)) for steps in talks]
        began = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return {"seconds": time.monotonic() - began, "peak_mib": server.peak_mib(),
                "requests": rows}
    finally:
        server.stop()


def summary(run):
    done = [row for row in run["requests"] if "error" not in row]
    waits = sorted(row["ttft_s"] for row in done)
    judged = [row for row in done if "tool" in row]
    out = {"requests": len(run["requests"]),
           "errors": len(run["requests"]) - len(done), "seconds": run["seconds"],
           "peak_mib": run["peak_mib"]}
    if done:
        out.update({
            "ttft_p50_s": statistics.median(waits),
            "ttft_p95_s": waits[min(len(waits) - 1, int(0.95 * len(waits)))],
            "answers_s": len(done) / run["seconds"],
            "tokens_s": sum(row["tokens"] for row in done) / run["seconds"],
            "prompt_tokens": statistics.mean(row["prompt"] for row in done)})
    if judged:
        out.update({"right_tool": sum(row["tool"] for row in judged),
                    "exact": sum(row["exact"] for row in judged),
                    "judged": len(judged)})
    return out


def main(arguments):
    options = parse(arguments)
    setting.begin(options)
    tools = setting.tools_of(options)
    talks = conversations(tools, options)
    known = servers.arms(options)
    result = []
    for round_ in range(options.rounds):
        for name in options.arms.split(","):
            kind, command = known[name]
            if kind == "nexus":
                store, _ = setting.compiled_store(options)
                command = [*command, "--store", str(store)]
            run = load(kind, command, talks, options, options.out / f"{name}.log")
            row = {"round": round_, "arm": name, "sessions": options.sessions,
                   "turns": options.turns, "tools": len(talks[0][0]["body"]["tools"]),
                   **summary(run)}
            result.append(row)
            print(json.dumps(row), flush=True)
            with open(options.out / f"{name}-{round_}.jsonl", "w",
                      encoding="utf-8") as file:
                file.writelines(json.dumps(r) + "\n" for r in run["requests"])
    (options.out / "load.json").write_text(json.dumps(result, indent=1) + "\n")
    load_report.write(result, options.out)


if __name__ == "__main__":
    main(sys.argv[1:])
