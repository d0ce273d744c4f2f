// Tabs, the key, and who serves.
import { $, getJson, saveKey } from "./dom.js";
import { showAsk } from "./ask.js";
import { showTools } from "./tools.js";
import { showStore } from "./store.js";
import { showMetrics, hideMetrics } from "./metrics.js";
import { showCalibration } from "./calibration.js";

const views = {
  ask: { show: showAsk },
  tools: { show: showTools },
  store: { show: showStore },
  metrics: { show: showMetrics, hide: hideMetrics },
  calibration: { show: showCalibration },
};
const names = Object.keys(views);
let current = null;

function open(name, { focus = false } = {}) {
  if (!names.includes(name)) name = "ask";
  if (current !== name) {
    if (current) views[current].hide?.();
    current = name;
    for (const other of names) {
      const tab = $(`tab-${other}`);
      tab.setAttribute("aria-selected", other === name);
      tab.tabIndex = other === name ? 0 : -1;
      $(other).hidden = other !== name;
    }
    if (location.hash !== `#/${name}`) history.replaceState(null, "", `#/${name}`);
  }
  if (focus) $(`tab-${name}`).focus();
  // Whoever goes along the tabs stays there.
  views[name].show({ takeFocus: !focus });
}

for (const [index, name] of names.entries()) {
  const tab = $(`tab-${name}`);
  tab.addEventListener("click", () => open(name));
  tab.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) open(names[(index + step + names.length) % names.length], { focus: true });
    if (event.key === "Home") open(names[0], { focus: true });
    if (event.key === "End") open(names.at(-1), { focus: true });
  });
}
// With a slash: no element has such an id, which the browser would go to and take
// the focus away.
const wanted = () => location.hash.slice(2);
addEventListener("hashchange", () => open(wanted()));

async function showServer() {
  try {
    const { model, encoder, tools_mode: mode, context_tokens: context } = await getJson("/v1/nexus/server");
    $("server").textContent = [
      model, `mode ${mode}`, `${context} tokens of context`,
      encoder ? `encoder ${encoder}` : "no encoder: BM25 only",
    ].join(" · ");
  } catch (error) {
    $("server").textContent = error.message;
  }
}

$("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  saveKey($("key").value);
  $("key-form").hidden = true;
  showServer();
  views[current].show();
});

showServer();
open(wanted());
