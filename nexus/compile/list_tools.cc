// Original texts, written for this purpose. Data, not code: changing a letter
// changes the recipe's name, so list blocks are compiled again.
#include "nexus/compile/list_tools.h"

#include <array>

#include "nexus/base/check.h"

namespace nexus::compile {
namespace {

constexpr std::array<std::string_view, 8> kTexts = {
    R"({"name": "water_plants", "description": "Opens the valve of one bed for a while.", "inputSchema": {"type": "object", "properties": {"bed": {"type": "integer", "description": "Number of the bed, from the door on."}, "minutes": {"type": "number", "description": "How long the valve stays open."}}, "required": ["bed", "minutes"]}})",
    R"({"name": "find_recipes", "description": "Searches the cookery collection. Returns titles with their numbers, the best match first.", "inputSchema": {"type": "object", "properties": {"ingredients": {"type": "array", "items": {"type": "string"}, "description": "What has to be used up."}, "diet": {"type": "string", "enum": ["any", "vegetarian", "vegan"], "description": "Leaves out what doesn't suit."}, "max_minutes": {"type": "integer", "minimum": 5, "description": "Longest time of preparation."}}, "required": ["ingredients"]}})",
    R"({"name": "git_bisect_next", "description": "Marks the checked-out commit and moves on to the next one to test.", "inputSchema": {"type": "object", "properties": {"repository": {"type": "string", "description": "Path of the working tree."}, "verdict": {"type": "string", "enum": ["good", "bad", "skip"]}}, "required": ["repository", "verdict"], "additionalProperties": false}})",
    R"({"name": "create_invoice", "description": "Makes an invoice as a draft. Nothing is sent; a person has to release it. Amounts are in the smallest unit of the currency.", "inputSchema": {"type": "object", "properties": {"customer": {"type": "object", "description": "Who pays.", "properties": {"name": {"type": "string"}, "street": {"type": "string"}, "city": {"type": "string"}, "country": {"type": "string", "description": "Two letters, as in ISO 3166."}}, "required": ["name", "country"]}, "lines": {"type": "array", "description": "At least one.", "items": {"type": "object", "properties": {"text": {"type": "string"}, "quantity": {"type": "integer"}, "unit_price": {"type": "integer"}}, "required": ["text", "quantity", "unit_price"]}}, "due_in_days": {"type": "integer", "default": 30, "description": "Days until the payment is due."}, "currency": {"type": "string", "default": "EUR"}}, "required": ["customer", "lines"]}})",
    R"({"name": "now", "description": "The time of day in a time zone.", "inputSchema": {"type": "object", "properties": {"zone": {"type": "string", "description": "As in the tz database, such as Asia/Seoul."}}}})",
    R"({"name": "query_table", "description": "Runs a read-only SQL statement against the warehouse and returns at most a thousand rows as comma-separated text. Statements that would change data are refused.", "inputSchema": {"type": "object", "properties": {"sql": {"type": "string", "description": "One statement, without the semicolon."}, "timeout_s": {"type": "number", "description": "Gives up after so many seconds."}, "explain": {"type": "boolean", "description": "Returns the plan instead of the rows."}}, "required": ["sql"]}})",
    R"({"name": "send_parcel", "description": "Books the collection of a parcel by a carrier and returns the label's address.", "inputSchema": {"type": "object", "properties": {"weight_kg": {"type": "number", "exclusiveMinimum": 0}, "from": {"type": "string", "description": "Postal code of the sender."}, "to": {"type": "string", "description": "Postal code of the receiver."}, "service": {"type": "string", "enum": ["standard", "express", "bulky"]}, "insured_value": {"type": "number", "description": "Left out: not insured."}}, "required": ["weight_kg", "from", "to"]}})",
    R"({"name": "label_image", "description": "Says what is to be seen in a picture.", "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}, "labels": {"type": "array", "items": {"type": "string"}, "description": "The words to choose from; empty for any."}, "threshold": {"type": "number", "minimum": 0, "maximum": 1, "description": "Least certainty of a label that is given back."}}, "required": ["path"]}})",
};

}  // namespace

std::span<const std::string_view> ListToolTexts() { return kTexts; }

const std::vector<schema::ToolSchema>& ListTools() {
  static const auto* const tools = [] {
    auto* parsed = new std::vector<schema::ToolSchema>();
    for (const std::string_view text : kTexts) {
      auto json = ParseJson(text, "list tools");
      NEXUS_CHECK(json.ok());
      auto tool = schema::ParseTool(*json, "", "list tools");
      NEXUS_CHECK(tool.ok());
      parsed->push_back(*std::move(tool));
    }
    return parsed;
  }();
  return *tools;
}

std::span<const std::vector<int>> ListToolSets() {
  static const auto* const sets =
      new std::vector<std::vector<int>>{{0}, {1, 2}, {3, 4, 5}, {6, 7, 0, 2},
                                        {5}, {4, 1}, {7, 3, 6}, {2, 6, 0, 5}};
  return *sets;
}

}  // namespace nexus::compile
