#include "nexus/kv/block_metadata.h"

#include "nexus/base/json.h"
#include "nexus/kv/block_format.h"

namespace nexus::kv {
namespace {

constexpr int kMaxJsonDepth = 8;

Status ReadText(const Json& object, const char* name, std::string_view source,
                std::string* out) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_string()) {
    return CorruptionError(std::string(source) + ": metadata field '" + name +
                           "' is " +
                           (found == object.end() ? "missing" : "not a text"));
  }
  *out = found->get_ref<const std::string&>();
  return Status::Ok();
}

}  // namespace

std::string EncodeMetadataJson(const BlockMetadata& metadata) {
  Json fingerprint = Json::object();
  for (const FingerprintField& field : kFingerprintFields) {
    fingerprint[std::string(field.name)] = metadata.fingerprint.*field.member;
  }
  Json json = Json::object();
  json["tool_name"] = metadata.tool_name;
  json["schema_hash"] = metadata.schema_hash;
  json["recipe"] = metadata.recipe;
  json["content"] = ToHex(metadata.content);
  json["fingerprint"] = std::move(fingerprint);
  return DumpJson(json);
}

Result<BlockMetadata> DecodeMetadataJson(std::string_view json,
                                         std::string_view source) {
  Result<Json> parsed =
      ParseJson(json, source,
                {.max_bytes = kMaxMetadataBytes, .max_depth = kMaxJsonDepth});
  if (!parsed.ok()) return CorruptionError(parsed.status().message());
  if (!parsed->is_object()) {
    return CorruptionError(std::string(source) +
                           ": metadata is not a JSON object");
  }
  BlockMetadata metadata;
  std::string content;
  NEXUS_RETURN_IF_ERROR(
      ReadText(*parsed, "tool_name", source, &metadata.tool_name));
  NEXUS_RETURN_IF_ERROR(
      ReadText(*parsed, "schema_hash", source, &metadata.schema_hash));
  NEXUS_RETURN_IF_ERROR(ReadText(*parsed, "recipe", source, &metadata.recipe));
  NEXUS_RETURN_IF_ERROR(ReadText(*parsed, "content", source, &content));
  Result<Sha256Digest> digest = ParseSha256Hex(content);
  if (!digest.ok()) {
    return CorruptionError(
        std::string(source) +
        ": metadata field 'content': " + digest.status().message());
  }
  metadata.content = *digest;
  const auto fingerprint = parsed->find("fingerprint");
  if (fingerprint == parsed->end() || !fingerprint->is_object()) {
    return CorruptionError(std::string(source) +
                           ": metadata field 'fingerprint' is not an object");
  }
  for (const FingerprintField& field : kFingerprintFields) {
    NEXUS_RETURN_IF_ERROR(ReadText(*fingerprint,
                                   std::string(field.name).c_str(), source,
                                   &(metadata.fingerprint.*field.member)));
  }
  return metadata;
}

}  // namespace nexus::kv
