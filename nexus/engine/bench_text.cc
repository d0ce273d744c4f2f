#include "nexus/engine/bench_text.h"

#include <array>
#include <string_view>

namespace nexus::engine {
namespace {

constexpr std::array<std::string_view, 9> kParagraphs = {
    "The harbour office keeps two calendars. One is for the tides, printed a "
    "year ahead and rarely wrong; the other is for the boats, pencilled in "
    "each "
    "morning and rubbed out by noon. Visitors ask why nobody puts them in one "
    "book. The clerk answers that the sea keeps its appointments and people do "
    "not, and that a book which mixes the two would be believed in neither.",
    "When the mill was converted, the engineers left the old line shaft in "
    "place. It turns nothing now, but it shows how the power once ran the "
    "length "
    "of the building, with a belt dropped to each machine. A loom that stood "
    "far "
    "from the wheel lost a little speed to every bearing on the way, so the "
    "finest cloth was woven near the wall where the water came in.",
    "A bread that rises overnight needs less yeast than one that rises in an "
    "hour, and tastes of more. The difference is time at a low temperature: "
    "the "
    "yeast slows down before the enzymes do, so the flour keeps sweetening "
    "while "
    "the dough hardly moves. Bakers who start at four in the morning shaped "
    "their loaves the evening before.",
    "The survey of the northern marsh took three summers. In the first the "
    "team "
    "counted birds from a boat and found few. In the second they counted from "
    "the bank, at dawn, and found twice as many. In the third they left small "
    "recorders among the reeds and listened in winter, and the list grew by "
    "eleven species that nobody had seen at all.",
    "Old maps of the valley disagree about the bridge. One shows it above the "
    "ford, one below, and a third shows two bridges and no ford. The parish "
    "accounts settle the matter: the bridge was carried off by floods and "
    "rebuilt four times in ninety years, each time a little further down, "
    "until "
    "somebody thought of building it in stone.",
    "A telescope mirror is ground by rubbing two discs of glass together with "
    "wet grit between them. By itself this makes one disc hollow and the other "
    "round, and nothing else is needed to get a sphere. The last step, from "
    "the "
    "sphere to the parabola, removes less glass than would cover a fingernail, "
    "and takes longer than all the rest.",
    "The night train stops at a station with no town. It was built for a mine "
    "that closed before the line was opened, and the timetable has kept it "
    "ever "
    "since, for the two minutes in which a goods train passes. Now and then "
    "someone gets off, looks at the platform and the trees behind it, and gets "
    "on again.",
    "In the archive each box has a number, a shelf and a smell. The numbers "
    "follow the order in which the boxes arrived, the shelves follow their "
    "size, and only the archivist knows the smells: damp paper from the "
    "flooded "
    "cellar, pipe tobacco from the notary's estate, and the sharp vinegar of "
    "film that must be copied before the summer.",
    "Swifts sleep on the wing. A young one that leaves the nest may not land "
    "for two years, and when it does it is on the wall from which it first "
    "dropped. Ringing has shown birds of twenty years and more, which makes "
    "the "
    "distance flown by one small body greater than that to the moon and back, "
    "several times over.",
};

int CountWords(std::string_view text) {
  int words = 1;
  for (const char c : text) words += c == ' ' ? 1 : 0;
  return words;
}

}  // namespace

std::string BenchProse(int min_words) {
  std::string text;
  int words = 0;
  for (size_t i = 0; words < min_words; ++i) {
    const std::string_view paragraph = kParagraphs[i % kParagraphs.size()];
    text += "Note " + std::to_string(i + 1) + ". ";
    text += paragraph;
    text += "\n\n";
    words += CountWords(paragraph) + 2;
  }
  return text;
}

std::string BenchQuestion(int min_words) {
  std::string text =
      "Please do this for the harbour office in the old town, with the values "
      "that they use every week, and mind that the second one is in metric "
      "units while the first is only a name that they gave it years ago";
  while (CountWords(text) < min_words) {
    text += ", and keep whatever I did not mention as it is by default";
  }
  return text;
}

}  // namespace nexus::engine
