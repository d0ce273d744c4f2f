#include "nexus/mcp/config.h"

#include <cstdlib>
#include <filesystem>
#include <utility>

#include "nexus/base/file_system.h"

namespace nexus::mcp {
namespace {

bool IsNameByte(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
         (c >= '0' && c <= '9') || c == '_';
}

// Reads one server's fields; every error names the file, the server, the field.
class ServerReader {
 public:
  ServerReader(const Json& entry, std::string context, const EnvLookup& env)
      : entry_(entry), context_(std::move(context)), env_(env) {}

  Result<McpServerConfig> Read(const std::string& name) const {
    if (!entry_.is_object()) {
      return InvalidArgumentError(context_ + ": expected an object, found " +
                                  entry_.type_name());
    }
    McpServerConfig config;
    config.name = name;
    NEXUS_RETURN_IF_ERROR(ReadBool("disabled", &config.disabled));
    // Variables of a server that won't run needn't be set.
    if (config.disabled) return config;
    std::string type;
    NEXUS_RETURN_IF_ERROR(ReadString("type", &type));
    if (type.empty()) NEXUS_RETURN_IF_ERROR(ReadString("transport", &type));
    NEXUS_RETURN_IF_ERROR(ReadString("command", &config.command));
    NEXUS_RETURN_IF_ERROR(ReadString("cwd", &config.cwd));
    NEXUS_RETURN_IF_ERROR(ReadString("url", &config.url));
    if (config.url.empty()) {
      NEXUS_RETURN_IF_ERROR(ReadString("serverUrl", &config.url));
    }
    NEXUS_RETURN_IF_ERROR(ReadArgs(&config.args));
    NEXUS_RETURN_IF_ERROR(ReadStringMap("env", &config.env));
    NEXUS_RETURN_IF_ERROR(ReadStringMap("headers", &config.headers));
    NEXUS_RETURN_IF_ERROR(
        ReadTimeout("connectTimeoutMs", &config.connect_timeout_ms));
    NEXUS_RETURN_IF_ERROR(
        ReadTimeout("callTimeoutMs", &config.call_timeout_ms));
    NEXUS_RETURN_IF_ERROR(CheckKind(type, config));
    return config;
  }

 private:
  Status Bad(std::string_view field, std::string_view reason) const {
    return InvalidArgumentError(context_ + ", field \"" + std::string(field) +
                                "\": " + std::string(reason));
  }

  Status CheckKind(const std::string& type,
                   const McpServerConfig& config) const {
    const bool is_http = type == "http" || type == "sse" ||
                         type == "streamable-http" || type == "streamableHttp";
    if (!type.empty() && type != "stdio" && !is_http) {
      return Bad("type", "expected stdio, http or sse, found \"" + type + "\"");
    }
    if (!config.command.empty() && !config.url.empty()) {
      return InvalidArgumentError(
          context_ + ": has both \"command\" and \"url\"; keep one of them");
    }
    if (is_http && config.url.empty()) {
      return InvalidArgumentError(context_ + ": type \"" + type +
                                  "\" needs \"url\"");
    }
    if (type == "stdio" && config.command.empty()) {
      return InvalidArgumentError(context_ +
                                  ": type \"stdio\" needs \"command\"");
    }
    if (config.command.empty() && config.url.empty()) {
      return InvalidArgumentError(
          context_ +
          ": needs \"command\" (a program to start) or \"url\" (streamable "
          "HTTP)");
    }
    return {};
  }

  Status ReadBool(const char* field, bool* value) const {
    const auto found = entry_.find(field);
    if (found == entry_.end() || found->is_null()) return {};
    if (!found->is_boolean()) {
      return Bad(field, std::string("expected true or false, found ") +
                            found->type_name());
    }
    *value = found->get<bool>();
    return {};
  }

  Status ReadTimeout(const char* field, int* value) const {
    constexpr int64_t kMaxTimeoutMs = int64_t{24} * 3600 * 1000;
    const auto found = entry_.find(field);
    if (found == entry_.end() || found->is_null()) return {};
    if (!found->is_number_integer() || found->get<int64_t>() <= 0 ||
        found->get<int64_t>() > kMaxTimeoutMs) {
      return Bad(field, "expected milliseconds between 1 and " +
                            std::to_string(kMaxTimeoutMs));
    }
    *value = found->get<int>();
    return {};
  }

  Status ReadString(const char* field, std::string* value) const {
    const auto found = entry_.find(field);
    if (found == entry_.end() || found->is_null()) return {};
    return ExpandInto(*found, field, value);
  }

  Status ReadArgs(std::vector<std::string>* args) const {
    const auto found = entry_.find("args");
    if (found == entry_.end() || found->is_null()) return {};
    if (!found->is_array()) {
      return Bad("args",
                 std::string("expected an array, found ") + found->type_name());
    }
    for (size_t i = 0; i < found->size(); ++i) {
      NEXUS_RETURN_IF_ERROR(ExpandInto((*found)[i],
                                       "args[" + std::to_string(i) + "]",
                                       &args->emplace_back()));
    }
    return {};
  }

  Status ReadStringMap(const char* field,
                       std::map<std::string, std::string>* map) const {
    const auto found = entry_.find(field);
    if (found == entry_.end() || found->is_null()) return {};
    if (!found->is_object()) {
      return Bad(field, std::string("expected an object, found ") +
                            found->type_name());
    }
    for (const auto& [key, value] : found->items()) {
      NEXUS_RETURN_IF_ERROR(
          ExpandInto(value, std::string(field) + "." + key, &(*map)[key]));
    }
    return {};
  }

  Status ExpandInto(const Json& value, const std::string& field,
                    std::string* out) const {
    if (!value.is_string()) {
      return Bad(field,
                 std::string("expected a string, found ") + value.type_name());
    }
    return Expand(value.get_ref<const std::string&>(), field, out);
  }

  // ${NAME} and ${NAME:-default}; editors write ${env:NAME}. Any other '$'
  // stands for itself.
  Status Expand(std::string_view text, const std::string& field,
                std::string* out) const {
    out->clear();
    while (true) {
      const size_t start = text.find("${");
      out->append(text.substr(0, start));
      if (start == std::string_view::npos) return {};
      text.remove_prefix(start + 2);
      const size_t end = text.find('}');
      if (end == std::string_view::npos) {
        return Bad(field, "\"${\" without \"}\"");
      }
      std::string_view body = text.substr(0, end);
      text.remove_prefix(end + 1);
      if (body.starts_with("env:")) body.remove_prefix(4);
      size_t name_size = 0;
      while (name_size < body.size() && IsNameByte(body[name_size])) {
        ++name_size;
      }
      const std::string name(body.substr(0, name_size));
      const std::string_view rest = body.substr(name_size);
      const bool has_default = rest.starts_with(":-");
      if (name.empty() || (!rest.empty() && !has_default)) {
        return Bad(field, "\"${" + std::string(body) +
                              "}\" isn't ${NAME} or ${NAME:-default}");
      }
      if (const std::optional<std::string> found = env_(name)) {
        out->append(*found);
      } else if (has_default) {
        out->append(rest.substr(2));
      } else {
        return Bad(field, "the environment variable " + name +
                              " isn't set; set it, or write ${" + name +
                              ":-default}");
      }
    }
  }

  const Json& entry_;
  std::string context_;
  const EnvLookup& env_;
};

}  // namespace

std::optional<std::string> ProcessEnv(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

Result<std::vector<McpServerConfig>> ParseMcpConfig(const Json& root,
                                                    std::string_view source,
                                                    const EnvLookup& env) {
  const std::string name(source);
  if (!root.is_object()) {
    return InvalidArgumentError(name + ": expected an object, found " +
                                root.type_name());
  }
  // Editors nest the list in their settings file: {"mcp": {"servers": ...}}.
  const Json* holder = &root;
  if (!root.contains("mcpServers") && !root.contains("servers") &&
      root.contains("mcp") && root["mcp"].is_object()) {
    holder = &root["mcp"];
  }
  auto servers = holder->find("mcpServers");
  if (servers == holder->end()) servers = holder->find("servers");
  if (servers == holder->end()) {
    return InvalidArgumentError(
        name +
        ": no \"mcpServers\" (nor \"servers\"); expected "
        "{\"mcpServers\": {\"NAME\": {\"command\": \"...\"}}}");
  }
  if (!servers->is_object()) {
    return InvalidArgumentError(name + ", \"" + servers.key() +
                                "\": expected an object, found " +
                                servers->type_name());
  }
  std::vector<McpServerConfig> configs;
  for (const auto& [server, entry] : servers->items()) {
    if (server.empty()) {
      return InvalidArgumentError(name + ": a server with an empty name");
    }
    const ServerReader reader(entry, name + ", server \"" + server + "\"", env);
    NEXUS_ASSIGN_OR_RETURN(auto config, reader.Read(server));
    configs.push_back(std::move(config));
  }
  return configs;
}

Result<std::vector<McpServerConfig>> ReadMcpConfigFile(
    const std::string& path) {
  NEXUS_ASSIGN_OR_RETURN(const std::string text,
                         FileSystem::Default().ReadFile(path));
  NEXUS_ASSIGN_OR_RETURN(const Json root, ParseJson(text, path));
  NEXUS_ASSIGN_OR_RETURN(auto configs, ParseMcpConfig(root, path));
  const auto folder = std::filesystem::path(path).parent_path();
  for (McpServerConfig& config : configs) {
    const std::filesystem::path cwd = config.cwd;
    if (!cwd.empty() && cwd.is_relative()) {
      config.cwd = (folder / cwd).string();
    }
  }
  return configs;
}

}  // namespace nexus::mcp
