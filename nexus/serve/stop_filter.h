// StopFilter: sampled text on its way out. Keeps back what may become a stop
// string, and bytes that aren't a whole character yet.
#ifndef NEXUS_SERVE_STOP_FILTER_H_
#define NEXUS_SERVE_STOP_FILTER_H_

#include <string>
#include <string_view>
#include <vector>

namespace nexus::serve {

// Thread-compatible.
class StopFilter {
 public:
  // None of them empty.
  explicit StopFilter(std::vector<std::string> stops)
      : stops_(std::move(stops)) {}

  // What may go out now.
  std::string Feed(std::string_view piece);
  // A stop string came; neither it nor anything behind it goes out.
  bool stopped() const { return stopped_; }
  // What was kept back, when nothing more comes.
  std::string Flush();

 private:
  const std::vector<std::string> stops_;
  std::string pending_;
  bool stopped_ = false;
};

}  // namespace nexus::serve

#endif  // NEXUS_SERVE_STOP_FILTER_H_
