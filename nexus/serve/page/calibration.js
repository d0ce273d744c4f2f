// The model's repair profile: what was measured, and what follows from it.
import { $, make, table, count, fixed, percent, getJson } from "./dom.js";
import { lineChart } from "./chart.js";

const LEAST_KL = 1e-5;  // a logarithm needs more than 0

// What full prefill differs from itself by; it has no speed of its own.
const isNoise = (cell) => cell.policy === "none" && cell.ttft_ratio === 0;

function armName(cell) {
  if (isNoise(cell)) return "noise floor";
  const share = cell.policy === "none" ? "no repair" : `${cell.policy} ${percent(cell.budget)}`;
  return cell.shared > 0 ? `${share}, shares ${percent(cell.shared)}` : share;
}

// A line for each arm of one block, over the depths. `names` has an arm's place
// in all plots, and with it its colour.
function lines(cells, names, value) {
  const arms = new Map();
  for (const cell of cells) {
    if (!(value(cell) > 0)) continue;
    const name = armName(cell);
    if (!arms.has(name)) arms.set(name, new Map());
    arms.get(name).set(cell.depth, value(cell));
  }
  return [...arms].map(([name, points]) => (
    { name, color: names.indexOf(name), points: [...points].sort(([a], [b]) => a - b) }));
}

function draw(profile) {
  $("profile-note").textContent =
    `${profile.model}, measured ${profile.made}; noise floor ${profile.noise_floor.kl_mean?.toExponential(1) ?? "?"} nats; ` +
    `a splice needs no repair up to ${profile.anchored_bound} tokens deep (balanced).`;
  // What a request can't know (deviation) was measured for comparison only.
  const cells = profile.cells.filter((cell) => cell.blocks === 1 && cell.policy !== "deviation");
  const names = [...new Set(cells.map(armName))];
  const depths = [...new Set(cells.map((cell) => cell.depth))].sort((a, b) => a - b);
  const shared = { xTicks: depths, xText: count, dots: true, height: 220 };
  const drift = lines(cells, names, (cell) => Math.max(cell.kl_mean, LEAST_KL));
  const speed = lines(cells, names, (cell) => cell.ttft_ratio);
  $("profile-plots").replaceChildren(
    ...(drift.length ? [lineChart({ ...shared, log: "xy", title: "Drift of a spliced answer", note: "mean KL in nats, by depth in tokens",
      series: drift, yText: (value) => value.toExponential(0), target: { name: "balanced: 0.003", value: 0.003 } })] : []),
    ...(speed.length ? [lineChart({ ...shared, log: "x", title: "Speed", note: "prefill's time to first token over the splice's",
      series: speed, yText: (value) => `${value}×`, target: { name: "as fast as prefill", value: 1 } })] : []));
  $("profile-rows").replaceChildren(make("h2", {}, "What the tiers follow"), table([
    { title: "budget", cell: (row) => row.budget },
    { title: "to depth", kind: "number", cell: (row) => count(row.max_depth) },
    { title: "shared", kind: "number wide", cell: (row) => (row.shared > 0 ? percent(row.shared) : "–") },
    { title: "does", kind: "name", cell: (row) => (row.tier === "prefill" ? "prefill" : row.policy === "none" ? "splice" : `splice, repair ${row.policy} ${percent(row.share)}`) },
    { title: "KL", kind: "number", cell: (row) => fixed(row.kl_mean, 4) },
    { title: "top-1", kind: "number", cell: (row) => `${fixed(100 * row.top1, 1)} %` },
    { title: "speed", kind: "number wide", cell: (row) => `${fixed(row.ttft_ratio, 1)}×` },
  ], profile.rows.filter((row) => row.blocks === 1), { label: "Rows of the profile" }));
}

export async function showCalibration() {
  try {
    const { profile, reason } = await getJson("/v1/nexus/profile");
    if (profile) return draw(profile);
    $("profile-plots").replaceChildren();
    $("profile-rows").replaceChildren();
    $("profile-note").textContent = `No profile is in use: ${reason}.`;
  } catch (error) {
    $("profile-note").textContent = error.message;
  }
}
