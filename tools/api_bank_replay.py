"""API-Bank -> a registry and conversations for `nexus bench next-turn`.

    python3 tools/api_bank_replay.py FOLDER OUT_DIR

FOLDER holds all_apis.csv and dialogues_lv1_lv2.jsonl. Writes
OUT_DIR/tools.jsonl and OUT_DIR/conversations.jsonl. Calls of APIs that the table
doesn't describe, and dialogues without any call, are left out.
"""
import ast
import csv
import json
import pathlib
import sys

TYPES = {"str": "string", "int": "integer", "float": "number",
         "bool": "boolean", "list": "array", "dict": "object"}


def registry(path):
    tools = {}
    with open(path, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            name = row["类名"].strip()
            fields = {}
            # The column is Python source: `description = "..."` and
            # `input_parameters = {...}`.
            try:
                for node in ast.parse(row["api_info"]).body:
                    if isinstance(node, ast.Assign):
                        fields[node.targets[0].id] = ast.literal_eval(node.value)
            except (SyntaxError, ValueError, AttributeError):
                continue
            parameters = fields.get("input_parameters", {})
            if not isinstance(parameters, dict):
                continue  # a few rows of the table aren't well formed
            properties = {
                key: {"type": TYPES.get(value.get("type"), "string"),
                      "description": value.get("description", "")}
                for key, value in parameters.items()}
            tools[name] = {
                "name": name, "description": fields.get("description", ""),
                "inputSchema": {"type": "object", "properties": properties,
                                "required": list(properties)}}
    return tools


def conversation(dialogue, tools):
    turns, said = [], []
    for turn in dialogue["turns"]:
        if turn["role"] == "User":
            said.append(turn["text"])
        elif turn["role"] == "API" and turn["api_name"] in tools:
            turns.append({"user": " ".join(said) or "Go on.",
                          "tool": turn["api_name"],
                          "arguments": turn["param_dict"],
                          "result": "{\"status\": \"ok\"}"})
            said = []
    return turns


def main(folder, out):
    folder, out = pathlib.Path(folder), pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    tools = registry(folder / "all_apis.csv")
    used = 0
    with open(out / "conversations.jsonl", "w", encoding="utf-8") as file:
        for line in open(folder / "dialogues_lv1_lv2.jsonl", encoding="utf-8"):
            turns = conversation(json.loads(line), tools)
            if turns:
                used += 1
                file.write(json.dumps({"turns": turns}) + "\n")
    with open(out / "tools.jsonl", "w", encoding="utf-8") as file:
        for tool in tools.values():
            file.write(json.dumps(tool) + "\n")
    print(f"{len(tools)} tools, {used} conversations")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2])
