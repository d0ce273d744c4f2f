"""OpenAI's own Python client against `nexus serve`, as its users write it.

Run by ctest with NEXUS_BIN set to the program and NEXUS_OPENAI_PYTHON to what
scripts/fetch_openai_client prints; scripts/test brings it.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

try:
    import openai
except ImportError:
    # ctest runs this with any Python: change over to the one with the client.
    python = os.environ.get("NEXUS_OPENAI_PYTHON")
    if not python:
        sys.exit("NEXUS_OPENAI_PYTHON isn't set: run scripts/test, or give it what "
                 "scripts/fetch_openai_client prints")
    os.execv(python, [python, *sys.argv])

from serve_e2e_test import MODEL, TOOLS, WEATHER, Server


class ReadmeTest(unittest.TestCase):
    def test_the_python_of_the_readme_runs_as_written(self):
        readme = pathlib.Path(__file__).resolve().parents[2] / "README.md"
        [code] = re.findall(r"```python\n(.*?)```", readme.read_text(), re.DOTALL)
        server = Server()
        try:
            code = code.replace(":8080", f":{server.port}").replace(
                "qwen2.5-coder-0.5b", MODEL)
            out = subprocess.run([sys.executable, "-c", code], capture_output=True,
                                 text=True, timeout=300, check=False)
            self.assertEqual(out.returncode, 0, out.stderr)
            self.assertIn("get_weather", out.stdout)
            self.assertIn("city", out.stdout)
        finally:
            self.assertEqual(server.stop(), 0)


class OpenAiClientTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(env={"NEXUS_API_KEY": "a key"})
        cls.client = openai.OpenAI(
            base_url=f"http://127.0.0.1:{cls.server.port}/v1", api_key="a key",
            max_retries=0)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        assert cls.server.stop() == 0

    def chat(self, **fields):
        return self.client.chat.completions.create(
            **{"model": MODEL, "messages": WEATHER, "max_tokens": 64, **fields})

    def test_words(self):
        answer = self.chat(max_tokens=8)
        self.assertTrue(answer.choices[0].message.content)
        self.assertEqual(answer.usage.total_tokens,
                         answer.usage.prompt_tokens + answer.usage.completion_tokens)

    def test_logprobs_of_words(self):
        choice = self.chat(max_tokens=6, logprobs=True, top_logprobs=3).choices[0]
        rows = choice.logprobs.content
        self.assertEqual("".join(row.token for row in rows), choice.message.content)
        for row in rows:
            self.assertEqual(row.top_logprobs[0].logprob, row.logprob)
            self.assertEqual(len(row.top_logprobs), 3)
        # Not the same words as above: prompts are decoded in other batches once
        # they are held (docs/determinism.md).
        text = tokens = ""
        for chunk in self.chat(max_tokens=6, logprobs=True, stream=True):
            for part in chunk.choices:
                text += part.delta.content or ""
                tokens += "".join(row.token for row in
                                  (part.logprobs.content if part.logprobs else []))
        self.assertTrue(text)
        self.assertEqual(tokens, text)
        response = self.respond(input="Say hello.", max_output_tokens=4,
                                top_logprobs=2)
        part = response.output[0].content[0]
        self.assertEqual("".join(row.token for row in part.logprobs), part.text)

    def test_an_agents_loop(self):
        messages = list(WEATHER)
        first = self.chat(messages=messages, tools=TOOLS)
        call = first.choices[0].message.tool_calls[0]
        self.assertEqual(call.function.name, "get_weather")
        messages.append(first.choices[0].message)
        messages.append({"role": "tool", "tool_call_id": call.id,
                         "content": json.dumps({"celsius": 18})})
        second = self.chat(messages=messages, tools=TOOLS, max_tokens=12)
        self.assertEqual(second.choices[0].message.role, "assistant")
        self.assertTrue(second.choices[0].message.content)
        self.assertGreater(second.usage.prompt_tokens_details.cached_tokens, 0)

    def test_a_stream_of_words_with_usage(self):
        text = ""
        usage = None
        for chunk in self.chat(max_tokens=8, stream=True,
                               stream_options={"include_usage": True}):
            usage = chunk.usage or usage
            for choice in chunk.choices:
                text += choice.delta.content or ""
        self.assertEqual(text, self.chat(max_tokens=8).choices[0].message.content)
        self.assertGreater(usage.completion_tokens, 0)

    def test_a_stream_put_together_by_the_client(self):
        with self.client.chat.completions.stream(
                model=MODEL, messages=WEATHER, tools=TOOLS, max_tokens=64) as stream:
            for _ in stream:
                pass
            choice = stream.get_final_completion().choices[0]
        self.assertEqual(choice.finish_reason, "tool_calls")
        call = choice.message.tool_calls[0]
        self.assertEqual(call.function.name, "get_weather")
        self.assertIn("city", json.loads(call.function.arguments))

    def respond(self, **fields):
        return self.client.responses.create(
            **{"model": MODEL, "input": WEATHER, "max_output_tokens": 64, **fields})

    def test_a_response_in_words_whole_and_streamed(self):
        whole = self.respond(input="Say hello.", max_output_tokens=8)
        self.assertTrue(whole.output_text)
        self.assertEqual(whole.usage.total_tokens,
                         whole.usage.input_tokens + whole.usage.output_tokens)
        text = ""
        last = None
        numbers = []
        for event in self.respond(input="Say hello.", max_output_tokens=8, stream=True):
            last = event
            numbers.append(event.sequence_number)
            if event.type == "response.output_text.delta":
                text += event.delta
        self.assertEqual(text, whole.output_text)
        self.assertEqual(numbers, list(range(len(numbers))))
        self.assertIn(last.type, ("response.completed", "response.incomplete"))
        self.assertEqual(last.response.output_text, text)

    def test_an_agents_loop_over_responses(self):
        tools = [{"type": "function", **tool["function"]} for tool in TOOLS]
        items = list(WEATHER)
        first = self.respond(input=items, tools=tools, instructions="Be brief.")
        call = first.output[0]
        self.assertEqual((call.type, call.name), ("function_call", "get_weather"))
        self.assertIn("city", json.loads(call.arguments))
        items += first.output
        items.append({"type": "function_call_output", "call_id": call.call_id,
                      "output": json.dumps({"celsius": 18})})
        second = self.respond(input=items, tools=tools, instructions="Be brief.",
                              max_output_tokens=16)
        self.assertEqual(second.output[0].type, "message")
        self.assertTrue(second.output_text)
        self.assertGreater(second.usage.input_tokens_details.cached_tokens, 0)

    def test_a_response_put_together_by_the_client(self):
        tools = [{"type": "function", **tool["function"]} for tool in TOOLS]
        with self.client.responses.stream(
                model=MODEL, input=WEATHER, tools=tools, max_output_tokens=64) as stream:
            kinds = [event.type for event in stream]
            final = stream.get_final_response()
        self.assertIn("response.function_call_arguments.delta", kinds)
        self.assertEqual(final.status, "completed")
        self.assertEqual(final.output[0].name, "get_weather")
        self.assertIn("city", json.loads(final.output[0].arguments))

    def test_a_response_under_a_schema(self):
        schema = {"type": "object", "properties": {"n": {"type": "integer"}},
                  "required": ["n"], "additionalProperties": False}
        answer = self.respond(text={"format": {"type": "json_schema", "name": "n",
                                               "schema": schema}})
        self.assertIsInstance(json.loads(answer.output_text)["n"], int)

    def test_what_responses_refuse_is_named(self):
        for field, value in {"previous_response_id": "resp_1", "store": True,
                             "background": True}.items():
            with self.assertRaises(openai.BadRequestError) as wrong:
                self.respond(**{field: value})
            self.assertEqual(wrong.exception.param, field)
        with self.assertRaises(openai.BadRequestError) as wrong:
            self.respond(tools=[{"type": "functoin"}])
        self.assertEqual(wrong.exception.param, "tools[0].type")

    def test_a_function_in_a_namespace_is_called_beside_a_hosted_tool(self):
        answer = self.respond(tool_choice="required", tools=[
            {"type": "namespace", "name": "mcp__weather", "description": "",
             "tools": [{"type": "function", **TOOLS[0]["function"]}]},
            {"type": "web_search"}])
        call = answer.output[0]
        self.assertEqual((call.type, call.namespace, call.name),
                         ("function_call", "mcp__weather", "get_weather"))

    def test_errors_are_the_clients_own_exceptions(self):
        with self.assertRaises(openai.NotFoundError) as missing:
            self.chat(model="gpt-4o")
        self.assertEqual(missing.exception.code, "model_not_found")
        with self.assertRaises(openai.BadRequestError) as wrong:
            self.chat(n=2)
        self.assertEqual(wrong.exception.param, "n")
        stranger = self.client.with_options(api_key="another")
        with self.assertRaises(openai.AuthenticationError):
            stranger.models.list()

    def test_models_and_embeddings(self):
        names = [model.id for model in self.client.models.list()]
        self.assertEqual(names[0], MODEL)
        answer = self.client.embeddings.create(model=names[1], input=["a", "b"])
        self.assertEqual(len(answer.data), 2)
        self.assertGreater(len(answer.data[0].embedding), 100)

    def test_the_nexus_object_comes_through(self):
        answer = self.chat(tools=TOOLS, extra_body={"nexus": True})
        self.assertEqual(answer.model_extra["nexus"]["route"]["tool"], "get_weather")


if __name__ == "__main__":
    unittest.main(verbosity=2)
