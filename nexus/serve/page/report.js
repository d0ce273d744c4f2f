// The `nexus` object of an answer: route, tier, tokens and time.
import { make, table, fixed, count, milliseconds } from "./dom.js";
import { barRows, shareBar } from "./chart.js";

function routePart(route) {
  if (!route) {
    return [make("h2", {}, "Route"), make("p", { class: "dim" }, "The router wasn't asked.")];
  }
  return [
    make("h2", {}, "Route ", make("span", { class: "dim" },
      `decision ${route.outcome} · margin ${fixed(route.margin, 4)} of ${fixed(route.threshold, 4)} · rule ${route.rule}`)),
    make("p", { class: "dim" }, route.reason),
    route.query ? make("p", { class: "dim" }, `asked for: ${route.query}`) : null,
    table([
      { title: "tool", kind: "name", cell: (one) => one.tool },
      { title: "score", kind: "number", cell: (one) => fixed(one.score, 3) },
      { title: "cosine", kind: "number", cell: (one) => fixed(one.cosine, 3) },
      { title: "BM25", kind: "number", cell: (one) => fixed(one.bm25, 2) },
    ], route.candidates, {
      label: "Candidates of the router",
      rowClass: (one) => (one.tool === route.tool ? "best" : null),
    }),
  ];
}

function searchPart(searches) {
  if (!searches?.length) return [];
  return [make("h2", {}, "Searched for"), table([
    { title: "query", kind: "name", cell: (one) => one.query },
    { title: "found", kind: "name", cell: (one) => one.found.join(", ") || "nothing" },
  ], searches)];
}

// From arrival to the first sampled token, in the order in which it happens.
function waterfall(ms) {
  const steps = [
    ["route", ms.route], ["plan", ms.plan], ["queue", ms.queue], ["map", ms.lookup],
    ["rotate", ms.write], ["repair", ms.repair], ["prefill", ms.prefill],
  ];
  const known = steps.reduce((sum, [, value]) => sum + value, 0);
  steps.push(["first token", Math.max(ms.ttft - known, 0)]);
  let begin = 0;
  const bars = steps.map(([name, value], index) => {
    const bar = { name, value, begin, series: index };
    begin += value;
    return bar;
  });
  return barRows({ title: "Time to first token", note: `${milliseconds(ms.ttft)}; the whole answer ${milliseconds(ms.total)}`, bars, text: milliseconds });
}

function callPart(call) {
  if (!call) return null;
  const words = [call.tool, call.valid ? "arguments fit the schema" : `arguments don't fit: ${call.invalid_reason}`];
  if (call.repair_rounds) words.push(`${call.repair_rounds} repair round`);
  if (call.closed_at_limit) words.push("steered to an end at the limit");
  return make("p", {}, make("strong", {}, "Call "), words.join(" · "));
}

export function showReport(place, report) {
  const parts = [
    ["reused", report.reused_tokens], ["restored", report.restored_tokens],
    ["spliced", report.spliced_tokens], ["repaired", report.recomputed_tokens],
    ["prefilled", report.prefilled_tokens],
  ].map(([name, value]) => ({ name, value })).filter((part) => part.value > 0);
  const total = parts.reduce((sum, part) => sum + part.value, 0);
  place.replaceChildren(...[
    make("div", {}, callPart(report.call), make("p", {}, make("strong", {}, "Tier "),
      [report.tier, `mode ${report.mode}`, report.policy ? `repair ${report.policy}` : ""].filter(Boolean).join(" · ")),
    report.reasons.length ? make("details", {}, make("summary", { class: "dim" }, "why no cheaper tier"),
      make("ul", {}, report.reasons.map((reason) => make("li", {}, reason)))) : null),
    shareBar({ title: "Prompt", note: `${count(total)} tokens, by how their cells were made`, parts, text: count }),
    waterfall(report.ms),
    make("div", {}, routePart(report.route)),
    make("div", {}, searchPart(report.searches)),
  ]);
}
