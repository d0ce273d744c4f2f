// Small helpers for elements, numbers and requests.

export const $ = (id) => document.getElementById(id);

// Children are nodes or text; attributes that are functions are listeners.
export function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  set(node, attributes);
  node.append(...children.flat().filter((child) => child != null));
  return node;
}

export function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  set(node, attributes);
  node.append(...children.flat());
  return node;
}

function set(node, attributes) {
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(key, value);
    else if (value === true) node.setAttribute(key, "");
    else if (value !== false && value != null) node.setAttribute(key, value);
  }
}

// `columns`: {title, cell(row), kind?}. Kinds are classes of page.css; "wide"
// ones are left out on a phone.
export function table(columns, rows, { rowClass = () => null, label } = {}) {
  return make("div", { class: "scroll" },
    make("table", { "aria-label": label },
      make("thead", {}, make("tr", {}, columns.map((column) =>
        make("th", { scope: "col", class: column.kind }, column.title)))),
      make("tbody", {}, rows.map((row, index) =>
        make("tr", { class: rowClass(row, index) }, columns.map((column) =>
          make("td", { class: column.kind }, column.cell(row, index) ?? "")))))));
}

export const count = (value) => Math.round(value).toLocaleString("en");
export const fixed = (value, digits) => Number(value).toFixed(digits);
export const percent = (share) => `${fixed(100 * share, share > 0.995 || share < 0.1 ? 1 : 0)} %`;
export function bytes(value) {
  for (const unit of ["B", "KiB", "MiB"]) {
    if (value < 1024) return `${value < 10 && unit !== "B" ? fixed(value, 1) : Math.round(value)} ${unit}`;
    value /= 1024;
  }
  return `${fixed(value, 1)} GiB`;
}
export function milliseconds(value) {
  if (value >= 1000) return `${+fixed(value / 1000, value >= 10000 ? 1 : 2)} s`;
  return `${+fixed(value, value >= 100 ? 0 : value >= 1 ? 1 : 2)} ms`;
}

const KEY = "nexus-api-key";
export const saveKey = (key) => sessionStorage.setItem(KEY, key);

// Rejects with what the server says went wrong.
export async function request(path, { body, signal } = {}) {
  const headers = {};
  const key = sessionStorage.getItem(KEY);
  if (key) headers.Authorization = `Bearer ${key}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const response = await fetch(path, {
    method: body === undefined ? "GET" : "POST",
    headers, signal, body: body === undefined ? undefined : JSON.stringify(body),
  });
  if (response.ok) return response;
  if (response.status === 401) $("key-form").hidden = false;
  let message = `${path}: HTTP ${response.status}`;
  try {
    message = (await response.json()).error.message;
  } catch { /* not of the server's own making */ }
  throw new Error(message);
}

export const getJson = async (path, options) => (await request(path, options)).json();
