// /metrics as figures and plots, over the time that the view is open.
import { $, make, request, count, percent, milliseconds } from "./dom.js";
import { lineChart, barRows } from "./chart.js";

const INTERVAL_MS = 2000;
const KEPT = 150;  // five minutes
const history = [];
let timer = 0;

// name{labels} -> number.
function parse(text) {
  const values = new Map();
  for (const line of text.split("\n")) {
    if (!line || line.startsWith("#")) continue;
    const at = line.lastIndexOf(" ");
    values.set(line.slice(0, at), Number(line.slice(at + 1)));
  }
  return values;
}

const label = (key) => key.match(/"([^"]*)"/)?.[1];
const family = (values, name) => [...values].filter(([key]) => key.startsWith(`${name}{`));
const total = (values, name) => family(values, name).reduce((sum, [, value]) => sum + value, 0);
const mean = (values, name) => {
  const n = values.get(`${name}_count`);
  return n ? values.get(`${name}_sum`) / n : null;
};

function drawFigures(now) {
  const tokens = new Map(family(now, "nexus_prompt_tokens_total").map(([key, value]) => [label(key), value]));
  const all = [...tokens.values()].reduce((sum, value) => sum + value, 0);
  const decoded = (tokens.get("prefilled") ?? 0) + (tokens.get("repaired") ?? 0);
  const ttft = mean(now, "nexus_ttft_seconds");
  const figures = [
    ["requests answered", count(total(now, "nexus_http_requests_total"))],
    ["chat answers", count(now.get("nexus_ttft_seconds_count"))],
    ["mean time to first token", ttft === null ? "–" : milliseconds(1000 * ttft)],
    ["prompt tokens not decoded", all ? percent((all - decoded) / all) : "–"],
    ["tokens sampled", count(now.get("nexus_completion_tokens_total"))],
    ["running, waiting", `${now.get("nexus_requests_running")}, ${now.get("nexus_requests_waiting")}`],
    ["sessions", count(now.get("nexus_sessions"))],
    ["connections", count(now.get("nexus_connections"))],
  ];
  $("figures").replaceChildren(...figures.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))));
}

// What was added between two readings, a second.
function rates(key) {
  const points = [];
  for (let i = 1; i < history.length; ++i) {
    const seconds = (history[i].at - history[i - 1].at) / 1000;
    const change = (history[i].values.get(key) ?? 0) - (history[i - 1].values.get(key) ?? 0);
    points.push([history[i].at, Math.max(change, 0) / seconds]);
  }
  return points;
}

// The mean of what came between two readings, in ms; nothing came: left out.
function means(name) {
  const points = [];
  for (let i = 1; i < history.length; ++i) {
    const [before, after] = [history[i - 1].values, history[i].values];
    const n = after.get(`${name}_count`) - before.get(`${name}_count`);
    if (n > 0) points.push([history[i].at, (1000 * (after.get(`${name}_sum`) - before.get(`${name}_sum`))) / n]);
  }
  return points;
}

const ago = (at) => {
  const seconds = Math.round((Date.now() - at) / 1000);
  return seconds < 3 ? "now" : seconds < 120 ? `${seconds} s ago` : `${Math.round(seconds / 60)} min ago`;
};

function histogramRows(now, name) {
  let before = 0;
  const bars = family(now, `${name}_bucket`).map(([key, value]) => {
    const bound = label(key);
    const bar = { name: bound === "+Inf" ? "longer" : `≤ ${milliseconds(1000 * bound)}`, value: value - before };
    before = value;
    return bar;
  });
  const filled = bars.map((bar) => bar.value > 0);
  return bars.slice(filled.indexOf(true), filled.lastIndexOf(true) + 1);
}

function draw() {
  const now = history.at(-1).values;
  drawFigures(now);
  const plots = [];
  const gauge = (key) => history.map(({ at, values }) => [at, values.get(key) ?? 0]);
  if (history.length > 1) {
    plots.push(lineChart({ title: "Requests", note: "at work and waiting", xText: ago, series: [
      { name: "running", points: gauge("nexus_requests_running") },
      { name: "waiting", points: gauge("nexus_requests_waiting") },
    ] }));
    const kinds = family(now, "nexus_prompt_tokens_total").map(([key]) => key);
    if (kinds.length) {
      plots.push(lineChart({ title: "Prompt tokens", note: "a second, by how their cells were made", xText: ago,
        series: kinds.map((key) => ({ name: label(key), points: rates(key) })) }));
    }
    const recent = means("nexus_ttft_seconds");
    if (recent.length > 1) {
      plots.push(lineChart({ title: "Time to first token", note: "mean, ms", xText: ago, dots: true, series: [{ name: "mean", points: recent }] }));
    }
  }
  if (now.get("nexus_ttft_seconds_count")) {
    plots.push(barRows({ title: "Time to first token", note: "answers since the start", bars: histogramRows(now, "nexus_ttft_seconds"), text: count }));
  }
  const tiers = family(now, "nexus_chat_tier_total").map(([key, value], index) => ({ name: label(key), value, series: index }));
  if (tiers.length) plots.push(barRows({ title: "Answers by tier", bars: tiers, text: count }));
  $("plots").replaceChildren(...plots);
}

async function read() {
  try {
    const values = parse(await (await request("/metrics")).text());
    history.push({ at: Date.now(), values });
    if (history.length > KEPT) history.shift();
    draw();
  } catch (error) {
    $("plots").replaceChildren(make("p", { class: "error" }, error.message));
  }
}

export function showMetrics() {
  if (timer) return;
  timer = setInterval(() => document.hidden || read(), INTERVAL_MS);
  read();
}

export function hideMetrics() {
  clearInterval(timer);
  timer = 0;
}
