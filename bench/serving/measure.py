"""Nexus and llama-server on the same agent traces, side by side.

    scripts/bench_serving [--turns 20] [--traces static,changing,agents]
        [--arms "nexus route,nexus pin,llama"] [--out DIR]

All servers run at once; each turn of a trace goes to each of them in turn, in an
order that rotates, so that a slow minute of the machine meets them all. After each
answer a server has the time it wants for idle work (at most --think seconds; what it
used stands in the table). Every request is a line of DIR/requests.jsonl; a run that
was stopped keeps the traces that were done and begins the one that it was in anew.
"""

import json
import shutil
import sys
import time

import client
import report
import servers
import setting
import traces


def parse(arguments):
    parser = setting.parser(__doc__, ctx=16384)
    parser.add_argument("--turns", type=int, default=20, help="even; default 20")
    parser.add_argument("--traces", default="static,changing,agents")
    parser.add_argument("--arms", default="nexus route,nexus pin,llama,llama default")
    parser.add_argument("--contexts", type=int, default=4,
                        help="compile contexts of the warm store")
    parser.add_argument("--think", type=float, default=30,
                        help="idle seconds after an answer, at most")
    options = parser.parse_args(arguments)
    if not 2 <= options.turns <= 40 or options.turns % 2:
        parser.error("--turns must be even, 2 to 40")
    for name in options.traces.split(","):
        if name not in traces.TRACES:
            parser.error(f"no trace '{name}'; there are {', '.join(traces.TRACES)}")
    return options


def warm_store(options, name, command, tools):
    """What a store holds that has served these tools before: their blocks, and what
    one request leaves. Seconds of both."""
    store = options.out / ("store-" + name.replace(" ", "-"))
    if not (store / "warm").exists():
        compiled, compile_s = setting.compiled_store(options)
        shutil.rmtree(store, ignore_errors=True)
        shutil.copytree(compiled, store)
        began = time.monotonic()
        server = servers.Server([*command, "--store", str(store)],
                                options.out / "warm.log")
        try:
            server.await_ready()
            client.chat(server.port, options.model,
                        traces.static(tools, 2)[0]["body"])
            server.await_quiet(options.think)
        finally:
            server.stop()
        (store / "warm").write_text(json.dumps(
            {"compile_s": compile_s, "request_s": time.monotonic() - began}))
    return store, json.loads((store / "warm").read_text())


def one(server, kind, step, options):
    try:
        answer = client.chat(server.port, options.model, step["body"])
    except client.Failed as problem:
        return {"error": str(problem)}
    out = {"ttft_s": client.ttft(kind, answer), "total_s": answer["total_s"],
           "first_s": answer["first_s"], "usage": answer["usage"],
           "calls": answer["calls"], "text": answer["text"]}
    for name in ("report", "timings"):
        if answer[name]:
            out[name] = answer[name]
    if step["expect"]:
        out["tool"], out["exact"] = traces.judge(answer, step["expect"])
    out["idle_cpu_s"] = server.await_quiet(options.think)
    return out


def run_trace(name, options, tools, file):
    """Fresh servers, so that no trace finds what another left in memory."""
    known = servers.arms(options)
    running = {}
    try:
        for arm in options.arms.split(","):
            if arm not in known:
                sys.exit(f"no arm '{arm}'; there are {', '.join(known)}")
            kind, command = known[arm]
            if kind == "nexus":
                store, warm = warm_store(options, arm, command, tools)
                command = [*command, "--store", str(store)]
            log = options.out / f"{name}-{arm.replace(' ', '-')}.log"
            running[arm] = (kind, servers.Server(command, log))
            ready = running[arm][1].await_ready()
            row = {"trace": name, "arm": arm, "kind": "start", "ready_s": ready}
            if kind == "nexus":
                row["warm"] = warm
            file.write(json.dumps(row) + "\n")
        order = list(running)
        steps = traces.TRACES[name](tools, options.turns)
        for number, step in enumerate(steps):
            for arm in order[number % len(order):] + order[:number % len(order)]:
                kind, server = running[arm]
                row = one(server, kind, step, options)
                file.write(json.dumps({
                    "trace": name, "arm": arm, "kind": "turn",
                    "agent": step["agent"], "turn": step["turn"],
                    "tools": len(step["body"]["tools"]), **row}) + "\n")
                file.flush()
                print(f"{name} {number + 1}/{len(steps)} {arm}: " +
                      (row["error"] if "error" in row else
                       f"{row['ttft_s']:.2f} s, "
                       f"{row['usage']['prompt_tokens']} tokens"),
                      file=sys.stderr, flush=True)
        for arm, (kind, server) in running.items():
            file.write(json.dumps({"trace": name, "arm": arm, "kind": "end",
                                   "peak_mib": server.peak_mib()}) + "\n")
    finally:
        for _, server in running.values():
            server.stop()


def main(arguments):
    options = parse(arguments)
    setting.begin(options)
    tools = setting.tools_of(options)
    path = options.out / "requests.jsonl"
    rows = report.read(path) if path.exists() else []
    arms = options.arms.split(",")
    for name in options.traces.split(","):
        done = {r["arm"] for r in rows if r["trace"] == name and r["kind"] == "end"}
        if set(arms) <= done:
            continue
        rows = [r for r in rows if r["trace"] != name]
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(r) + "\n" for r in rows)
            file.flush()
            run_trace(name, options, tools, file)
        rows = report.read(path)
    report.write(rows, options.out)
    print((options.out / "serving.md").read_text())


if __name__ == "__main__":
    main(sys.argv[1:])
