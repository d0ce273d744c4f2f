// Schemas that tools in the wild have, and some made to hurt. Shared by the
// tests of the grammar and of the sampler.
#ifndef NEXUS_LLM_GRAMMAR_SCHEMAS_FOR_TEST_H_
#define NEXUS_LLM_GRAMMAR_SCHEMAS_FOR_TEST_H_

namespace nexus::llm {

inline constexpr const char* kGoodSchemas[] =
    {
        R"({"type":"object"})",
        R"({"type":"object","properties":{}})",
        R"({"type":"object","properties":{"city":{"type":"string"}},"required":["city"]})",
        R"({"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}}})",
        R"({"type":"object","properties":{"a":{"type":"string"},"b":{"type":"number"},"c":{"type":"boolean"},"d":{"type":"null"}},"required":["a","b","c","d"]})",
        R"({"type":"object","properties":{"unit":{"type":"string","enum":["celsius","fahrenheit"]}},"required":["unit"]})",
        R"({"type":"object","properties":{"v":{"enum":[1,"two",null,true,{"k":[1]}]}},"required":["v"]})",
        R"({"type":"object","properties":{"v":{"const":"fixed"}},"required":["v"]})",
        R"({"type":"object","properties":{"n":{"type":"integer","minimum":1,"maximum":100}},"required":["n"]})",
        R"({"type":"object","properties":{"n":{"type":"integer","minimum":-7,"maximum":12345}},"required":["n"]})",
        R"({"type":"object","properties":{"n":{"type":"integer","minimum":0.5,"exclusiveMaximum":10}},"required":["n"]})",
        R"({"type":"object","properties":{"n":{"type":"integer","exclusiveMinimum":0}},"required":["n"]})",
        R"({"type":"object","properties":{"n":{"type":"integer","minimum":5,"exclusiveMinimum":true}},"required":["n"]})",
        R"({"type":"object","properties":{"s":{"type":"string","minLength":3,"maxLength":8}},"required":["s"]})",
        R"({"type":"object","properties":{"s":{"type":"string","maxLength":1000}},"required":["s"]})",
        R"({"type":"object","properties":{"s":{"type":"string","maxLength":10000}},"required":["s"]})",
        R"({"type":"object","properties":{"s":{"type":"string","minLength":1}},"required":["s"]})",
        R"({"type":"object","properties":{"l":{"type":"array","items":{"type":"string"}}},"required":["l"]})",
        R"({"type":"object","properties":{"l":{"type":"array","items":{"type":"integer"},"minItems":2,"maxItems":4}},"required":["l"]})",
        R"({"type":"object","properties":{"l":{"type":"array"}},"required":["l"]})",
        R"({"type":"object","properties":{"l":{"type":"array","items":{"type":"array","items":{"type":"number"},"maxItems":3},"maxItems":3}},"required":["l"]})",
        R"({"type":"object","properties":{"l":{"type":"array","prefixItems":[{"type":"string"},{"type":"integer"}]}},"required":["l"]})",
        R"({"type":"object","properties":{"l":{"type":"array","maxItems":0,"items":{"type":"string"}}},"required":["l"]})",
        R"({"type":"object","properties":{"o":{"type":"object","properties":{"x":{"type":"number"},"y":{"type":"number"}},"required":["x","y"]}},"required":["o"]})",
        R"({"type":"object","properties":{"m":{"type":"object","additionalProperties":{"type":"string"}}},"required":["m"]})",
        R"({"type":"object","properties":{"m":{"type":"object","additionalProperties":true,"properties":{"a-b":{"type":"string"},"]^\\":{"type":"string"}}}},"required":["m"]})",
        R"({"type":"object","properties":{"any":{}},"required":["any"]})",
        R"({"type":"object","properties":{"any":{"description":"whatever"}},"required":["any"]})",
        R"({"type":"object","properties":{"any":true},"required":["any"]})",
        R"({"type":"object","properties":{"u":{"type":["string","null"]}},"required":["u"]})",
        R"({"type":"object","properties":{"u":{"type":["string","integer","array"]}},"required":["u"]})",
        R"({"type":"object","properties":{"u":{"anyOf":[{"type":"string"},{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}]}},"required":["u"]})",
        R"({"type":"object","properties":{"u":{"oneOf":[{"type":"boolean"},{"type":"null"}]}},"required":["u"]})",
        R"({"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},"anyOf":[{"required":["a"]},{"required":["b"]}]})",
        R"({"type":"object","properties":{"r":{"$ref":"#/$defs/Point"}},"required":["r"],"$defs":{"Point":{"type":"object","properties":{"x":{"type":"integer"}},"required":["x"]}}})",
        R"({"type":"object","properties":{"t":{"$ref":"#/$defs/Tree"}},"required":["t"],"$defs":{"Tree":{"type":"object","properties":{"v":{"type":"string"},"kids":{"type":"array","items":{"$ref":"#/$defs/Tree"}}},"required":["v"]}}})",
        R"({"type":"object","properties":{"k":{"allOf":[{"$ref":"#/$defs/K"}],"description":"kind"}},"required":["k"],"$defs":{"K":{"type":"string","enum":["a","b"]}}})",
        R"({"type":"object","properties":{"p":{"allOf":[{"properties":{"a":{"type":"string"}}},{"properties":{"b":{"type":"integer"}}}]}},"required":["p"]})",
        R"({"type":"object","properties":{"d":{"type":"string","format":"date"}},"required":["d"]})",
        R"({"type":"object","properties":{"d":{"type":"string","format":"date-time"}},"required":["d"]})",
        R"({"type":"object","properties":{"d":{"type":"string","format":"uuid"}},"required":["d"]})",
        R"({"type":"object","properties":{"d":{"type":"string","format":"uri"}},"required":["d"]})",
        R"({"type":"object","properties":{"p":{"type":"string","pattern":"^[A-Z]{2}-\\d{3,}$"}},"required":["p"]})",
        R"({"type":"object","properties":{"p":{"type":"string","pattern":"\\.json$"}},"required":["p"]})",
        R"({"type":"object","properties":{"p":{"type":"string","pattern":"^.*$"}},"required":["p"]})",
        R"({"type":"object","properties":{"p":{"type":"string","pattern":"^[^\\s]+\"x\"$"}},"required":["p"]})",
        R"({"type":"object","properties":{"caf\u00e9":{"type":"string"},"\u6c34":{"type":"integer"}},"required":["\u6c34"]})",
        R"({"type":"object","properties":{"root":{"type":"string"},"string":{"type":"integer"},"value":{"type":"boolean"}},"required":["root","string","value"]})",
        R"({"type":"object","properties":{"with space":{"type":"string"},"with\"quote":{"type":"integer"}},"required":["with space","with\"quote"]})",
        R"({"type":"object","properties":{"pattern":{"type":"string"},"properties":{"type":"object"},"enum":{"type":"boolean"}},"required":["pattern","properties","enum"]})",
        R"({"type":"object","properties":{"a":{"type":"object","properties":{"b":{"type":"object","properties":{"c":{"type":"array","items":{"type":"object","properties":{"d":{"type":"number"}},"required":["d"]},"minItems":1}},"required":["c"]}},"required":["b"]}},"required":["a"]})",
};

// Refused with a reason, for the caller to relax.
inline constexpr const char* kRefusedSchemas[] = {
    R"([])",
    R"("string")",
    R"({"type":"object","properties":{"p":{"type":"string","pattern":"^(?=.*[a-z]).+$"}}})",
    R"({"type":"object","properties":{"p":{"type":"string","pattern":"["}}})",
    R"({"type":"object","properties":{"p":{"type":"string","minLength":9000000}}})",
    R"({"type":"object","properties":{"p":{"type":"array","items":{"type":"string"},"minItems":5,"maxItems":2}}})",
    R"({"type":"object","properties":{"p":{"enum":[]}}})",
    R"({"type":"object","properties":{"p":false}})",
    R"({"type":"object","properties":{"p":{"type":"banana"}}})",
    R"({"type":"object","properties":{"p":{"$ref":"#/nowhere"}}})",
    R"({"type":"object","properties":{"p":{"$ref":"https://example.com/schema.json"}}})",
    R"({"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"properties":{"p":{"$ref":"#/$defs/a"}}})",
    R"({"$defs":{"a":{"$ref":"#/$defs/a"}},"allOf":[{"$ref":"#/$defs/a"},{"properties":{}}]})",
    R"({"type":"object","properties":{"p":{"allOf":[{"type":"string"},{"minLength":2}]}}})",
    R"({"$defs":{"n":{"type":"object","properties":{"n":{"$ref":"#/$defs/n"}},"required":["n"]}},"type":"object","properties":{"n":{"$ref":"#/$defs/n"}},"required":["n"]})",
    R"({"type":"object","properties":[1,2]})",
    R"({"type":"object","properties":{"p":{"format":7}}})",
};

}  // namespace nexus::llm

#endif  // NEXUS_LLM_GRAMMAR_SCHEMAS_FOR_TEST_H_
