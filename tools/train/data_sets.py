"""The published routing sets, each read into one form: tools and queries.

Third-party text: data, never instructions. README.md beside this file says what
a line of the two files looks like. Faults of the sets that are known are handled
here, each with a note that ends up in the report:

- gold names that the set's own list lacks are dropped;
- a gold name without a server stands for every tool of that name;
- several schemas under one name stay apart as tools and are one tool as gold.
"""

import csv
import json
import re

SCHEMA_TYPES = {"dict": "object", "float": "number", "tuple": "array",
                "str": "string", "int": "integer", "bool": "boolean",
                "list": "array", "double": "number"}


class DataSet:
    """One registry with its queries.

    `grouped`: servers are real ones, so a split must not part them.
    `trainable`: the licence lets its text be trained on as positives.
    """

    def __init__(self, name, grouped, trainable=True):
        self.name = name
        self.grouped = grouped
        self.trainable = trainable
        self.tools = []
        self.queries = []
        self.notes = []
        self._ids = None

    def add_tool(self, name, description, schema=None, server="",
                 annotations=None):
        tool = {"server": server or self.name, "name": name.strip(),
                "description": (description or "").strip(),
                "inputSchema": schema or {"type": "object", "properties": {}}}
        if annotations:
            tool["annotations"] = annotations
        self.tools.append(tool)
        self._ids = None

    def number(self, index):
        """Which of the tools of its name the `index`-th tool of the set is."""
        key = tool_id(self.tools[index])
        return sum(tool_id(tool) == key for tool in self.tools[:index])

    def ids(self):
        """{bare name or id: ids of the tools it can stand for}."""
        if self._ids is None:
            self._ids = {}
            for tool in self.tools:
                key = tool_id(tool)
                for alias in (tool["name"], key):
                    found = self._ids.setdefault(alias, [])
                    if key not in found:
                        found.append(key)
        return self._ids

    def add_query(self, text, gold, part="", any_of=False, kind="", **more):
        """`gold`: names or ids. Unknown ones are dropped with a note; a query
        that had some and keeps none is dropped whole."""
        text = text.strip()
        found, ambiguous = [], False
        for name in gold:
            ids = self.ids().get(name)
            if ids is None:
                self.notes.append(f"gold '{name}' isn't in the list: {text[:60]}")
                continue
            ambiguous |= len(ids) > 1
            found += [i for i in ids if i not in found]
        if not text or (gold and not found):
            self.notes.append(f"query without text or known gold: {text[:60]}")
            return
        if more.get("within") == "candidates" and not more.get("candidates"):
            self.notes.append(f"out of scope of no tools: {text[:60]}")
            return
        needed = len({name for name in gold if name in self.ids()})
        row = {"id": f"{self.name}-{len(self.queries)}", "set": self.name,
               "part": part, "query": text, "gold": found}
        row["kind"] = kind or ("oos" if not found else
                               "multi" if needed > 1 and not any_of else
                               "single")
        # Alternatives and several needed tools in one query don't fit one flag:
        # the flag says what is true of a single needed tool.
        if any_of or (ambiguous and needed == 1):
            row["gold_any"] = True
        row.update({k: v for k, v in more.items() if v})
        self.queries.append(row)


def tool_id(tool):
    return f"{tool['server']}/{tool['name']}"


def read_jsonl(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def read_json(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def json_schema(value):
    """A set's own dialect of JSON Schema -> JSON Schema."""
    if not isinstance(value, dict):
        return value
    out = dict(value)
    if isinstance(out.get("type"), str):
        out["type"] = SCHEMA_TYPES.get(out["type"].lower(), out["type"])
    if isinstance(out.get("properties"), dict):
        out["properties"] = {k: json_schema(v)
                             for k, v in out["properties"].items()}
    if isinstance(out.get("items"), dict):
        out["items"] = json_schema(out["items"])
    return out


def object_schema(value):
    out = json_schema(value) if isinstance(value, dict) else {}
    out["type"] = "object"
    if not isinstance(out.get("properties"), dict):
        out["properties"] = {}
    return out


def listed_parameters(rows, required=None):
    """[{name, type, description, required}] -> JSON Schema."""
    properties, needed = {}, []
    for row in rows or []:
        prop = {"type": SCHEMA_TYPES.get(str(row.get("type") or "").lower(),
                                         str(row.get("type") or "string").lower())}
        if prop["type"] not in ("string", "integer", "number", "boolean",
                                "array", "object"):
            prop["type"] = "string"
        for key in ("description", "enum", "default"):
            if row.get(key) not in (None, ""):
                prop[key] = row[key]
        properties[row["name"]] = prop
        if required or (required is None and row.get("required")):
            needed.append(row["name"])
    out = {"type": "object", "properties": properties}
    if needed:
        out["required"] = needed
    return out


# What the fields of an object inside a label hold: BFCL lists of accepted values,
# the other sets the value itself. A reader can't tell where a field is an array.
VALUES = "values"


def accepted(arguments):
    """Labelled arguments -> {name: [accepted values]}."""
    return {name: [value] for name, value in (arguments or {}).items()}


def livemcpbench(data):
    out = DataSet("livemcpbench", grouped=True)
    folder = data / "livemcpbench"
    for row in read_jsonl(folder / "tools.jsonl"):
        out.add_tool(row["name"], row["description"],
                     object_schema(row["inputSchema"]), row["server"])
    for row in read_jsonl(folder / "queries.jsonl"):
        out.add_query(row["query"], row["gold_tools"], row["category"])
    return out


def github(data):
    out = DataSet("github_mcp_server", grouped=True)
    for row in read_jsonl(data / "github_mcp_server" / "tools.jsonl"):
        out.add_tool(row["name"], row["description"],
                     object_schema(row["inputSchema"]), "github-official",
                     row.get("annotations"))
    return out


def graph_tool_call(data):
    out = DataSet("graph_tool_call", grouped=True)
    folder = data / "graph_tool_call"
    for server in ("docker", "filesystem", "git", "github", "playwright",
                   "shell"):
        for row in read_json(folder / f"mcp_tools__{server}.json")["tools"]:
            out.add_tool(row["name"], row.get("description"),
                         object_schema(row.get("inputSchema")), server,
                         row.get("annotations"))
    seen = set()
    for part in ("mixed_mcp", "multi_mcp", "playwright", "cli_agent"):
        for row in read_json(folder / f"ground_truth__{part}.json")["queries"]:
            key = (row["query"].lower(), tuple(sorted(row["expected_tools"])))
            if key not in seen:
                out.add_query(row["query"], row["expected_tools"], part)
            seen.add(key)
    out.notes.append("ground truth of github (50) and github_full (1,068) left "
                     "out: their tools aren't in the extract")
    return out


def k8s(data):
    out = DataSet("k8s", grouped=True)
    folder = data / "graph_tool_call"
    for row in read_jsonl(folder / "k8s_core_v1_tools.jsonl"):
        out.add_tool(row["name"], row["description"],
                     listed_parameters(row["parameters"]))
    for row in read_json(folder / "ground_truth__k8s.json")["queries"]:
        out.add_query(row["query"], row["expected_tools"], row["category"])
    return out


ACE_KINDS = {"special_incomplete": "ask", "special_error_param": "ask"}


def acebench(data):
    out = DataSet("acebench_en", grouped=False)
    folder = data / "acebench_en"
    rows = read_jsonl(folder / "tools.jsonl")
    for row in rows:
        out.add_tool(row["name"], row["description"],
                     object_schema(row["parameters"]))
    names = {row["tid"]: row["name"] for row in rows}
    known = set(names.values())
    for row in read_jsonl(folder / "queries.jsonl"):
        part = row["cat"].replace("normal_", "").replace("single_turn_", "")
        # Longer dialogues: what the user said, in order.
        turns = re.split(r"^(user|system|agent|assistant):", row["query"].strip(),
                         flags=re.M)
        text = "\n".join(said.strip() for who, said in
                         zip(turns[1::2], turns[2::2]) if who == "user")
        candidates = [out.ids()[names[tid]][0] for tid in row["cand"]]
        gold, calls = [], []
        if isinstance(row["gold"], dict):
            for name, arguments in row["gold"].items():
                if name not in known:  # parallel calls are numbered
                    name = re.sub(r"_\d+$", "", name)
                gold.append(name)
                if isinstance(arguments, dict) and name in known:
                    calls.append({"tool": out.ids()[name][0],
                                  "arguments": accepted(arguments)})
        if part == "special_error_param":
            continue  # labels name parameters, not tools
        out.add_query(text or row["query"], gold, part,
                      kind=ACE_KINDS.get(part, ""), candidates=candidates,
                      calls=[] if part in ACE_KINDS else calls,
                      object_labels=VALUES,
                      within=None if gold else "candidates")
    out.notes.append("special_error_param (50) left out: no tool is labelled")
    return out


def bfcl(data):
    out = DataSet("bfcl_v4_pooled", grouped=False)
    folder = data / "bfcl_v4_pooled"
    rows = read_jsonl(folder / "tools.jsonl")
    for row in rows:
        out.add_tool(row["name"], row["description"],
                     object_schema(row["parameters"]))
    names = {row["tid"]: row["name"] for row in rows}
    assert all(row["tid"] == i for i, row in enumerate(rows))
    for row in read_jsonl(folder / "queries.jsonl"):
        if row["cat"] == "live_relevance":
            continue
        text = "\n".join(m["content"] for m in row["messages"]
                         if m["role"] == "user")
        gold = [name for call in row["gold"] or [] for name in call]
        calls = []
        for call in row["gold"] or []:
            for name, arguments in call.items():
                offered = [t for t in row["cand"] if names[t] == name]
                calls.append({"tool": out.ids()[name][0],
                              "arguments": arguments,
                              "schema": out.number(offered[0])})
        if any(not accepted for call in calls
               for accepted in call["arguments"].values()):
            out.notes.append(f"nothing is accepted: {row['id']}")
            calls = []
        candidates = [out.ids()[names[tid]][0] for tid in row["cand"]]
        out.add_query(text, list(dict.fromkeys(gold)), row["cat"],
                      candidates=candidates, calls=calls, source=row["id"],
                      within=None if gold else "candidates")
    out.notes.append("live_relevance (16) left out: no tool is labelled")
    return out


def when2call(data, pool):
    """Built by its authors from BFCL's live_multiple, so it shares BFCL's
    registry and, for each query, the split of BFCL's own query."""
    out = DataSet("when2call", grouped=False)
    out.tools = pool.tools
    known = pool.ids()
    for row in read_jsonl(data / "when2call" / "judge300.jsonl"):
        candidates = [known[name][0] for name in row["tools"] if name in known]
        gold = []
        for key in ("target_tool", "tool_call"):
            value = row[key]
            value = json.loads(value) if isinstance(value, str) else value
            if value and value.get("name") in known:
                gold = [value["name"]]
        if row["label"] == "cannot_answer":
            gold = []
        elif not gold:
            out.notes.append(f"no known tool: {row['query'][:60]}")
            continue
        out.add_query(row["query"], gold, row["label"], candidates=candidates,
                      kind="ask" if row["label"] == "request_for_info" else "",
                      source=row["source_id"],
                      within=None if gold else "candidates")
    return out


def seal(data):
    out = DataSet("seal_tools", grouped=False)
    folder = data / "seal_tools"
    for row in read_jsonl(folder / "tool.jsonl"):
        schema = object_schema({"properties": row["parameters"]})
        if row.get("required"):
            schema["required"] = row["required"]
        out.add_tool(row["api_name"], row["api_description"], schema)
    for part in ("dev", "test_in_domain", "test_out_domain"):
        for row in read_jsonl(folder / f"{part}.jsonl"):
            calls = [{"tool": out.ids()[name][0],
                      "arguments": accepted(arguments)}
                     for name, arguments in row["gold"] if name in out.ids()]
            out.add_query(row["query"],
                          list(dict.fromkeys(name for name, _ in row["gold"])),
                          part, calls=calls, object_labels=VALUES)
    return out


def toollinkos(data):
    """Dependencies of the wanted tool are `related`: neither right nor wrong."""
    out = DataSet("toollinkos", grouped=False)
    folder = data / "toollinkos"
    for part in ("core_tools", "regular_tools"):
        for row in read_json(folder / f"{part}.json"):
            out.add_tool(row["name"], row["description"],
                         listed_parameters(row["parameters"]))
    for row in read_json(folder / "instances.json"):
        main = row["main_golden_function_name"]
        related = [out.ids()[n][0] for n in row["golden_function_names"]
                   if n != main and n in out.ids()]
        out.add_query(row["user_query"], [main], related=related)
    return out


def stabletoolbench(data):
    out = DataSet("stabletoolbench", grouped=True)
    folder = data / "stabletoolbench"
    rows = read_jsonl(folder / "tools.jsonl")
    for row in rows:
        schema = listed_parameters(row["required_parameters"], required=True)
        optional = listed_parameters(row["optional_parameters"], required=False)
        schema["properties"].update(optional["properties"])
        out.add_tool(row["api_name"], row["api_description"], schema,
                     row["tool_name"])
    ids = {row["tid"]: f"{row['tool_name']}/{row['api_name'].strip()}"
           for row in rows}
    for row in read_jsonl(folder / "queries.jsonl"):
        gold = [f"{tool}/{api.strip()}" for tool, api in row["gold"]]
        out.add_query(row["query"], list(dict.fromkeys(gold)), row["set"],
                      candidates=[ids[tid] for tid in row["cand"]])
    return out


def metatool(data):
    out = DataSet("metatool", grouped=False)
    folder = data / "metatool_toolE"
    for name, text in read_json(folder / "plugin_des.json").items():
        out.add_tool(name, text)
    labels = {}
    for row in read_jsonl(folder / "queries_by_tool.jsonl"):
        for query in row["queries"]:
            names = labels.setdefault(query.strip(), [])
            if row["tool"] not in names:
                names.append(row["tool"])
    for query, names in labels.items():
        # Twelve queries carry several labels: any of them is right.
        out.add_query(query, names, "single", any_of=len(names) > 1)
    for row in read_json(folder / "multi_tool_query_golden.json"):
        out.add_query(row["query"], row["tool"], "multi")
    for row in read_jsonl(folder / "task1_awareness.jsonl"):
        if row["label"] == "negative":
            out.add_query(row["query"], [], "awareness")
    return out


def restbench(data):
    out = DataSet("restbench", grouped=True)
    folder = data / "restbench"
    for server in ("tmdb", "spotify"):
        for row in read_jsonl(folder / f"{server}_tools.jsonl"):
            out.add_tool(row["name"], row["description"],
                         listed_parameters(row["parameters"]), server)
    for server in ("tmdb", "spotify"):
        for row in read_json(folder / f"{server}_queries.json"):
            out.add_query(row["query"], [f"{server}/{name.strip()}"
                                         for name in row["solution"]], server)
    return out


def toolalpaca(data):
    out = DataSet("toolalpaca", grouped=True)
    folder = data / "toolalpaca_eval"
    for row in read_jsonl(folder / "tools.jsonl"):
        # "text\nParameters: {name: "Required. type. text"}\nOutput: ..."
        text, _, rest = row["description"].partition("\nParameters: ")
        written, _, _ = rest.partition("\nOutput:")
        schema = {"type": "object", "properties": {}}
        try:
            for name, said in json.loads(written or "{}").items():
                required = said.startswith("Required.")
                kind, _, said = said.removeprefix("Required.").strip().partition(
                    ". ")
                kind = SCHEMA_TYPES.get(kind.lower(), kind.lower())
                simple = ("string", "integer", "number", "boolean")
                schema["properties"][name] = {
                    "type": kind if kind in simple else "string",
                    "description": said if kind in simple else f"{kind}. {said}"}
                if required:
                    schema.setdefault("required", []).append(name)
        except (json.JSONDecodeError, AttributeError):
            out.notes.append(f"parameters of {row['name']} left as text")
            text = row["description"]
        out.add_tool(row["name"], text, schema, row["api"])
    for row in read_jsonl(folder / "queries.jsonl"):
        gold, calls, unusable = [], [], False
        for call in row["gold"]:
            name = call["Action"].replace("[Optional]", "")
            if name == "getDetails":  # means: ask the user
                continue
            key = f"{row['api']}/{name}"
            if key not in gold:
                gold.append(key)
            # "${ip from getDetails}": nothing that a model could write.
            if "${" in call["Action_Input"]:
                out.notes.append(f"a placeholder as label: {row['query'][:60]}")
                unusable = True
                continue
            try:
                calls.append({"tool": key, "arguments": accepted(
                    json.loads(call["Action_Input"]))})
            except (json.JSONDecodeError, AttributeError):
                out.notes.append(f"arguments aren't JSON: {row['query'][:60]}")
                unusable = True
        if gold:
            # The other calls of such a query alone would look like all of them.
            calls = [] if unusable else calls
            out.add_query(row["query"], gold, row["set"], calls=calls,
                          object_labels=VALUES)
    return out


def api_bank(data):
    """First words of a user, where one API besides the login answers them."""
    out = DataSet("api_bank", grouped=False)
    folder = data / "api_bank"
    with open(folder / "all_apis.csv", encoding="utf-8-sig", newline="") as file:
        for row in csv.DictReader(file):
            space = {}
            try:
                read_literals(row["api_info"], space)
            except (SyntaxError, ValueError):
                out.notes.append(f"{row['类名']}: description not readable")
            out.add_tool(row["类名"], space.get("description", ""), object_schema(
                {"properties": space.get("input_parameters", {})}))
    for row in read_jsonl(folder / "dialogues_lv1_lv2.jsonl"):
        users = [t for t in row["turns"] if t["role"] == "User"]
        names = list(dict.fromkeys(
            t["api_name"] for t in row["turns"]
            if t["role"] == "API" and t["api_name"] not in
            ("GetUserToken", "ToolSearcher")))
        if len(names) == 1 and users:
            related = out.ids().get("GetUserToken", [])
            out.add_query(users[0]["text"], names, "first_turn", related=related)
    out.notes.append("kept: dialogues of one API besides GetUserToken, first "
                     "turn of the user")
    return out


def read_literals(source, space):
    """`name = literal` lines of a Python source, without running anything."""
    import ast
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            space[node.targets[0].id] = ast.literal_eval(node.value)


def clinc(data):
    """No tools: goes with the pooled registry."""
    out = DataSet("clinc150_oos", grouped=False)
    for part, queries in read_json(
            data / "clinc150_oos" / "oos_queries.json").items():
        for query in queries:
            out.add_query(query, [], part)
    return out


OPEN_LICENCES = {"MIT", "Apache-2.0", "ISC", "BSD-3-Clause"}


def toucan(data):
    """Distractors. `open` servers state a licence that lets their text be a
    negative in training; no text of this set is ever a positive."""
    out = DataSet("toucan", grouped=True, trainable=False)
    folder = data / "toucan_mcp_tools"
    out.open_servers = {row["server"] for row in
                        read_jsonl(folder / "servers.jsonl")
                        if row.get("license") in OPEN_LICENCES}
    for row in read_jsonl(folder / "tools.jsonl"):
        out.add_tool(row["name"], row["description"],
                     object_schema(row["inputSchema"]), row["server"])
    return out


def load_all(data):
    sets = [livemcpbench(data), github(data), graph_tool_call(data), k8s(data),
            acebench(data), bfcl(data), seal(data), toollinkos(data),
            stabletoolbench(data), metatool(data), restbench(data),
            toolalpaca(data), api_bank(data), toucan(data)]
    by_name = {s.name: s for s in sets}
    sets.append(when2call(data, by_name["bfcl_v4_pooled"]))
    sets.append(clinc(data))
    return sets
