"""What serving costs besides inference: start-up, time per request, idle connections.

    scripts/bench_serving costs [--rounds 5] [--connections 1000] [--out DIR]

Start-up is measured against llama-server, in turn with it: from the start of the
process to the end of a first short answer, and for llama-server also to /health,
which is loading the model and a warm-up run. The time per request is what the client
waits beyond inference, which is the prompt's decode and the sampling of one token, for
a prompt that the session holds and an answer of one token. Connections are kept open
after one GET each; memory is the growth of the resident set.
"""

import http.client
import json
import statistics
import sys
import time

import servers
import setting

QUESTION = {"messages": [{"role": "user", "content": "Say hello."}],
            "temperature": 0, "max_tokens": 1}


def parse(arguments):
    parser = setting.parser(__doc__, ctx=8192)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=50)
    parser.add_argument("--connections", type=int, default=1000)
    return parser.parse_args(arguments)


def ask(connection, model):
    """(seconds, the answer) of one short request."""
    began = time.monotonic()
    connection.request("POST", "/v1/chat/completions",
                       json.dumps({"model": model, **QUESTION}),
                       {"Content-Type": "application/json", "X-Nexus": "1"})
    response = connection.getresponse()
    body = json.loads(response.read())
    if response.status != 200:
        sys.exit(f"status {response.status}: {body}")
    return time.monotonic() - began, body


def start(command, options, log):
    """(the server, seconds to /health, seconds to the first answer)."""
    server = servers.Server(command, log)
    ready = server.await_ready(poll=0.01)
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=600)
    ask(connection, options.model)
    connection.close()
    return server, ready, time.monotonic() - server.started


def start_up(options, commands):
    """{name: {"ready_s": [..], "first_s": [..]}}; the first round only warms files."""
    times = {name: {"ready_s": [], "first_s": []} for name in commands}
    for round_ in range(options.rounds + 1):
        for name, command in commands.items():
            server, ready, first = start(command, options,
                                         options.out / f"{name}.log")
            server.stop()
            if round_ > 0:
                times[name]["ready_s"].append(ready)
                times[name]["first_s"].append(first)
    return times


def per_request(options, server):
    """Milliseconds of a whole request, beside its decode, beside its sampling as well,
    and of /health."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=600)
    whole, beside, neither, health = [], [], [], []
    for number in range(options.requests + 5):
        seconds, body = ask(connection, options.model)
        began = time.monotonic()
        connection.request("GET", "/health")
        connection.getresponse().read()
        if number >= 5:
            whole.append(1000 * seconds)
            spent = body["nexus"]["ms"]
            beside.append(1000 * seconds - spent["prepare"])
            neither.append(beside[-1] - spent["sample"])
            health.append(1000 * (time.monotonic() - began))
    connection.close()
    return {"whole_ms": whole, "beside_decode_ms": beside,
            "beside_inference_ms": neither, "health_ms": health}


def idle_connections(options, server):
    before = server.rss_mib()
    held = []
    for _ in range(options.connections):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        connection.request("GET", "/health")
        connection.getresponse().read()
        held.append(connection)
    time.sleep(0.5)
    grown = server.rss_mib() - before
    alive = 0
    for connection in held:
        connection.request("GET", "/health")
        alive += connection.getresponse().status == 200
        connection.close()
    return {"connections": len(held), "alive": alive, "grown_mib": grown}


def main(arguments):
    options = parse(arguments)
    setting.begin(options)
    known = servers.arms(options)
    commands = {name: known[name][1] for name in ("nexus route", "llama")}
    commands["nexus route"] += ["--store", str(options.out / "store")]
    result = {"start_up": start_up(options, commands)}
    server, _, _ = start(commands["nexus route"], options, options.out / "nexus.log")
    try:
        result["per_request"] = per_request(options, server)
        result["idle"] = idle_connections(options, server)
    finally:
        server.stop()
    (options.out / "costs.json").write_text(json.dumps(result, indent=1) + "\n")

    middle = statistics.median
    nexus, llama = (result["start_up"][name] for name in commands)
    first, other, load = (middle(v) for v in (
        nexus["first_s"], llama["first_s"], llama["ready_s"]))
    print(f"start to first answer, median of {options.rounds}: nexus {first:.2f} s, "
          f"llama-server {other:.2f} s ({first / other:.2f}x); to its /health "
          f"{load:.2f} s ({first / load:.2f}x)")
    request = result["per_request"]
    print(f"a request beside inference: median "
          f"{middle(request['beside_inference_ms']):.2f} ms, with the sampling of its "
          f"token {middle(request['beside_decode_ms']):.2f} ms, of "
          f"{middle(request['whole_ms']):.2f} ms (n = {options.requests}); /health "
          f"{middle(request['health_ms']):.2f} ms")
    idle = result["idle"]
    print(f"{idle['connections']} idle connections: {idle['grown_mib']:.1f} MiB, "
          f"{idle['alive']} still answered")


if __name__ == "__main__":
    main(sys.argv[1:])
