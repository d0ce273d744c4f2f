"""What the clients ask: agent traces over a registry of tools.

A trace is a list of turns. A turn is one request of an agent: either the user has
just said something and a call is due, or a tool's result has just come and words
are. What stands before the last message is scripted (script.jsonl) and doesn't
depend on what a server answered, so each server gets the same requests.
"""

import json
import pathlib
import random

SCRIPT = pathlib.Path(__file__).with_name("script.jsonl")
SYSTEM = ("You are a helpful assistant with tools for files, a knowledge graph and "
          "small services. Call a tool when one fits; otherwise answer briefly.")
CALL_TOKENS = 64
WORD_TOKENS = 16
AGENTS = 8


def read_script():
    with open(SCRIPT, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def as_functions(tools):
    """MCP's tools (`nexus tools --json`) in OpenAI's shape."""
    return [{"type": "function", "function": {
        "name": t["name"], "description": t.get("description", ""),
        "parameters": t["inputSchema"]}} for t in tools]


def messages(tasks, turn):
    """The conversation of a client that stands at `turn`: even turns wait for the
    call of task turn / 2, odd ones for words about its result."""
    out = [{"role": "system", "content": SYSTEM}]
    for at in range(turn // 2 + 1):
        task = tasks[at]
        out.append({"role": "user", "content": task["user"]})
        if at == turn // 2 and turn % 2 == 0:
            break
        example = {name: accepted[0] for name, accepted in task["arguments"].items()}
        out.append({"role": "assistant", "content": "", "tool_calls": [{
            "id": f"call_{at}", "type": "function", "function": {
                "name": task["tool"], "arguments": json.dumps(example)}}]})
        out.append({"role": "tool", "tool_call_id": f"call_{at}",
                    "content": task["result"]})
        if at == turn // 2:
            break
        out.append({"role": "assistant", "content": task["words"]})
    return out


def request(tasks, turn, tools):
    is_call = turn % 2 == 0
    return {"expect": tasks[turn // 2] if is_call else None, "body": {
        "messages": messages(tasks, turn), "tools": as_functions(tools),
        "temperature": 0, "max_tokens": CALL_TOKENS if is_call else WORD_TOKENS}}


def needed(tasks, turn):
    return tasks[turn // 2]["tool"]


def changed(tools, tool, seed):
    """The list as a client sends it once servers were switched on or off, tools
    filtered, the order shuffled. `tool`, which the turn needs, stays."""
    draw = random.Random(seed)
    out = list(tools)
    if seed % 4 == 1:
        servers = sorted({t["server"] for t in tools})
        mine = next(t["server"] for t in tools if t["name"] == tool)
        off = draw.choice([s for s in servers if s != mine] or [None])
        out = [t for t in out if t["server"] != off]
    elif seed % 4 == 2:
        draw.shuffle(out)
    elif seed % 4 == 3:
        out = [t for t in out if t["name"] == tool or draw.random() < 0.6]
    return out


def static(tools, turns):
    """One agent, one list."""
    tasks = read_script()
    return [{"agent": 0, "turn": t, **request(tasks, t, tools)}
            for t in range(turns)]


def changing(tools, turns):
    """One agent whose list is another at each task."""
    tasks = read_script()[::-1]
    return [{"agent": 0, "turn": t, **request(
        tasks, t, changed(tools, needed(tasks, t), t // 2))} for t in range(turns)]


def agents(tools, turns):
    """Agents that take turns, each with a list of its own."""
    script = read_script()
    out = []
    for turn in range(turns):
        for agent in range(AGENTS):
            tasks = script[agent * 2:] + script[:agent * 2]
            keep = {needed(tasks, t) for t in range(turns)}
            shown = changed(tools, needed(tasks, 0), 4 * agent + 1 + agent % 3)
            shown += [t for t in tools if t["name"] in keep and t not in shown]
            out.append({"agent": agent, "turn": turn,
                        **request(tasks, turn, shown)})
    return out


TRACES = {"static": static, "changing": changing, "agents": agents}


def judge(answer, expect):
    """(right tool, exact arguments) of an answer to a turn that waits for a call."""
    if len(answer["calls"]) != 1:
        return False, False
    call = answer["calls"][0]
    if call["name"] not in [expect["tool"], *expect.get("also", [])]:
        return False, False
    try:
        given = json.loads(call["arguments"] or "{}")
    except ValueError:
        return True, False
    if not isinstance(given, dict):
        return True, False
    known = set(expect["arguments"]) | set(expect.get("optional", []))
    exact = set(given) <= known and all(
        name in given and given[name] in accepted
        for name, accepted in expect["arguments"].items())
    return True, exact
