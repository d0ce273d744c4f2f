"""What the programs here have in common: flags, the model, the tools, the store."""

import argparse
import json
import pathlib
import signal
import subprocess
import sys
import time


def parser(doc, ctx):
    """With the flags that scripts/bench_serving gives, and those of every program."""
    out = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    out.add_argument("--nexus", required=True)
    out.add_argument("--llama-server", required=True)
    out.add_argument("--mcp", required=True, help="mcpServers file of the tools")
    out.add_argument("--model", default="qwen2.5-coder-0.5b")
    out.add_argument("--ctx", type=int, default=ctx, help="a session's context")
    out.add_argument("--threads", type=int, default=2)
    out.add_argument("--out", type=pathlib.Path, required=True)
    return out


def output_of(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:  # it has said why
        sys.exit(f"{command[0]} {command[1]} failed")
    return done.stdout


def begin(options):
    """Once, before anything is measured: the folder, and options.weights."""
    # Else a run that is ended leaves its servers behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options.out.mkdir(parents=True, exist_ok=True)
    options.out = options.out.resolve()
    options.weights = output_of(options.nexus, "pull", options.model).strip()


def tools_of(options):
    return json.loads(output_of(
        options.nexus, "tools", "--mcp", options.mcp, "--json"))["tools"]


def compiled_store(options):
    """The tools' blocks, compiled offline once for all arms, and the seconds."""
    store = options.out / "store-compiled"
    done = store / "compile_s"
    if not done.exists():
        began = time.monotonic()
        subprocess.run([options.nexus, "compile", "--model", options.model, "--mcp",
                        options.mcp, "--store", str(store), "--contexts",
                        str(options.contexts), "--threads", str(options.threads)],
                       check=True, stdout=subprocess.DEVNULL)
        done.write_text(str(time.monotonic() - began))
    return store, float(done.read_text())
