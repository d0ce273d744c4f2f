// Lines and bars as SVG, in the width that there is.
import { make, svg } from "./dom.js";

const MARGIN = { left: 46, right: 10, top: 8, bottom: 20 };

// Ten hues of page.css, then from the beginning.
const hue = (index) => `s${index % 10}`;
const round = (value) => (Math.abs(value) >= 1000 ? `${+(value / 1000).toFixed(1)}k`
  : `${+value.toPrecision(3)}`);

function linearTicks(high) {
  if (!(high > 0)) return [0, 1];
  const step = 10 ** Math.floor(Math.log10(high));
  const unit = [0.2, 0.5, 1, 2].map((part) => part * step).find((size) => high / size <= 5);
  const ticks = [];
  for (let value = 0; value < high + unit * 0.999; value += unit) ticks.push(value);
  return ticks;
}

function logTicks(low, high) {
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); ++power) {
    ticks.push(10 ** power);
  }
  return ticks;
}

// `series`: [{name, points: [[x, y]], color?}]. `xTicks`: values to name; `xText`: how.
// `log`: "", "y" or "xy". `target`: a level to mark.
export function lineChart({ title, note = "", series, log = "", height = 170, xTicks, xText = round, yText = round, target, dots = false }) {
  const box = make("figure", { class: "chart" });
  const draw = () => {
    const width = Math.max(box.clientWidth, 260);
    const points = series.flatMap((one) => one.points);
    const xs = points.map(([x]) => x);
    const ys = points.map(([, y]) => y).concat(target ? [target.value] : []);
    const isLogX = log.includes("x");
    const isLogY = log.includes("y");
    const ticks = isLogY ? logTicks(Math.min(...ys), Math.max(...ys)) : linearTicks(Math.max(0, ...ys));
    const scale = (isLog) => (isLog ? Math.log10 : (value) => value);
    const span = (low, high, from, to, isLog) => {
      const of = scale(isLog);
      const size = of(high) - of(low) || 1;
      return (value) => from + ((of(value) - of(low)) / size) * (to - from);
    };
    const x = span(Math.min(...xs), Math.max(...xs), MARGIN.left, width - MARGIN.right, isLogX);
    const y = span(ticks[0], ticks.at(-1), height - MARGIN.bottom, MARGIN.top, isLogY);
    const text = (value, at, cls) => svg("text", { ...at, class: cls }, value);
    const parts = ticks.flatMap((tick) => [
      svg("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: y(tick), y2: y(tick) }),
      text(yText(tick), { x: MARGIN.left - 6, y: y(tick) + 4 }, "end"),
    ]);
    const names = xTicks ?? [xs[0], xs.at(-1)];
    names.forEach((tick, index) => parts.push(text(xText(tick), { x: x(tick), y: height - 4 },
      index === names.length - 1 ? "end" : index === 0 ? "" : "middle")));
    if (target) {
      parts.push(svg("line", { class: "target", x1: MARGIN.left, x2: width - MARGIN.right, y1: y(target.value), y2: y(target.value) }));
    }
    series.forEach(({ points: own, color }, index) => {
      const path = own.map(([px, py], at) => `${at ? "L" : "M"}${x(px).toFixed(1)} ${y(py).toFixed(1)}`).join("");
      const group = svg("g", { class: hue(color ?? index) }, svg("path", { class: "line", d: path }));
      if (dots) own.forEach(([px, py]) => group.append(svg("circle", { class: "dot", cx: x(px), cy: y(py), r: 2.4 })));
      parts.push(group);
    });
    const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": `${title}: ${series.map((one) => one.name).join(", ")}` }, parts);
    box.replaceChildren(...heading(title, note), picture, ...legend(series, target?.name));
  };
  watch(box, draw);
  return box;
}

// `bars`: [{name, value, series?}]; each on a line of its own, from `begin`.
export function barRows({ title, note = "", bars, text, label = 96 }) {
  const box = make("figure", { class: "chart" });
  const draw = () => {
    const width = Math.max(box.clientWidth, 260);
    const right = 64;
    const high = Math.max(...bars.map((bar) => (bar.begin ?? 0) + bar.value), 1e-9);
    const size = (value) => (value / high) * (width - label - right);
    const row = 19;
    const parts = bars.map((bar, index) => {
      const x = label + size(bar.begin ?? 0);
      return svg("g", { class: hue(bar.series ?? 0) },
        svg("text", { class: "strong", x: 0, y: index * row + 13 }, bar.name),
        svg("rect", { class: "area", x, y: index * row + 4, width: Math.max(size(bar.value), 1), height: 11 }),
        svg("text", { x: x + size(bar.value) + 6, y: index * row + 13 }, text(bar.value)));
    });
    const height = bars.length * row + 2;
    box.replaceChildren(...heading(title, note), svg("svg", {
      viewBox: `0 0 ${width} ${height}`, height, role: "img",
      "aria-label": `${title}: ${bars.map((bar) => `${bar.name} ${text(bar.value)}`).join(", ")}`,
    }, parts));
  };
  watch(box, draw);
  return box;
}

// One bar, cut by the shares of `parts`: [{name, value}].
export function shareBar({ title, note = "", parts, text }) {
  const box = make("figure", { class: "chart" });
  const draw = () => {
    const width = Math.max(box.clientWidth, 260);
    const total = parts.reduce((sum, part) => sum + part.value, 0) || 1;
    let x = 0;
    const cells = parts.map((part, index) => {
      const size = (part.value / total) * width;
      const cell = svg("rect", { class: `area ${hue(index)}`, x, y: 0, width: Math.max(size - 1, 0), height: 14 });
      x += size;
      return cell;
    });
    box.replaceChildren(...heading(title, note),
      svg("svg", { viewBox: `0 0 ${width} 14`, height: 14, role: "img", "aria-label": parts.map((part) => `${part.name} ${text(part.value)}`).join(", ") }, cells),
      ...legend(parts.map((part) => ({ name: `${part.name} ${text(part.value)}` }))));
  };
  watch(box, draw);
  return box;
}

const heading = (title, note) => (title ? [make("h2", {}, title, " ", make("span", { class: "dim" }, note))] : []);

function legend(entries, target) {
  if (entries.length < 2 && !target) return [];
  return [make("div", { class: "legend" },
    entries.map(({ name, color }, index) => make("span", {}, make("i", { class: `swatch ${hue(color ?? index)}` }), name)),
    target ? make("span", {}, `- - ${target}`) : null)];
}

// Drawn once it has a width, and again when that changes.
function watch(box, draw) {
  let width = 0;
  new ResizeObserver(() => {
    if (box.clientWidth === width || box.clientWidth === 0) return;
    width = box.clientWidth;
    draw();
  }).observe(box);
}
