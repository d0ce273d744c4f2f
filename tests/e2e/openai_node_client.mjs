// Run by openai_node_client_test.py, which says where the server is and what to ask.
import assert from "node:assert/strict";
import {test} from "node:test";

import OpenAI from "openai";

const {url, key, model, tools, messages} = JSON.parse(process.env.NEXUS_TEST);
const client = new OpenAI({baseURL: url, apiKey: key, maxRetries: 0});
const chat = (fields = {}) => client.chat.completions.create(
    {model, messages, max_tokens: 64, ...fields});
const flatTools = tools.map(({function: tool}) => ({type: "function", ...tool}));
const respond = (fields = {}) => client.responses.create(
    {model, input: messages, max_output_tokens: 64, ...fields});

test("words", async () => {
  const answer = await chat({max_tokens: 8});
  assert.ok(answer.choices[0].message.content);
  const {prompt_tokens, completion_tokens, total_tokens} = answer.usage;
  assert.equal(total_tokens, prompt_tokens + completion_tokens);
});

test("a stream of words with usage", async () => {
  let text = "";
  let usage = null;
  for await (const chunk of await chat({
    max_tokens: 8, stream: true, stream_options: {include_usage: true}})) {
    usage = chunk.usage ?? usage;
    for (const choice of chunk.choices) text += choice.delta.content ?? "";
  }
  assert.equal(text, (await chat({max_tokens: 8})).choices[0].message.content);
  assert.ok(usage.completion_tokens > 0);
});

test("a routed call, and the answer to its result", async () => {
  const talk = [...messages];
  const first = (await chat({tools})).choices[0];
  assert.equal(first.finish_reason, "tool_calls");
  const [call] = first.message.tool_calls;
  assert.equal(call.function.name, "get_weather");
  assert.ok("city" in JSON.parse(call.function.arguments));
  talk.push(first.message, {role: "tool", tool_call_id: call.id,
                            content: JSON.stringify({celsius: 18})});
  const second = await chat({messages: talk, tools, max_tokens: 12});
  assert.ok(second.choices[0].message.content);
  assert.ok(second.usage.prompt_tokens_details.cached_tokens > 0);
});

test("a call streamed in fragments", async () => {
  const fragments = [];
  let named = null;
  let reason = null;
  for await (const chunk of await chat({tools, stream: true})) {
    const [choice] = chunk.choices;
    reason = choice.finish_reason ?? reason;
    for (const part of choice.delta.tool_calls ?? []) {
      assert.equal(part.index, 0);
      if (part.id) named = part;
      if (part.function.arguments) fragments.push(part.function.arguments);
    }
  }
  assert.equal(reason, "tool_calls");
  assert.equal(named.function.name, "get_weather");
  assert.ok(fragments.length > 1, JSON.stringify(fragments));
  const whole = (await chat({tools})).choices[0].message.tool_calls[0];
  assert.deepEqual(JSON.parse(fragments.join("")), JSON.parse(whole.function.arguments));
});

test("a stream put together by the client", async () => {
  const seen = [];
  const stream = client.chat.completions.stream({model, messages, tools, max_tokens: 64})
      .on("tool_calls.function.arguments.delta", (event) => seen.push(event.name));
  const [choice] = (await stream.finalChatCompletion()).choices;
  assert.equal(choice.finish_reason, "tool_calls");
  assert.equal(choice.message.tool_calls[0].function.name, "get_weather");
  assert.ok(seen.includes("get_weather"));
});

test("an agent's loop that the client drives", async () => {
  const cities = [];
  const runnable = tools.map(({function: tool}) => ({
    type: "function",
    function: {
      ...tool, parse: JSON.parse,
      function: (given) => {
        cities.push(given.city);
        return JSON.stringify({celsius: 18});
      },
    },
  }));
  for (const stream of [false, true]) {
    const runner = client.chat.completions.runTools(
        {model, messages, tools: runnable, max_tokens: 48, stream});
    assert.ok(await runner.finalContent());
    const roles = runner.messages.map(({role}) => role);
    assert.deepEqual(roles, ["user", "assistant", "tool", "assistant"]);
  }
  assert.equal(cities.length, 2);
  assert.equal(typeof cities[0], "string");
});

test("a response in words, whole and streamed", async () => {
  const fields = {input: "Say hello.", max_output_tokens: 8};
  const whole = await respond(fields);
  assert.ok(whole.output_text);
  let text = "";
  let last = null;
  let count = 0;
  for await (const event of await respond({...fields, stream: true})) {
    assert.equal(event.sequence_number, count++);
    last = event;
    if (event.type === "response.output_text.delta") text += event.delta;
  }
  assert.equal(text, whole.output_text);
  assert.ok(["response.completed", "response.incomplete"].includes(last.type));
});

test("a response with a call, put together by the client", async () => {
  const kinds = [];
  const stream = client.responses.stream(
      {model, input: messages, tools: flatTools, max_output_tokens: 64});
  for await (const event of stream) kinds.push(event.type);
  const final = await stream.finalResponse();
  assert.ok(kinds.includes("response.function_call_arguments.delta"));
  assert.equal(final.status, "completed");
  const [call] = final.output;
  assert.equal(call.name, "get_weather");
  assert.ok("city" in JSON.parse(call.arguments));
  const second = await respond({
    input: [...messages, ...final.output.map(({parsed_arguments, ...item}) => item),
            {type: "function_call_output", call_id: call.call_id,
             output: JSON.stringify({celsius: 18})}],
    tools: flatTools, max_output_tokens: 16});
  assert.ok(second.output_text);
});

test("errors are the client's own exceptions", async () => {
  await assert.rejects(chat({model: "gpt-4o"}), (error) => {
    assert.ok(error instanceof OpenAI.NotFoundError);
    assert.equal(error.code, "model_not_found");
    return true;
  });
  await assert.rejects(chat({n: 2}), (error) => {
    assert.ok(error instanceof OpenAI.BadRequestError);
    assert.equal(error.param, "n");
    return true;
  });
  await assert.rejects(chat({model: "gpt-4o", stream: true}), OpenAI.NotFoundError);
  await assert.rejects(respond({previous_response_id: "resp_1"}), OpenAI.BadRequestError);
  const stranger = client.withOptions({apiKey: "another"});
  await assert.rejects(stranger.models.list(), OpenAI.AuthenticationError);
});

test("models and embeddings", async () => {
  const names = [];
  for await (const one of client.models.list()) names.push(one.id);
  assert.equal(names[0], model);
  const input = ["a", "b"];
  // The client asks for base64 unless told otherwise, and decodes it.
  const packed = await client.embeddings.create({model: names[1], input});
  const plain = await client.embeddings.create(
      {model: names[1], input, encoding_format: "float"});
  assert.equal(packed.data.length, 2);
  assert.ok(packed.data[0].embedding.length > 100);
  packed.data[0].embedding.forEach((value, i) => {
    assert.ok(Math.abs(value - plain.data[0].embedding[i]) < 1e-6);
  });
});

test("the nexus object comes through", async () => {
  const answer = await chat({tools, nexus: true});
  assert.equal(answer.nexus.route.tool, "get_weather");
});
