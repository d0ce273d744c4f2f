#include "nexus/eval/query_file.h"

#include <algorithm>
#include <utility>

#include "nexus/base/file_system.h"
#include "nexus/base/json_lines.h"
#include "nexus/eval/draws.h"

namespace nexus::eval {
namespace {

Status WrongField(const std::string& where, const char* field,
                  const char* expected) {
  return InvalidArgumentError(where + ": \"" + field + "\" must be " +
                              expected);
}

Status ReadText(const Json& row, const char* field, const std::string& where,
                std::string* text) {
  const auto it = row.find(field);
  if (it == row.end() || it->is_null()) return Status::Ok();
  if (it->is_number()) {
    *text = it->dump();
    return Status::Ok();
  }
  if (!it->is_string()) return WrongField(where, field, "a string");
  *text = it->get<std::string>();
  return Status::Ok();
}

Status ReadNames(const Json& row, const char* field, const std::string& where,
                 std::vector<std::string>* names) {
  const auto it = row.find(field);
  if (it == row.end() || it->is_null()) return Status::Ok();
  if (!it->is_array()) return WrongField(where, field, "a list of tool names");
  for (const Json& name : *it) {
    if (!name.is_string()) {
      return WrongField(where, field, "a list of tool names");
    }
    // A name that is given twice is one tool, not two needed ones.
    if (std::find(names->begin(), names->end(), name) == names->end()) {
      names->push_back(name.get<std::string>());
    }
  }
  return Status::Ok();
}

Status ReadCall(const Json& row, const std::string& where, LabelledCall* call) {
  if (!row.is_object() || !row.contains("tool") || !row["tool"].is_string() ||
      !row.contains("arguments") || !row["arguments"].is_object()) {
    return InvalidArgumentError(
        where +
        ": expected an object with a string \"tool\" and an object "
        "\"arguments\"");
  }
  call->tool = row["tool"].get<std::string>();
  call->arguments = row["arguments"];
  for (const auto& [name, accepted] : call->arguments.items()) {
    if (!accepted.is_array()) {
      return InvalidArgumentError(where + ": argument '" + name +
                                  "' must have a list of accepted values");
    }
  }
  const auto schema = row.find("schema");
  if (schema == row.end() || schema->is_null()) return Status::Ok();
  constexpr int64_t kMostSchemas = 1'000'000;
  if (!schema->is_number_integer() || *schema < 0 || *schema > kMostSchemas) {
    return WrongField(where, "schema",
                      "the number of a tool among those of its name, from 0");
  }
  call->schema = schema->get<int>();
  return Status::Ok();
}

Status ReadCalls(const Json& row, const std::string& where,
                 LabelledQuery* query) {
  std::string labels;
  NEXUS_RETURN_IF_ERROR(ReadText(row, "object_labels", where, &labels));
  if (labels == "values") {
    query->object_labels = ObjectLabels::kValues;
  } else if (!labels.empty() && labels != "accepted") {
    return WrongField(where, "object_labels", "\"accepted\" or \"values\"");
  }
  const auto calls = row.find("calls");
  if (calls == row.end() || calls->is_null()) return Status::Ok();
  if (!calls->is_array()) return WrongField(where, "calls", "a list");
  for (size_t i = 0; i < calls->size(); ++i) {
    NEXUS_RETURN_IF_ERROR(ReadCall((*calls)[i],
                                   where + ": calls[" + std::to_string(i) + "]",
                                   &query->calls.emplace_back()));
  }
  return Status::Ok();
}

Result<LabelledQuery> ParseQuery(const Json& row, const std::string& where) {
  LabelledQuery query;
  if (!row.is_object() || !row.contains("query") || !row["query"].is_string()) {
    return InvalidArgumentError(
        where +
        ": expected an object with a string \"query\" and a list "
        "\"gold\"");
  }
  query.text = row["query"].get<std::string>();
  // A label that was forgotten must not pass for "out of scope".
  if (!row.contains("gold") || row["gold"].is_null()) {
    return InvalidArgumentError(
        where +
        ": no \"gold\"; write \"gold\": [] for a query that no tool "
        "answers");
  }
  NEXUS_RETURN_IF_ERROR(ReadNames(row, "gold", where, &query.gold));
  NEXUS_RETURN_IF_ERROR(ReadNames(row, "related", where, &query.related));
  NEXUS_RETURN_IF_ERROR(ReadText(row, "id", where, &query.id));
  NEXUS_RETURN_IF_ERROR(ReadText(row, "set", where, &query.set));
  NEXUS_RETURN_IF_ERROR(ReadText(row, "part", where, &query.part));
  NEXUS_RETURN_IF_ERROR(ReadText(row, "split", where, &query.split));
  if (const auto any = row.find("gold_any"); any != row.end()) {
    if (!any->is_boolean()) return WrongField(where, "gold_any", "a boolean");
    query.gold_any = any->get<bool>();
  }
  NEXUS_RETURN_IF_ERROR(ReadCalls(row, where, &query));
  std::string within;
  NEXUS_RETURN_IF_ERROR(ReadText(row, "within", where, &within));
  if (within == "candidates") {
    NEXUS_RETURN_IF_ERROR(ReadNames(row, "candidates", where, &query.within));
    // Without any it would hold for the whole registry.
    if (query.within.empty()) {
      return WrongField(where, "candidates",
                        "at least one tool, since \"within\" says so");
    }
  } else if (!within.empty()) {
    return WrongField(where, "within", "\"candidates\"");
  }
  return query;
}

}  // namespace

Result<std::vector<LabelledQuery>> ReadQueryFile(const std::string& path) {
  NEXUS_ASSIGN_OR_RETURN(const std::string text,
                         FileSystem::Default().ReadFile(path));
  std::vector<LabelledQuery> queries;
  NEXUS_RETURN_IF_ERROR(ForEachJsonLine(
      text, path,
      [&](const Json& row, const std::string& where, size_t number) -> Status {
        NEXUS_ASSIGN_OR_RETURN(LabelledQuery query, ParseQuery(row, where));
        if (query.id.empty()) query.id = std::to_string(number);
        queries.push_back(std::move(query));
        return Status::Ok();
      }));
  return queries;
}

std::vector<LabelledQuery> FilterQueries(std::vector<LabelledQuery> queries,
                                         const QueryFilter& filter) {
  const auto fits = [](const std::string& wanted, const std::string& value) {
    return wanted.empty() || wanted == value;
  };
  std::erase_if(queries, [&](const LabelledQuery& query) {
    return !fits(filter.split, query.split) || !fits(filter.set, query.set) ||
           !fits(filter.part, query.part);
  });
  if (filter.limit == 0 || queries.size() <= filter.limit) return queries;
  std::vector<int> drawn = Shuffled(queries.size(), filter.seed);
  drawn.resize(filter.limit);
  std::sort(drawn.begin(), drawn.end());
  std::vector<LabelledQuery> kept;
  for (const int i : drawn) {
    kept.push_back(std::move(queries[static_cast<size_t>(i)]));
  }
  return kept;
}

}  // namespace nexus::eval
