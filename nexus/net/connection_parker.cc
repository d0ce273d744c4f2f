#include "nexus/net/connection_parker.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "nexus/base/check.h"

namespace nexus::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// A socket with a half-sent request stays readable, so poll can't say when more
// comes: it is looked at again after this.
constexpr milliseconds kLookAgain{10};

constexpr std::string_view kHeaderEnd = "\r\n\r\n";

}  // namespace

ConnectionParker::ConnectionParker(ParkerOptions options)
    : options_(std::move(options)) {
  int ends[2] = {-1, -1};
  NEXUS_CHECK(::pipe(ends) == 0);
  wake_read_.Reset(ends[0]);
  wake_write_.Reset(ends[1]);
  for (const int end : ends) {
    NEXUS_CHECK(::fcntl(end, F_SETFL, O_NONBLOCK) == 0);
    NEXUS_CHECK(::fcntl(end, F_SETFD, FD_CLOEXEC) == 0);
  }
  peeked_.resize(options_.max_header_bytes + 1);
  thread_ = std::thread([this] { Run(); });
}

ConnectionParker::~ConnectionParker() {
  {
    MutexLock lock(mutex_);
    closing_ = true;
    ending_ = true;
  }
  Wake();
  thread_.join();
}

void ConnectionParker::Wake() {
  // A full pipe wakes as well as one more byte would.
  [[maybe_unused]] const ssize_t ignored = ::write(wake_write_.get(), "w", 1);
}

void ConnectionParker::Add(std::unique_ptr<Connection> connection) {
  {
    MutexLock lock(mutex_);
    if (closing_) return;
    incoming_.push_back(std::move(connection));
  }
  Wake();
}

void ConnectionParker::Close() {
  {
    MutexLock lock(mutex_);
    closing_ = true;
  }
  Wake();
}

size_t ConnectionParker::size() const {
  MutexLock lock(mutex_);
  return parked_count_ + incoming_.size();
}

ConnectionParker::Look ConnectionParker::LookAt(Parked& parked, TimePoint now) {
  const ssize_t count = ::recv(parked.connection->fd.get(), peeked_.data(),
                               peeked_.size(), MSG_PEEK | MSG_DONTWAIT);
  if (count == 0) return Look::kClosed;
  if (count < 0) {
    const bool nothing_yet =
        errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    if (!nothing_yet) return Look::kClosed;
  } else {
    if (!parked.has_begun) {
      parked.has_begun = true;
      parked.deadline = now + options_.header_timeout;
    }
    const std::string_view bytes(peeked_.data(), static_cast<size_t>(count));
    if (bytes.find(kHeaderEnd) != std::string_view::npos) return Look::kReady;
    if (bytes.size() > options_.max_header_bytes) return Look::kTooLarge;
  }
  return now >= parked.deadline ? Look::kClosed : Look::kWait;
}

void ConnectionParker::TakeIncoming(std::vector<Parked>* parked) {
  MutexLock lock(mutex_);
  if (closing_) {
    parked->clear();
    incoming_.clear();
  }
  const TimePoint now = steady_clock::now();
  for (auto& connection : incoming_) {
    parked->push_back({.connection = std::move(connection),
                       .deadline = now + options_.idle_timeout});
  }
  incoming_.clear();
  parked_count_ = parked->size();
}

void ConnectionParker::Run() {
  std::vector<Parked> parked;
  std::vector<pollfd> polled;
  while (true) {
    TakeIncoming(&parked);
    {
      MutexLock lock(mutex_);
      if (ending_) return;
    }
    TimePoint now = steady_clock::now();
    auto timeout =
        std::chrono::duration_cast<milliseconds>(options_.idle_timeout);
    polled.clear();
    polled.push_back({.fd = wake_read_.get(), .events = POLLIN, .revents = 0});
    for (const Parked& one : parked) {
      // A negative descriptor is passed over by poll.
      const int fd = one.connection->fd.get();
      polled.push_back(
          {.fd = one.has_begun ? ~fd : fd, .events = POLLIN, .revents = 0});
      timeout = std::min(
          timeout, one.has_begun
                       ? kLookAgain
                       : std::chrono::ceil<milliseconds>(one.deadline - now));
    }
    ::poll(polled.data(), static_cast<nfds_t>(polled.size()),
           static_cast<int>(std::max<int64_t>(0, timeout.count())));
    if (polled[0].revents != 0) {
      char drained[64];
      while (::read(wake_read_.get(), drained, sizeof drained) > 0) {
      }
    }
    now = steady_clock::now();
    std::vector<Parked> rest;
    rest.reserve(parked.size());
    for (size_t i = 0; i < parked.size(); ++i) {
      Parked& one = parked[i];
      Look look = Look::kWait;
      if (one.has_begun || polled[i + 1].revents != 0) {
        look = LookAt(one, now);
      } else if (now >= one.deadline) {
        look = Look::kClosed;
      }
      if (look == Look::kWait) {
        rest.push_back(std::move(one));
      } else if (look != Look::kClosed) {
        options_.on_ready(std::move(one.connection), look == Look::kTooLarge);
      }
    }
    parked = std::move(rest);
  }
}

}  // namespace nexus::net
