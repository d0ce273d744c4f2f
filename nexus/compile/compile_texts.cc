// The texts of the compile contexts: original, written for this purpose. Data,
// not code: changing a letter changes every recipe's name, so blocks are
// compiled again.
#include <array>

#include "nexus/compile/compile_contexts.h"

namespace nexus::compile {
namespace {

constexpr std::string_view kManual =
    R"(Please summarise this page of our manual.

# Backing up the station

The weather station writes one record a minute to its internal card. A record holds the time, the temperature of the air and of the ground, the humidity, the wind's speed and direction, and the state of the battery. The card has room for about fourteen months. When it is full the oldest day is given up first, so nothing has to be cleaned by hand.

A backup should be made every quarter. Connect the service cable, hold the green button for three seconds and wait until the display shows the letter B. From then on the station appears as a drive on your computer. Copy the folder "days" as a whole; single files are only valid together with the index that lies beside them. Do not rename anything: the station recognises its own folders when they are copied back, and refuses folders that were changed.

If the copy is interrupted, start again from the beginning. The station keeps measuring while it is connected, into memory, and writes the minutes that it has collected as soon as the cable is removed. Up to six hours are safe in this way. Longer than that, the display shows a small hourglass, and minutes are lost one by one.

Restoring works the other way round. Erase the card with the menu entry of the same name, copy the folder back, and remove the cable. The station reads the index, checks each day against its sum and reports how many days it accepted. A day that fails the check is kept on the card under another name, so that it can be examined, but it does not appear in the charts.

Two remarks on batteries. First, a restored card makes the station read for several minutes without sleeping, which costs about as much as two days of normal work; change a weak battery before and not after. Second, the clock is kept by a cell of its own that lasts about eight years. If the date jumps to the first of January after a battery change, that cell is due.)";

constexpr std::string_view kTools =
    R"(These are the tools of my other agent. Remember them, I will ask about them later.

{"type": "function", "function": {"name": "list_orders", "description": "Lists the orders of a customer, newest first.", "parameters": {"type": "object", "properties": {"customer_id": {"type": "string", "description": "Number of the customer as printed on the invoice."}, "since": {"type": "string", "format": "date", "description": "Only orders from this day on."}, "limit": {"type": "integer", "minimum": 1, "maximum": 200, "default": 20}}, "required": ["customer_id"]}}}
{"type": "function", "function": {"name": "cancel_order", "description": "Cancels an order that has not left the warehouse yet. The customer is told by mail.", "parameters": {"type": "object", "properties": {"order_id": {"type": "string"}, "reason": {"type": "string", "enum": ["changed_mind", "too_late", "wrong_item", "other"]}, "note": {"type": "string", "description": "Shown to the customer."}}, "required": ["order_id", "reason"]}}}
{"type": "function", "function": {"name": "resize_image", "description": "Scales a picture so that it fits into a box, keeping its proportions.", "parameters": {"type": "object", "properties": {"path": {"type": "string"}, "width": {"type": "integer"}, "height": {"type": "integer"}, "format": {"type": "string", "enum": ["png", "jpeg", "webp"]}, "quality": {"type": "number", "minimum": 0, "maximum": 1}}, "required": ["path", "width", "height"]}}}
{"type": "function", "function": {"name": "book_room", "description": "Reserves a meeting room. Fails when the room is taken, and then names rooms that are free.", "parameters": {"type": "object", "properties": {"room": {"type": "string"}, "start": {"type": "string", "format": "date-time"}, "minutes": {"type": "integer", "enum": [15, 30, 45, 60, 90, 120]}, "attendees": {"type": "array", "items": {"type": "string"}, "description": "Addresses of the people to invite."}, "needs": {"type": "object", "properties": {"projector": {"type": "boolean"}, "phone": {"type": "boolean"}}}}, "required": ["room", "start", "minutes"]}}})";

constexpr std::string_view kSource =
    R"(Review this file for me, I wrote it yesterday evening.

```cpp
// A ring of fixed size for samples of a sensor. One thread writes, one reads.
#include <array>
#include <atomic>
#include <cstddef>
#include <optional>

namespace garden {

struct Sample {
  long long time_ms = 0;
  float moisture = 0.0f;
  float light = 0.0f;
};

template <std::size_t kSize>
class SampleRing {
  static_assert((kSize & (kSize - 1)) == 0, "a power of two");

 public:
  // False when the ring is full: the sample is dropped, and counted.
  bool Push(const Sample& sample) {
    const std::size_t head = head_.load(std::memory_order_relaxed);
    const std::size_t next = (head + 1) & (kSize - 1);
    if (next == tail_.load(std::memory_order_acquire)) {
      dropped_.fetch_add(1, std::memory_order_relaxed);
      return false;
    }
    samples_[head] = sample;
    head_.store(next, std::memory_order_release);
    return true;
  }

  std::optional<Sample> Pop() {
    const std::size_t tail = tail_.load(std::memory_order_relaxed);
    if (tail == head_.load(std::memory_order_acquire)) return std::nullopt;
    Sample sample = samples_[tail];
    tail_.store((tail + 1) & (kSize - 1), std::memory_order_release);
    return sample;
  }

  std::size_t Dropped() const { return dropped_.load(); }

 private:
  std::array<Sample, kSize> samples_;
  // On lines of their own, so that reader and writer do not slow each other.
  alignas(64) std::atomic<std::size_t> head_{0};
  alignas(64) std::atomic<std::size_t> tail_{0};
  alignas(64) std::atomic<std::size_t> dropped_{0};
};

// Mean over the last minute, updated sample by sample.
class MinuteMean {
 public:
  void Add(const Sample& sample) {
    while (count_ > 0 && sample.time_ms - window_[first_].time_ms > 60'000) {
      sum_ -= window_[first_].moisture;
      first_ = (first_ + 1) % window_.size();
      --count_;
    }
    if (count_ == window_.size()) {
      sum_ -= window_[first_].moisture;
      first_ = (first_ + 1) % window_.size();
      --count_;
    }
    window_[(first_ + count_) % window_.size()] = sample;
    sum_ += sample.moisture;
    ++count_;
  }

  double Value() const { return count_ == 0 ? 0.0 : sum_ / count_; }

 private:
  std::array<Sample, 256> window_;
  std::size_t first_ = 0;
  std::size_t count_ = 0;
  double sum_ = 0.0;
};

// Opens the valve when the soil is dry, and not again before it had time to soak.
class Waterer {
 public:
  struct Limits {
    double dry = 0.25;
    double wet = 0.40;
    long long pause_ms = 15 * 60'000;
    long long longest_ms = 5 * 60'000;
  };

  explicit Waterer(Limits limits) : limits_(limits) {}

  bool ShouldOpen(double moisture, long long now_ms) {
    if (open_since_ms_) {
      const bool too_long = now_ms - *open_since_ms_ > limits_.longest_ms;
      if (moisture >= limits_.wet || too_long) {
        open_since_ms_.reset();
        closed_at_ms_ = now_ms;
      }
    } else if (moisture < limits_.dry &&
               now_ms - closed_at_ms_ > limits_.pause_ms) {
      open_since_ms_ = now_ms;
    }
    return open_since_ms_.has_value();
  }

 private:
  Limits limits_;
  std::optional<long long> open_since_ms_;
  long long closed_at_ms_ = -1'000'000'000;
};

}  // namespace garden
```)";

constexpr std::string_view kGreeting = "Hi! Are you there?";

constexpr std::string_view kLog = R"(What went wrong here?
{"t":"2025-03-04T08:11:02.114Z","level":"info","svc":"gate","msg":"request","id":"a91f","path":"/v2/cart","ms":12}
{"t":"2025-03-04T08:11:02.160Z","level":"info","svc":"gate","msg":"request","id":"a920","path":"/v2/cart/items","ms":9}
{"t":"2025-03-04T08:11:02.871Z","level":"warn","svc":"stock","msg":"slow query","table":"shelf","rows":18211,"ms":640}
{"t":"2025-03-04T08:11:03.002Z","level":"info","svc":"gate","msg":"request","id":"a921","path":"/v2/search?q=lamp","ms":71}
{"t":"2025-03-04T08:11:03.425Z","level":"error","svc":"stock","msg":"pool exhausted","size":16,"waiting":41}
{"t":"2025-03-04T08:11:03.426Z","level":"error","svc":"gate","msg":"upstream","id":"a922","path":"/v2/checkout","status":503,"ms":2001}
{"t":"2025-03-04T08:11:03.430Z","level":"error","svc":"gate","msg":"upstream","id":"a923","path":"/v2/checkout","status":503,"ms":2000}
{"t":"2025-03-04T08:11:04.118Z","level":"info","svc":"stock","msg":"vacuum finished","table":"shelf","ms":9120}
{"t":"2025-03-04T08:11:04.377Z","level":"info","svc":"gate","msg":"request","id":"a924","path":"/v2/checkout","ms":44})";

constexpr std::string_view kShell = R"($ df -h /srv
Filesystem      Size  Used Avail Use% Mounted on
/dev/vdb1        98G   93G  312M 100% /srv
$ du -sh /srv/* | sort -h | tail -4
1.2G    /srv/www
6.8G    /srv/mail
17G     /srv/backup
67G     /srv/build
$ ls -lt /srv/build | head -5
total 70254112
drwxr-xr-x 9 ci ci       4096 Feb 11 09:40 nightly-0211
drwxr-xr-x 9 ci ci       4096 Feb 10 09:41 nightly-0210
drwxr-xr-x 9 ci ci       4096 Feb  9 09:38 nightly-0209
-rw-r--r-- 1 ci ci 2147483648 Jan 30 22:02 core.1881
$ rm /srv/build/core.1881 && df -h /srv | tail -1
/dev/vdb1        98G   91G  2.4G  98% /srv
How do I keep only the last three nightly folders?)";

constexpr std::string_view kKorean =
    R"(어제 저녁에 동네 도서관에서 열린 작은 모임에 다녀왔습니다. 책을 좋아하는 사람 여덟 명이 모여서 요즘 읽고 있는 책을 한 권씩 소개했는데, 저는 오래된 지도에 관한 책을 골랐습니다. 지도는 땅을 그대로 옮긴 그림이 아니라, 그린 사람이 무엇을 중요하게 보았는지를 보여 주는 글이라는 말이 기억에 남습니다. 다음 모임은 삼 주 뒤 토요일 오후 두 시에 열리고, 각자 여행에서 가져온 물건을 하나씩 보여 주기로 했습니다. 이 글을 두 문장으로 줄여 주세요.)";

constexpr std::string_view kSpanish =
    R"(Mi abuela guardaba las recetas en una caja de lata, escritas en el reverso de calendarios viejos. La del pan de nueces decía solamente: harina la que pida, agua tibia, un puñado de nueces y paciencia. Durante años intenté hacerlo con balanza y termómetro y nunca salía igual. Este invierno seguí la receta al pie de la letra, es decir, sin medir nada, y por primera vez la cocina olió como la suya. ¿Puedes convertir esta historia en un título y una frase?)";

constexpr std::string_view kTable = R"(Which line had the best month?

| line | stops | riders May | riders June | on time | cost per km |
|------|------:|-----------:|------------:|--------:|------------:|
| 1    |    24 |     81,204 |      83,950 |  93.1 % |        4.12 |
| 2    |    31 |     64,877 |      61,020 |  88.4 % |        4.55 |
| 3    |    18 |     22,310 |      25,744 |  96.7 % |        3.98 |
| 4    |    40 |    102,566 |     104,113 |  85.0 % |        5.20 |
| 5    |    12 |      9,871 |       9,402 |  98.2 % |        3.71 |
| 7    |    27 |     47,035 |      52,618 |  91.9 % |        4.33 |
| N1   |    22 |      5,120 |       6,048 |  97.5 % |        6.05 |
| N2   |    19 |      3,964 |       3,877 |  96.1 % |        6.41 |)";

constexpr std::string_view kDialogue =
    R"(Here is how the interview went, tell me what you think.

Mara: So you kept bees on the roof of a school?
Jon: Eleven years. It began with two boxes that nobody wanted.
Mara: And the parents did not mind?
Jon: They minded a great deal, until the first honey. After that they minded when there was none.
Mara: What did the children learn?
Jon: To stand still. It sounds like little. Try it with thirty of them in May.
Mara: Was anybody ever stung?
Jon: I was, weekly. Among the children, four in eleven years, and three of those had poked a frame.
Mara: Why did you stop?
Jon: I didn't. The school got a new roof, the bees got a new school. They are across the street now, on top of the fire station, and the firemen have become unbearable about it.)";

constexpr std::array<CompileText, 10> kTexts = {{
    {"greeting", kGreeting, "Yes, how can I help you?"},
    {"dialogue", kDialogue, "Jon is funny because he never tries to be."},
    {"shell", kShell,
     "ls -dt /srv/build/nightly-* | tail -n +4 | xargs -r rm -r"},
    {"json-log", kLog,
     "A vacuum of the table shelf slowed the queries until the pool of sixteen "
     "connections ran dry."},
    {"korean", kKorean,
     "도서관 모임에서 오래된 지도에 관한 책을 소개했습니다. 다음 모임에는 여행 "
     "기념품을 가져옵니다."},
    {"table", kTable,
     "Line 7 grew most among the large ones; line 3 relative to its size."},
    {"spanish", kSpanish,
     "El pan sin balanza: la receta de mi abuela solo pedía paciencia."},
    {"tools", kTools,
     "Noted: list_orders, cancel_order, resize_image, book_room."},
    {"manual", kManual,
     "The page explains how to back up and restore the station's card, and "
     "when to change its batteries."},
    {"cpp-source", kSource,
     "The ring is sound for one writer and one reader. MinuteMean drifts: "
     "recompute the sum now and then."},
}};

}  // namespace

std::span<const CompileText> CompileTexts() { return kTexts; }

}  // namespace nexus::compile
