"""LangChain's OpenAI client against `nexus serve`, as its users write it.

Run by ctest with NEXUS_BIN set to the program and NEXUS_AGENTS_PYTHON to what
scripts/fetch_agents prints; scripts/test brings it.
"""

import os
import sys
import unittest

try:
    import langchain_openai
except ImportError:
    # ctest runs this with any Python: change over to the one with LangChain.
    python = os.environ.get("NEXUS_AGENTS_PYTHON")
    if not python:
        sys.exit("NEXUS_AGENTS_PYTHON isn't set: run scripts/test, or give it what "
                 "scripts/fetch_agents prints")
    os.execv(python, [python, *sys.argv])

import openai
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from pydantic import BaseModel

from serve_e2e_test import MODEL, WEATHER, Server

QUESTION = WEATHER[0]["content"]


@tool
def get_weather(city: str) -> dict:
    """Get the current weather in a city"""
    return {"city": city, "celsius": 18}


@tool
def send_email(to: str, body: str) -> str:
    """Send an email message to a person"""
    raise AssertionError(f"nobody asked for mail to {to}: {body}")


@tool
def convert_currency(amount: float, to: str) -> float:
    """Convert an amount of money between currencies"""
    raise AssertionError(f"nobody asked for {amount} in {to}")


TOOLS = [get_weather, send_email, convert_currency]


class LangChainTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        for name in ("LANGSMITH_TRACING", "LANGCHAIN_TRACING_V2", "OPENAI_BASE_URL"):
            os.environ.pop(name, None)
        cls.server = Server(env={"NEXUS_API_KEY": "a key"})

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0

    def model(self, **fields):
        return langchain_openai.ChatOpenAI(
            **{"model": MODEL, "base_url": f"http://127.0.0.1:{self.server.port}/v1",
               "api_key": "a key", "max_retries": 0, "max_tokens": 64, **fields})

    def check_call(self, message):
        [call] = message.tool_calls
        self.assertEqual(call["name"], "get_weather")
        self.assertIsInstance(call["args"]["city"], str)
        self.assertEqual(message.invalid_tool_calls, [])
        return call

    def loop(self, model):
        """Two steps: the call, then words about its result."""
        messages = [HumanMessage(QUESTION)]
        messages.append(model.invoke(messages))
        call = self.check_call(messages[-1])
        result = get_weather.invoke(call)
        self.assertIsInstance(result, ToolMessage)
        messages.append(result)
        answer = model.invoke(messages)
        self.assertEqual(answer.tool_calls, [])
        self.assertTrue(answer.text)
        return answer

    def test_words_whole_and_streamed(self):
        model = self.model(max_tokens=8)
        # From here on the question is held: what follows begins from the same cells.
        model.invoke(QUESTION)
        answer = model.invoke(QUESTION)
        self.assertTrue(answer.text)
        self.assertEqual(answer.response_metadata["model_name"], MODEL)
        usage = answer.usage_metadata
        self.assertEqual(usage["total_tokens"],
                         usage["input_tokens"] + usage["output_tokens"])
        chunks = list(model.stream(QUESTION))
        self.assertGreater(len(chunks), 2)
        self.assertEqual("".join(chunk.text for chunk in chunks), answer.text)

    def test_a_loop_of_two_steps(self):
        answer = self.loop(self.model().bind_tools(TOOLS))
        self.assertGreater(answer.usage_metadata["input_token_details"]["cache_read"], 0)

    def test_a_loop_of_two_steps_over_responses(self):
        self.loop(self.model(use_responses_api=True).bind_tools(TOOLS))

    def test_a_streamed_call(self):
        whole = None
        fragments = 0
        for chunk in self.model().bind_tools(TOOLS).stream(QUESTION):
            fragments += len(chunk.tool_call_chunks)
            whole = chunk if whole is None else whole + chunk
        self.assertGreater(fragments, 1)
        self.check_call(whole)

    def test_a_tool_that_must_be_called(self):
        model = self.model().bind_tools(TOOLS, tool_choice="convert_currency")
        [call] = model.invoke("How much is 12 dollars in euros?").tool_calls
        self.assertEqual(call["name"], "convert_currency")
        self.assertIsInstance(call["args"]["amount"], (int, float))

    def test_an_answer_under_a_schema(self):
        class Person(BaseModel):
            name: str
            age: int

        for method in ("json_schema", "function_calling"):
            model = self.model().with_structured_output(Person, method=method)
            person = model.invoke("Ann is 34 years old.")
            self.assertIsInstance(person, Person, method)

    def test_errors_are_the_clients_own_exceptions(self):
        with self.assertRaises(openai.NotFoundError) as missing:
            self.model(model="gpt-4o").invoke(QUESTION)
        self.assertEqual(missing.exception.code, "model_not_found")

    def test_embeddings(self):
        # Without the check it would split texts with another model's tokenizer.
        embed = langchain_openai.OpenAIEmbeddings(
            model=self.encoder(), api_key="a key", check_embedding_ctx_length=False,
            base_url=f"http://127.0.0.1:{self.server.port}/v1")
        self.assertEqual(len(embed.embed_documents(["a", "b"])), 2)
        self.assertGreater(len(embed.embed_query("a")), 100)

    def encoder(self):
        with openai.OpenAI(base_url=f"http://127.0.0.1:{self.server.port}/v1",
                           api_key="a key") as client:
            return [model.id for model in client.models.list()][1]


if __name__ == "__main__":
    unittest.main(verbosity=2)
