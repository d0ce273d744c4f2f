// The playground: a conversation with the server over its tools or pasted ones.
import { $, make, request } from "./dom.js";
import { serverTools } from "./tools.js";
import { showReport } from "./report.js";
import { readEvents } from "./events.js";

const state = { messages: [], pending: null, running: null, model: null };

const form = $("ask-form");
const question = $("question");

export async function showAsk({ takeFocus = false } = {}) {
  // Not on a phone, where it would bring up the keyboard.
  if (takeFocus && !matchMedia("(pointer: coarse)").matches) question.focus({ preventScroll: true });
  try {
    const tools = await serverTools();
    const option = $("source").options[0];
    option.textContent = `server's (${tools.length})`;
    if (tools.length === 0 && $("source").value === "server") $("source").value = "pasted";
  } catch { /* whoever asks will be told */ }
  showSource();
}

function showSource() {
  $("pasted-box").hidden = $("source").value !== "pasted";
}

async function chosenTools() {
  const source = $("source").value;
  if (source === "server") {
    return (await serverTools()).map(({ name, description, parameters }) => (
      { type: "function", function: { name, description, parameters } }));
  }
  const text = $("pasted").value.trim();
  if (source === "none" || !text) return [];
  let tools;
  try {
    tools = JSON.parse(text);
  } catch (error) {
    throw new Error(`The pasted tools aren't JSON: ${error.message}`);
  }
  tools = tools.tools ?? tools.result?.tools ?? tools;
  if (!Array.isArray(tools)) throw new Error("The pasted tools aren't an array.");
  return tools;
}

function turn(kind, who, ...content) {
  const node = make("div", { class: `turn ${kind}` }, make("div", { class: "who" }, who), ...content);
  $("turns").append(node);
  return node;
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

// What the question field is for now: a question, or a call's result.
function expect(call) {
  state.pending = call;
  $("question-label").textContent = call ? `Result of ${call.function.name}` : "Question";
  question.placeholder = call ? "What the tool gave back" : "What should be done?";
  $("send").textContent = call ? "Give back" : "Ask";
  question.value = "";
}

function setRunning(controller) {
  state.running = controller;
  $("send").disabled = controller !== null;
  $("stop").hidden = controller === null;
}

function fail(message) {
  $("ask-error").hidden = !message;
  $("ask-error").textContent = message ?? "";
}

async function ask() {
  const text = question.value;
  const tools = await chosenTools();
  const call = state.pending;
  const said = call ? { role: "tool", tool_call_id: call.id, content: text }
    : { role: "user", content: text };
  state.model ??= (await (await request("/v1/models")).json()).data[0].id;
  const mode = $("mode").value;
  const body = {
    model: state.model,
    messages: [...state.messages, said],
    max_tokens: Number($("limit").value) || 128,
    stream: true,
    nexus: mode ? { tools: mode } : true,
  };
  if (tools.length) Object.assign(body, { tools, tool_choice: $("choice").value });
  const asked = turn("", call ? `result of ${call.function.name}` : "you", make("p", {}, text));
  const words = make("p");
  let answer = null;
  const message = { role: "assistant", content: "" };
  let report = null;
  try {
    const response = await request("/v1/chat/completions", { body, signal: state.running.signal });
    for await (const event of readEvents(response)) {
      if (event.error) throw new Error(event.error.message);
      report = event.nexus ?? report;
      const delta = event.choices[0]?.delta ?? {};
      if (delta.content) {
        answer ??= turn("", "model", words);
        message.content += delta.content;
        words.textContent = message.content;
      }
      for (const piece of delta.tool_calls ?? []) {
        message.tool_calls ??= [];
        const known = message.tool_calls[piece.index];
        if (!known) {
          message.tool_calls.push(piece);
          answer = turn("call", `call of ${piece.function.name}`, make("pre"));
        } else {
          known.function.arguments += piece.function.arguments;
        }
        answer.querySelector("pre").textContent = message.tool_calls[piece.index].function.arguments;
      }
    }
  } catch (error) {
    asked.remove();
    answer?.remove();
    throw error;
  }
  if (message.tool_calls) {
    message.content = null;
    answer.querySelector("pre").textContent = pretty(message.tool_calls[0].function.arguments);
  } else if (!answer) {
    turn("", "model", make("p", { class: "dim" }, "(nothing)"));
  }
  state.messages.push(said, message);
  expect(message.tool_calls?.[0] ?? null);
  if (report) showReport($("report"), report);
}

async function send() {
  if (state.running) return;
  fail(null);
  setRunning(new AbortController());
  try {
    await ask();
  } catch (error) {
    fail(error.name === "AbortError" ? "Stopped." : error.message);
  } finally {
    setRunning(null);
    question.focus();
  }
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  send();
});
form.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
  event.preventDefault();
  form.requestSubmit();
});
$("stop").addEventListener("click", () => state.running?.abort());
$("source").addEventListener("change", showSource);
$("again").addEventListener("click", () => {
  state.running?.abort();
  state.messages = [];
  $("turns").replaceChildren();
  fail(null);
  expect(null);
  question.focus();
});
