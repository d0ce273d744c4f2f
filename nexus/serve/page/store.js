// The block store, most recently used first.
import { $, make, table, bytes, count, getJson, percent } from "./dom.js";

let store = null;

function draw() {
  const words = $("block-query").value.trim().toLowerCase();
  const blocks = store.blocks.filter((block) => `${block.tool} ${block.kind}`.toLowerCase().includes(words));
  $("store-summary").textContent =
    `${count(blocks.length)} of ${count(store.blocks.length)} blocks · ${bytes(store.bytes)}, ${percent(store.bytes / store.max_bytes)} of ${bytes(store.max_bytes)}`;
  if (store.blocks.length === 0) {
    $("block-list").replaceChildren(make("p", { class: "dim empty" },
      "No blocks yet. They come from requests with tools, between them, or from `nexus compile`."));
    return;
  }
  $("block-list").replaceChildren(table([
    { title: "tool", kind: "name", cell: (block) => block.tool || "–" },
    { title: "kind", cell: (block) => block.kind },
    { title: "tokens", kind: "number", cell: (block) => count(block.tokens) },
    { title: "samples", kind: "number wide", cell: (block) => count(block.samples) },
    { title: "size", kind: "number", cell: (block) => bytes(block.bytes) },
    { title: "uses", kind: "number", cell: (block) => count(block.uses) },
    { title: "file", kind: "name wide", cell: (block) => make("code", {}, block.file.slice(0, 16), "…") },
  ], blocks.slice(0, 500), { label: "Blocks" }));
}

$("block-query").addEventListener("input", () => store && draw());

export async function showStore() {
  try {
    store = await getJson("/v1/nexus/store");
    draw();
  } catch (error) {
    $("block-list").replaceChildren(make("p", { class: "error" }, error.message));
  }
}
