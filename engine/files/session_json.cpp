#include "engine/files/session_json.h"

#include <fmt/format.h>

#include <cmath>
#include <concepts>
#include <limits>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "engine/error.h"

namespace flashscope::files {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "flashscope session";
constexpr int kVersion = 1;  // goes up when an older program could not read what is written

template <class T, class Struct>
concept either = std::same_as<std::remove_const_t<T>, Struct>;  // const to write, not const to read

// ---- the fields. A structured binding names all of a struct's: one that is missing here does not compile.

template <class Visit>
void fields(Visit& visit, either<Shape> auto& shape) {
  auto& [heads, kv_heads, Nq, Nk, d, dv, type] = shape;
  visit("heads", heads), visit("kv_heads", kv_heads), visit("nq", Nq), visit("nk", Nk), visit("d", d), visit("dv", dv);
  visit("type", type);
}

template <class Visit>
void fields(Visit& visit, either<Window> auto& window) {
  auto& [left, right] = window;
  visit("left", left), visit("right", right);
}

template <class Visit>
void fields(Visit& visit, either<Documents> auto& documents) {
  auto& [rows, keys, first, last] = documents;
  visit("rows", rows), visit("keys", keys);
  static_cast<void>(first), static_cast<void>(last);  // follow from them
}

template <class Visit>
void fields(Visit& visit, either<MaskRules> auto& rules) {
  auto& [lengths, documents, prefix, alibi, softcap] = rules;
  std::optional<Documents> ids;
  if (documents) ids = *documents;
  visit("lengths", lengths), visit("documents", ids), visit("prefix", prefix), visit("alibi", alibi);
  visit("softcap", softcap);
  if constexpr (!std::is_const_v<std::remove_reference_t<decltype(rules)>>)
    documents = ids ? std::make_shared<const Documents>(make_documents(ids->rows, ids->keys)) : nullptr;
}

// Keep and bias are arrays of the file.
template <class Visit>
void fields(Visit& visit, either<Mask> auto& mask) {
  auto& [causal, window, keep, bias, rules] = mask;
  visit("causal", causal), visit("window", window), visit("rules", rules);
  static_cast<void>(keep), static_cast<void>(bias);
}

template <class Visit>
void fields(Visit& visit, either<Numerics> auto& numerics) {
  auto& [scores, P, accumulators, scale, exponential, rescale_threshold] = numerics;
  visit("scores", scores), visit("p", P), visit("accumulators", accumulators), visit("scale", scale);
  visit("exponential", exponential), visit("rescale_threshold", rescale_threshold);
}

template <class Visit>
void fields(Visit& visit, either<Recipe> auto& recipe) {
  auto& [algorithm, Br, Bc, order, skip, guard, empty_row, normalise, numerators, mask_apply, numerics, defect,
         sentinel, sentinel_added, sram] = recipe;
  visit("algorithm", algorithm), visit("br", Br), visit("bc", Bc), visit("order", order), visit("skip", skip);
  visit("guard", guard), visit("empty_row", empty_row), visit("normalise", normalise);
  visit("numerators", numerators), visit("mask_apply", mask_apply), visit("numerics", numerics);
  visit("defect", defect);
  visit("sentinel", sentinel), visit("sentinel_added", sentinel_added), visit("sram", sram);
}

template <class Visit>
void fields(Visit& visit, either<Moved> auto& moved) {
  auto& [read, written] = moved;
  visit("read", read), visit("written", written);
}

template <class Visit>
void fields(Visit& visit, either<Traffic> auto& traffic) {
  auto& [by_operand] = traffic;
  for (std::size_t n = 0; n < by_operand.size(); ++n)
    visit(std::string(name(static_cast<Operand>(n))).c_str(), by_operand[n]);
}

template <class Visit>
void fields(Visit& visit, either<ElementsAndBytes> auto& both) {
  auto& [elements, bytes] = both;
  visit("elements", elements), visit("bytes", bytes);
}

template <class Visit>
void fields(Visit& visit, either<NanRows> auto& nan) {
  auto& [here, there, both] = nan;
  visit("here", here), visit("there", there), visit("both", both);
}

template <class Visit>
void fields(Visit& visit, either<ErrorReport> auto& error) {
  auto& [max, tolerance, rows_checked, rows, nan_mismatch, nan, worst_head, worst_row] = error;
  visit("max", max), visit("tolerance", tolerance), visit("rows_checked", rows_checked), visit("rows", rows);
  visit("nan_mismatch", nan_mismatch), visit("nan", nan), visit("worst_head", worst_head),
      visit("worst_row", worst_row);
}

template <class Visit>
void fields(Visit& visit, either<HardwareFigures> auto& figures) {
  auto& [l2_read, l2_written, dram_read, dram_written, l2_hit, occupancy, tensor, bank_conflicts, seconds, passes,
         dram_written_idle] = figures;
  visit("l2_read", l2_read), visit("l2_written", l2_written);
  visit("dram_read", dram_read), visit("dram_written", dram_written), visit("l2_hit_percent", l2_hit);
  visit("occupancy_percent", occupancy), visit("tensor_percent", tensor), visit("bank_conflicts", bank_conflicts);
  visit("seconds", seconds);
  visit("passes", passes), visit("dram_written_idle", dram_written_idle);
}

// Its spans are an array of the file.
template <class Visit>
void fields(Visit& visit, either<Timeline> auto& timeline) {
  auto& [spans, sms, lost, tick_ns] = timeline;
  static_cast<void>(spans);
  visit("sms", sms), visit("lost", lost), visit("tick_ns", tick_ns);
}

template <class Visit>
void fields(Visit& visit, either<GpuFigures> auto& gpu) {
  auto& [median, fastest, slowest, repeats, input_sets, l2_bytes, flops, architecture, registers, spill_stores,
         spill_loads, shared_bytes, threads, blocks, blocks_per_sm, sms, peak_run_bytes, peak_statistics_bytes,
         peak_tensor_bytes, counted, timeline, measured, measured_warm, not_measured] = gpu;
  visit("median", median), visit("fastest", fastest), visit("slowest", slowest);
  visit("repeats", repeats), visit("input_sets", input_sets), visit("flops", flops);
  visit("l2_bytes", l2_bytes);
  visit("architecture", architecture), visit("registers", registers);
  visit("spill_stores", spill_stores), visit("spill_loads", spill_loads);
  visit("shared_bytes", shared_bytes), visit("threads", threads), visit("blocks", blocks);
  visit("blocks_per_sm", blocks_per_sm), visit("sms", sms), visit("peak_run_bytes", peak_run_bytes);
  visit("peak_statistics_bytes", peak_statistics_bytes), visit("peak_tensor_bytes", peak_tensor_bytes);
  visit("counted", counted), visit("timeline", timeline), visit("measured", measured);
  visit("measured_warm", measured_warm), visit("not_measured", not_measured);
}

// O and LSE are arrays of the file.
template <class Visit>
void fields(Visit& visit, either<Report> auto& report) {
  auto& [device, kernel, shape, recipe, O, LSE, nan_rows, nan_row_count, error, sum, sum_abs, seconds, peak_bytes,
         tensor_bytes, traffic, gpu] = report;
  static_cast<void>(O), static_cast<void>(LSE);
  visit("device", device), visit("kernel", kernel), visit("shape", shape), visit("recipe", recipe);
  visit("nan_rows", nan_rows), visit("nan_row_count", nan_row_count), visit("error", error);
  visit("sum", sum), visit("sum_abs", sum_abs), visit("seconds", seconds), visit("peak_bytes", peak_bytes);
  visit("tensor_bytes", tensor_bytes), visit("traffic", traffic), visit("gpu", gpu);
}

template <class Visit>
void fields(Visit& visit, either<SavedReport> auto& saved) {
  auto& [report, date, version, conventions, problem, fingerprint] = saved;
  static_cast<void>(report), static_cast<void>(problem);
  visit("date", date), visit("version", version), visit("conventions", conventions);
  visit("problem", fingerprint);
}

template <class Visit>
void fields(Visit& visit, either<MeasuredPoint> auto& point) {
  auto& [shape, mask, recipe, kernel, date, gpu, failed] = point;
  visit("shape", shape), visit("mask", mask), visit("recipe", recipe), visit("kernel", kernel), visit("date", date);
  visit("gpu", gpu), visit("failed", failed);
}

template <class Visit>
void fields(Visit& visit, either<MeasuredOn> auto& on) {
  auto& [device, architecture, driver, compiler, sources, l2_bytes] = on;
  visit("device", device), visit("architecture", architecture), visit("driver", driver), visit("compiler", compiler);
  visit("sources", sources), visit("l2_bytes", l2_bytes);
}

template <class Visit>
void fields(Visit& visit, either<MeasuredSweep> auto& sweep) {
  auto& [on, date, version, seed, points] = sweep;
  visit("on", on), visit("date", date), visit("version", version), visit("seed", seed), visit("points", points);
}

// ---- words

Causal parse_causal(std::string_view text) {
  for (const Causal causal : {Causal::none, Causal::top_left, Causal::bottom_right})
    if (text == name(causal)) return causal;
  throw InputError("causal", fmt::format("\"{}\"", text), "none, top-left or bottom-right");
}
template <class Enum>
Enum parse_word(std::string_view text) {
  if constexpr (std::same_as<Enum, DType>)
    return parse_dtype(text);
  else if constexpr (std::same_as<Enum, Causal>)
    return parse_causal(text);
  else
    return parse<Enum>(text);
}

// ---- writing

struct Writer {
  Json object = Json::object();
  template <class T>
  void operator()(const char* key, const T& value) {
    object[key] = json_of(value);
  }
  template <class T>
  static Json json_of(const T& value) {
    if constexpr (std::is_enum_v<T>) {
      return name(value);
    } else if constexpr (std::floating_point<T>) {
      if (std::isnan(value)) return "nan";
      if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
      return value;  // the shortest text that reads back to the same number
    } else if constexpr (std::integral<T> || std::same_as<T, std::string>) {
      return value;
    } else {
      Writer inner;
      fields(inner, value);
      return std::move(inner.object);
    }
  }
  template <class T>
  static Json json_of(const std::optional<T>& value) {
    return value ? json_of(*value) : Json();
  }
  template <class T>
  static Json json_of(const std::vector<T>& values) {
    Json list = Json::array();
    for (const T& value : values) list.push_back(json_of(value));
    return list;
  }
};

// What a reader of the point may rely on.
void check(const MeasuredPoint& point, const std::string& where) {
  try {
    flashscope::check(point.shape);
    flashscope::check(point.recipe, point.shape);
    if (!point.mask.structural_only()) throw InputError("mask", "rules", "causal and window alone");
  } catch (const InputError& error) {
    throw InputError(where + ": " + error.where(), error.found(), error.expected());
  }
}

// ---- reading

std::string shown_json(const Json& json) {
  std::string text = json.dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() > 60 ? text.substr(0, 57) + "..." : text;
}

class Reader {
 public:
  Reader(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json_.is_object()) throw InputError(where_, shown_json(json_), "a JSON object");
  }
  template <class T>
  void operator()(const char* key, T& value) {
    read(at(key), where_ + "." + key, value);
  }
  // What may be missing in a value may be missing in a file of an older program.
  template <class T>
  void operator()(const char* key, std::optional<T>& value) {
    const auto found = json_.find(key);
    read(found == json_.end() ? Json() : *found, where_ + "." + key, value);
  }
  const Json& at(const char* key) const {
    const auto found = json_.find(key);
    if (found == json_.end()) throw InputError(where_, "no \"" + std::string(key) + "\"", "one");
    return *found;
  }

  static void read(const Json& json, const std::string& where, std::string& value) {
    if (!json.is_string()) throw InputError(where, shown_json(json), "a text");
    value = json.get<std::string>();
  }
  static void read(const Json& json, const std::string& where, bool& value) {
    if (!json.is_boolean()) throw InputError(where, shown_json(json), "true or false");
    value = json.get<bool>();
  }
  template <std::integral T>
  static void read(const Json& json, const std::string& where, T& value) {
    constexpr auto low = std::numeric_limits<T>::min(), high = std::numeric_limits<T>::max();
    const bool fits = json.is_number_integer() && (!json.is_number_unsigned() || json.get<std::uint64_t>() <= high) &&
                      (json.is_number_unsigned() || json.get<std::int64_t>() >= low);
    if (!fits) throw InputError(where, shown_json(json), fmt::format("a whole number from {} to {}", low, high));
    value = json.get<T>();
  }
  static void read(const Json& json, const std::string& where, double& value) {
    if (json == "nan")
      value = std::numeric_limits<double>::quiet_NaN();
    else if (json == "inf" || json == "-inf")
      value = json == "inf" ? HUGE_VAL : -HUGE_VAL;
    else if (json.is_number())
      value = json.get<double>();
    else
      throw InputError(where, shown_json(json), "a number, \"nan\", \"inf\" or \"-inf\"");
  }
  template <class T>
  requires std::is_enum_v<T>
  static void read(const Json& json, const std::string& where, T& value) {
    std::string word;
    read(json, where, word);
    try {
      value = parse_word<T>(word);
    } catch (const InputError& error) {
      throw InputError(where, error.found(), error.expected());
    }
  }
  template <class T>
  static void read(const Json& json, const std::string& where, std::optional<T>& value) {
    value.reset();
    if (!json.is_null()) read(json, where, value.emplace());
  }
  template <class T>
  static void read(const Json& json, const std::string& where, std::vector<T>& values) {
    if (!json.is_array()) throw InputError(where, shown_json(json), "a list");
    values.clear();
    for (const Json& item : json) read(item, fmt::format("{}[{}]", where, values.size()), values.emplace_back());
  }
  template <class T>
  requires std::is_class_v<T>
  static void read(const Json& json, const std::string& where, T& value) {
    Reader inner(json, where);
    fields(inner, value);
  }

 private:
  const Json& json_;
  std::string where_;
};

}  // namespace

Json session_to_json(const SessionFile& session) {
  Json json = {{"format", kFormat}, {"version", kVersion}};
  Json& problem = json["problem"];
  if (session.problem) {
    problem = {{"name", session.problem->name},
               {"scale", session.problem->scale},
               {"mask", Writer::json_of(session.problem->mask)}};
  }
  json["recipe"] = Writer::json_of(session.recipe);
  Json window = Json::object();
  if (!session.window.empty()) {
    window = Json::parse(session.window, nullptr, false);
    if (!window.is_object()) throw InputError("session: window", shown_json(session.window), "a JSON object");
  }
  json["view"] = {{"head", session.head}, {"step", session.K}, {"window", std::move(window)}};
  Json& reports = json["reports"] = Json::array();
  for (const SavedReport& saved : session.reports) {
    Json report = Writer::json_of(saved);
    report.update(Writer::json_of(*saved.report));
    reports.push_back(std::move(report));
  }
  if (!session.sweeps.empty()) json["sweeps"] = Writer::json_of(session.sweeps);
  return json;
}

SessionFacts session_from_json(const Json& json, const std::string& where) {
  const Reader top(json, where);
  std::string format;
  Reader::read(top.at("format"), where + ": format", format);
  if (format != kFormat) throw InputError(where + ": format", "\"" + format + "\"", fmt::format("\"{}\"", kFormat));
  int version = 0;
  Reader::read(top.at("version"), where + ": version", version);
  if (version < 1 || version > kVersion)
    throw InputError(where + ": version", std::to_string(version),
                     fmt::format("1 to {}: a newer flashscope wrote it", kVersion));
  SessionFacts facts;
  if (const Json& problem = top.at("problem"); !problem.is_null()) {
    Reader reader(problem, where + ": problem");
    facts.problem.present = true;
    reader("name", facts.problem.name), reader("scale", facts.problem.scale), reader("mask", facts.problem.mask);
  }
  Reader::read(top.at("recipe"), where + ": recipe", facts.recipe);
  Reader view(top.at("view"), where + ": view");
  view("head", facts.head), view("step", facts.K);
  const Json& window = view.at("window");
  if (!window.is_object()) throw InputError(where + ": view.window", shown_json(window), "a JSON object");
  if (!window.empty()) facts.window = window.dump();
  Reader::read(top.at("reports"), where + ": reports", facts.reports);
  Reader::read(top.at("reports"), where + ": reports", facts.saved);
  if (const auto sweeps = json.find("sweeps"); sweeps != json.end()) {
    Reader::read(*sweeps, where + ": sweeps", facts.sweeps);
    for (std::size_t n = 0; n < facts.sweeps.size(); ++n)
      for (std::size_t p = 0; p < facts.sweeps[n].points.size(); ++p)
        check(facts.sweeps[n].points[p], fmt::format("{}: sweeps[{}].points[{}]", where, n, p));
  }
  return facts;
}

Json point_to_json(const MeasuredPoint& point) { return Writer::json_of(point); }

MeasuredPoint point_from_json(const Json& json, const std::string& where) {
  MeasuredPoint point;
  Reader::read(json, where, point);
  check(point, where);
  return point;
}

}  // namespace flashscope::files
