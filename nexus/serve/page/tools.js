// The registry: what the server was started with, what each tool costs, and
// what the router finds for a question.
import { $, make, table, count, fixed, getJson } from "./dom.js";

let registry = null;

export async function serverTools() {
  registry ??= (await getJson("/v1/nexus/tools")).tools;
  return registry;
}

function draw(tools, scores) {
  const total = tools.reduce((sum, tool) => sum + tool.tokens, 0);
  $("tool-summary").textContent = registry.length === 0
    ? "" : `${count(tools.length)} of ${count(registry.length)} tools, ${count(total)} tokens as a list`;
  if (registry.length === 0) {
    $("tool-list").replaceChildren(make("p", { class: "dim empty" },
      "The server was started without tools. --mcp FILE gives it those of MCP servers, --tools FILE those of a file; a client's requests bring their own."));
    return;
  }
  const columns = [
    { title: "tool", kind: "name short", cell: (tool) => tool.id },
    { title: "what it does", kind: "wide long", cell: (tool) => make("details", {}, make("summary", {}, tool.description.split("\n")[0]|| "(no description)"),
      make("pre", {}, `${tool.description}\n\n${JSON.stringify(tool.parameters, null, 2)}`)) },
    { title: "schema", kind: "number", cell: (tool) => `${count(tool.tokens)} tokens` },
    { title: "signature", kind: "number wide", cell: (tool) => count(tool.signature_tokens) },
    { title: "block", cell: (tool) => (tool.has_block ? "stored" : "–") },
  ];
  if (scores) columns.splice(1, 0, { title: "score", kind: "number", cell: (tool) => fixed(scores.get(tool.id), 3) });
  $("tool-list").replaceChildren(table(columns, tools, { label: "Tools" }));
}

let last = 0;
async function search() {
  const query = $("tool-query").value.trim();
  const mine = ++last;
  await serverTools();
  const words = query.toLowerCase();
  if (!query || registry.length === 0) return draw(registry);
  // At once what has the words, then what the router thinks of them.
  const matches = registry.filter((tool) => `${tool.id} ${tool.description}`.toLowerCase().includes(words));
  draw(matches);
  const decision = await getJson("/v1/nexus/route", { body: { query, top_k: 12 } });
  if (mine !== last) return;
  const scores = new Map(decision.candidates.map((one) => [one.tool, one.score]));
  const byId = new Map(registry.map((tool) => [tool.id, tool]));
  draw([...scores.keys()].map((id) => byId.get(id)).filter(Boolean), scores);
  $("tool-summary").textContent += ` · router: ${decision.outcome}${decision.tool ? ` ${decision.tool}` : ""}, margin ${fixed(decision.margin, 3)}`;
}

let timer = 0;
$("tool-query").addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(showTools, 200);
});

export async function showTools() {
  try {
    await search();
  } catch (error) {
    $("tool-list").replaceChildren(make("p", { class: "error" }, error.message));
  }
}
