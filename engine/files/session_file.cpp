#include "engine/files/session_file.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "engine/attention/fingerprint.h"
#include "engine/error.h"
#include "engine/files/formats.h"
#include "engine/files/loading.h"
#include "engine/files/session_json.h"
#include "engine/files/zip_writer.h"

namespace flashscope {
namespace {

using files::SessionFacts;
using Json = nlohmann::ordered_json;

constexpr const char* kManifest = "session.json";
constexpr std::int64_t kMaxManifest = std::int64_t{64} << 20;  // bytes
constexpr int kMaxDepth = 64;                                  // of it: who reads or shows it goes down by recursion
constexpr std::int64_t kChunk = 1 << 16;                       // elements between two looks at the stop token

constexpr int kSpan = 7;  // numbers of a span of a timeline

std::string report_array(std::size_t n, const char* what) { return fmt::format("report{}_{}", n, what); }

// ---- writing

ElementType element_type(DType type) {
  switch (type) {
    case DType::float64:
      return ElementType::float64;
    case DType::float32:
      return ElementType::float32;
    case DType::float16:
      return ElementType::float16;
    case DType::bfloat16:
      return ElementType::bfloat16;
  }
  return ElementType::float64;
}

// Arrays of one session, each converted to its type in pieces.
class ArrayWriter {
 public:
  ArrayWriter(files::ZipWriter& zip, std::int64_t total, const std::stop_token& stop, const ReadProgress& progress)
      : zip_(zip), total_(total), stop_(stop), progress_(progress) {}

  // convert(value) is the element as it is stored.
  template <class T, class Convert>
  void write(const std::string& name, ElementType type, const std::vector<std::int64_t>& shape, const T* values,
             std::int64_t count, bool deflate, const Convert& convert) {
    using Stored = std::invoke_result_t<Convert, T>;
    const std::string header = files::npy_header(type, shape);
    zip_.begin(name + ".npy", count * static_cast<std::int64_t>(sizeof(Stored)), deflate);
    zip_.write(header.data(), header.size());
    std::vector<Stored> part(static_cast<std::size_t>(std::min(kChunk, count)));
    for (std::int64_t done = 0; done < count; done += kChunk) {
      if (stop_.stop_requested()) throw Cancelled();
      const std::int64_t n = std::min(kChunk, count - done);
      std::transform(values + done, values + done + n, part.begin(), convert);
      zip_.write(part.data(), static_cast<std::size_t>(n) * sizeof(Stored));
      done_ += n * static_cast<std::int64_t>(sizeof(Stored));
      if (progress_) progress_(std::min(done_, total_), total_);
    }
    zip_.end();
  }

  void write(const std::string& name, const Tensor& tensor, const std::vector<std::int64_t>& shape) {
    const auto same = [](auto value) { return value; };
    const ElementType type = element_type(tensor.type);
    const std::int64_t n = tensor.size();
    switch (tensor.type) {
      case DType::float64:
        return write(name, type, shape, tensor.f64.data(), n, false, same);
      case DType::float32:
        return write(name, type, shape, tensor.f32.data(), n, false, same);
      case DType::float16:
        return write(name, type, shape, tensor.f32.data(), n, false, float_to_half);
      case DType::bfloat16:
        return write(name, type, shape, tensor.f32.data(), n, false, float_to_bfloat16);
    }
  }

  // O or LSE of a run: float32 where that holds every value exactly.
  void write(const std::string& name, const Buffer<double>& values, const std::vector<std::int64_t>& shape) {
    const auto n = static_cast<std::int64_t>(values.size());
    const bool single = std::all_of(values.begin(), values.end(), [](double value) {
      return static_cast<double>(static_cast<float>(value)) == value || std::isnan(value);
    });
    if (single)
      write(name, ElementType::float32, shape, values.data(), n, false,
            [](double value) { return static_cast<float>(value); });
    else
      write(name, ElementType::float64, shape, values.data(), n, false, [](double value) { return value; });
  }

  void write(const KeepMask& keep) {
    std::vector<std::uint8_t> row(static_cast<std::size_t>(keep.cols));
    const std::string header = files::npy_header(ElementType::boolean, std::vector{keep.heads, keep.rows, keep.cols});
    zip_.begin("mask.npy", keep.heads * keep.rows * keep.cols, true);
    zip_.write(header.data(), header.size());
    for (std::int64_t h = 0; h < keep.heads; ++h)
      for (std::int64_t r = 0; r < keep.rows; ++r) {
        if (stop_.stop_requested()) throw Cancelled();
        for (std::int64_t c = 0; c < keep.cols; ++c) row[static_cast<std::size_t>(c)] = keep.keep(h, r, c) ? 1 : 0;
        zip_.write(row.data(), row.size());
      }
    zip_.end();
  }

  // In the file's element type, which the traffic is counted in.
  void write(const Bias& bias) {
    const std::vector<std::int64_t> shape{bias.heads, bias.rows, bias.cols};
    const std::int64_t n = bias.heads * bias.rows * bias.cols;
    const auto same = [](auto value) { return value; };
    if (!bias.f64.empty()) return write("bias", ElementType::float64, shape, bias.f64.data(), n, true, same);
    const auto holds = [&](auto to, auto from) {
      return bias.element_bytes == 2 && std::all_of(bias.f32.begin(), bias.f32.end(), [&](float value) {
               return std::isnan(value) || from(to(value)) == value;
             });
    };
    if (holds(float_to_half, half_to_float))
      write("bias", ElementType::float16, shape, bias.f32.data(), n, true, float_to_half);
    else if (holds(float_to_bfloat16, bfloat16_to_float))
      write("bias", ElementType::bfloat16, shape, bias.f32.data(), n, true, float_to_bfloat16);
    else
      write("bias", ElementType::float32, shape, bias.f32.data(), n, true, same);
  }

  void write(const std::string& name, const std::vector<Timeline::Span>& spans) {
    std::vector<std::int64_t> values;
    values.reserve(spans.size() * kSpan);
    for (const auto& [sm, block, head, i, j, start_ns, end_ns] : spans)
      values.insert(values.end(), {sm, block, head, i, j, start_ns, end_ns});
    write(name, ElementType::int64, {static_cast<std::int64_t>(spans.size()), kSpan}, values.data(),
          static_cast<std::int64_t>(values.size()), true, [](std::int64_t value) { return value; });
  }

 private:
  files::ZipWriter& zip_;
  std::int64_t done_ = 0, total_;
  const std::stop_token& stop_;
  const ReadProgress& progress_;
};

void write_problem(ArrayWriter& arrays, const Problem& problem) {
  const auto shape = [](const Tensor& t) { return std::vector{t.heads, t.rows, t.cols}; };
  arrays.write("q", problem.Q(), shape(problem.Q()));
  arrays.write("k", problem.K(), shape(problem.K()));
  arrays.write("v", problem.V(), shape(problem.V()));
  if (problem.mask.keep) arrays.write(*problem.mask.keep);
  if (problem.mask.bias) arrays.write(*problem.mask.bias);
  if (problem.given_O) arrays.write("o", *problem.given_O, shape(*problem.given_O));
  if (problem.given_LSE) arrays.write("lse", *problem.given_LSE, {problem.given_LSE->heads, problem.given_LSE->rows});
}

// Of the large arrays, for the progress.
std::int64_t bytes_to_write(const SessionFile& session) {
  std::int64_t bytes = 0;
  if (session.problem) bytes += session.problem->Q().bytes() + session.problem->K().bytes();
  if (session.problem) bytes += session.problem->V().bytes();
  for (const SavedReport& saved : session.reports) bytes += 4 * static_cast<std::int64_t>(saved.report->O.size());
  return std::max<std::int64_t>(bytes, 1);
}

// ---- reading

std::optional<files::ZipMember> find_manifest(const std::filesystem::path& path) {
  const auto size = static_cast<std::int64_t>(std::filesystem::file_size(path));
  auto members = files::zip_members(path, size, [](const std::string& name) { return name == kManifest; });
  if (members.empty()) return {};
  return std::move(members.front());
}

SessionFacts read_manifest(const std::filesystem::path& path) {
  constexpr const char* expected = "a flashscope session (.fscope)";
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) throw InputError(path.string(), "no such file", expected);
  const auto member = find_manifest(path);
  if (!member) throw InputError(path.string(), fmt::format("a zip without {}", kManifest), expected);
  const std::string where = path.string() + ": " + kManifest;
  if (member->place.inflated > kMaxManifest)
    throw InputError(where, fmt::format("{} bytes", member->place.inflated), fmt::format("at most {}", kMaxManifest));
  std::string text(static_cast<std::size_t>(member->place.inflated), '\0');
  const auto bytes = files::zip_bytes(path, member->place, where);
  bytes->read(std::as_writable_bytes(std::span(text)));
  bytes->finish();
  const auto watch = [&](int depth, Json::parse_event_t, const Json&) {
    if (depth > kMaxDepth)
      throw InputError(where, fmt::format("lists and objects in each other, more than {}", kMaxDepth),
                       fmt::format("at most {}", kMaxDepth));
    return true;
  };
  try {
    return files::session_from_json(Json::parse(text, watch), where);
  } catch (const Json::parse_error& fault) {
    throw InputError(fmt::format("{}: byte {}", where, fault.byte), "what is no JSON", "a JSON object");
  } catch (const Json::out_of_range&) {
    throw InputError(where, "a number beyond float64", "\"inf\", or a smaller one");
  }
}

class ArrayReader {
 public:
  ArrayReader(const std::filesystem::path& path, std::int64_t memory_limit, const std::stop_token& stop,
              const ReadProgress& progress)
      : file_(std::make_shared<const TensorFile>(TensorFile::open(path))), stop_(stop), progress_(progress) {
    std::int64_t memory = 0;
    for (const ArrayInfo& info : file_->arrays()) {
      total_ += info.elements() * size_of(info.type);
      memory += info.type == ElementType::boolean ? info.elements() / 8
                                                  : info.elements() * (info.type == ElementType::float64 ? 8 : 4);
    }
    if (memory > memory_limit)
      throw InputError(path.string(), fmt::format("arrays of {} bytes in memory", memory),
                       fmt::format("at most {}, the memory setting", memory_limit));
  }

  bool has(const std::string& name) const { return file_->find(name) != nullptr; }

  std::shared_ptr<const Problem> problem(const files::ProblemFacts& facts) {
    Mask mask = facts.mask;
    Tensor Q = tensor("q"), K = tensor("k"), V = tensor("v");
    const files::MaskTarget target{.batches = 1, .heads = Q.heads, .Nq = Q.rows, .Nk = K.rows, .batch = 0, .head = {}};
    if (has("mask"))
      mask.keep = std::make_shared<const KeepMask>(
          files::load_keep(files::plan_mask(source("mask"), target), MaskMeans::keep, stop_, share("mask")));
    if (has("bias"))
      mask.bias = std::make_shared<const Bias>(
          files::load_bias(files::plan_mask(source("bias"), target), stop_, share("bias")));
    auto problem = std::make_shared<Problem>(
        *make_problem(facts.name, std::move(Q), std::move(K), std::move(V), facts.scale, std::move(mask)));
    const Shape s = problem->shape();
    if (has("o")) problem->given_O = std::make_shared<const Tensor>(tensor("o", {{s.heads, s.Nq, s.dv}}));
    if (has("lse")) problem->given_LSE = std::make_shared<const Tensor>(tensor("lse", {{s.heads, s.Nq}}));
    return problem;
  }

  Buffer<double> values(const std::string& name, const std::vector<std::int64_t>& shape) {
    check_shape(name, shape);
    Array array = file_->read(name, stop_, share(name));
    if (!array.f64.empty()) return std::move(array.f64);
    return {array.f32.begin(), array.f32.end()};
  }

  std::vector<Timeline::Span> spans(const std::string& name) {
    const files::Source found = source(name);
    const std::vector<std::int64_t>& shape = found.info.shape;
    if (shape.size() != 2 || shape[1] != kSpan || found.info.type != ElementType::int64)
      throw InputError(found.where(), found.describe(), fmt::format("(spans, {}) int64", kSpan));
    const Array array = file_->read(name, stop_, share(name));
    std::vector<Timeline::Span> spans;
    spans.reserve(static_cast<std::size_t>(shape[0]));
    for (std::size_t n = 0; n < array.ints.size(); n += kSpan) {
      const std::int64_t* v = array.ints.data() + n;
      spans.push_back({static_cast<int>(v[0]), v[1], v[2], v[3], v[4], v[5], v[6]});
    }
    return spans;
  }

 private:
  files::Source source(const std::string& name) const {
    const ArrayInfo* info = file_->find(name);
    if (!info) throw InputError(file_->path().string(), "no array " + name, "one");
    return {file_, *info};
  }
  void check_shape(const std::string& name, const std::vector<std::int64_t>& shape) const {
    const files::Source found = source(name);
    if (found.info.shape != shape || !is_float(found.info.type))
      throw InputError(found.where(), found.describe(), shape_text(shape) + " of a float type");
  }
  Tensor tensor(const std::string& name, const std::optional<std::vector<std::int64_t>>& shape = {}) {
    const files::Source found = source(name);
    const std::vector<std::int64_t>& dims = found.info.shape;
    if (shape)
      check_shape(name, *shape);
    else if (dims.size() != 3 || std::count(dims.begin(), dims.end(), 0) || !is_float(found.info.type))
      throw InputError(found.where(), found.describe(), "(heads, N, d) of a float type");
    Array array = file_->read(name, stop_, share(name));
    Tensor tensor;
    tensor.type = parse_dtype(flashscope::name(found.info.type));
    tensor.heads = dims[0], tensor.rows = dims[1], tensor.cols = dims.size() == 3 ? dims[2] : 1;
    tensor.f32 = std::move(array.f32), tensor.f64 = std::move(array.f64);
    return tensor;
  }
  // One array's share of the progress.
  ReadProgress share(const std::string& name) {
    if (!progress_) return {};
    const ArrayInfo& info = *file_->find(name);
    const std::int64_t before = done_, size = info.elements() * size_of(info.type);
    done_ += size;
    return [this, before, size](std::int64_t done, std::int64_t total) {
      const double part = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 1;
      progress_(before + static_cast<std::int64_t>(part * static_cast<double>(size)), total_);
    };
  }

  std::shared_ptr<const TensorFile> file_;
  const std::stop_token& stop_;
  const ReadProgress& progress_;
  std::int64_t done_ = 0, total_ = 0;
};

SessionFile with_fingerprints(SessionFile session, const std::stop_token& stop) {
  std::map<const Problem*, std::string> known;
  for (SavedReport& saved : session.reports) {
    if (!saved.problem) continue;
    std::string& text = known[saved.problem.get()];
    if (text.empty()) text = fingerprint(*saved.problem, stop);
    saved.fingerprint = text;
  }
  return session;
}

// The reports that are of the session's problem.
void find_own(SessionFile& session, const std::stop_token& stop) {
  std::string own;
  for (SavedReport& saved : session.reports) {
    if (!session.problem || !saved.fingerprint) continue;
    if (own.empty()) own = fingerprint(*session.problem, stop);
    if (*saved.fingerprint == own && saved.report->shape == session.problem->shape()) saved.problem = session.problem;
  }
}

// What a reader of the report may index by.
void check(const Report& report, const std::string& where) {
  try {
    check(report.shape);
    check(report.recipe, report.shape);
  } catch (const InputError& error) {
    throw InputError(where + ": " + error.where(), error.found(), error.expected());
  }
  if (static_cast<std::int64_t>(report.nan_rows.size()) != report.shape.heads)
    throw InputError(where + ".nan_rows", fmt::format("{} lists", report.nan_rows.size()),
                     fmt::format("one for each of {} heads", report.shape.heads));
  for (const std::vector<std::int64_t>& rows : report.nan_rows)
    for (const std::int64_t row : rows)
      if (row < 0 || row >= report.shape.Nq)
        throw InputError(where + ".nan_rows", fmt::format("row {}", row), fmt::format("0 to {}", report.shape.Nq - 1));
}

}  // namespace

std::string date_now() { return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr))); }

SavedReport make_saved(std::shared_ptr<const Report> report, std::shared_ptr<const Problem> problem,
                       std::string version) {
  SavedReport saved;
  saved.conventions = conventions(report->recipe, problem->mask);
  saved.report = std::move(report), saved.problem = std::move(problem);
  saved.date = date_now();
  saved.version = std::move(version);
  return saved;
}

bool is_session(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;
  try {
    return find_manifest(path).has_value();
  } catch (const InputError&) {
    return false;
  }
}

void write_session(const std::filesystem::path& path, const SessionFile& given, const std::stop_token& stop,
                   const ReadProgress& progress) {
  const SessionFile session = with_fingerprints(given, stop);
  const std::string manifest = files::session_to_json(session).dump(1, ' ', false, Json::error_handler_t::replace);
  files::ZipWriter zip(path);
  zip.begin(kManifest, static_cast<std::int64_t>(manifest.size()), true);
  zip.write(manifest.data(), manifest.size());
  zip.end();
  ArrayWriter arrays(zip, bytes_to_write(session), stop, progress);
  if (session.problem) write_problem(arrays, *session.problem);
  for (std::size_t n = 0; n < session.reports.size(); ++n) {
    const Report& report = *session.reports[n].report;
    const Shape& s = report.shape;
    arrays.write(report_array(n, "o"), report.O, {s.heads, s.Nq, s.dv});
    arrays.write(report_array(n, "lse"), report.LSE, {s.heads, s.Nq});
    if (report.gpu && report.gpu->timeline) arrays.write(report_array(n, "timeline"), report.gpu->timeline->spans);
  }
  zip.finish();
}

SessionFile read_session(const std::filesystem::path& path, std::int64_t memory_limit, const std::stop_token& stop,
                         const ReadProgress& progress) {
  SessionFacts facts = read_manifest(path);
  const std::string where = path.string() + ": " + kManifest;
  ArrayReader arrays(path, memory_limit, stop, progress);
  SessionFile session;
  if (facts.problem.present) session.problem = arrays.problem(facts.problem);
  session.recipe = facts.recipe;
  session.head = facts.head, session.K = facts.K, session.window = std::move(facts.window);
  if (session.problem) {
    const Shape shape = session.problem->shape();
    check(session.recipe, shape);
    if (session.head < 0 || session.head >= shape.heads)
      throw InputError(where + ": view.head", std::to_string(session.head), fmt::format("0 to {}", shape.heads - 1));
  }
  if (session.K < 0) throw InputError(where + ": view.step", std::to_string(session.K), "0 or more");
  for (std::size_t n = 0; n < facts.reports.size(); ++n) {
    Report& report = facts.reports[n];
    check(report, fmt::format("{}: reports[{}]", where, n));
    const Shape& s = report.shape;
    report.O = arrays.values(report_array(n, "o"), {s.heads, s.Nq, s.dv});
    report.LSE = arrays.values(report_array(n, "lse"), {s.heads, s.Nq});
    if (report.gpu && report.gpu->timeline) report.gpu->timeline->spans = arrays.spans(report_array(n, "timeline"));
    facts.saved[n].report = std::make_shared<const Report>(std::move(report));
  }
  session.reports = std::move(facts.saved), session.sweeps = std::move(facts.sweeps);
  find_own(session, stop);
  return session;
}

SessionOutline read_session_outline(const std::filesystem::path& path) {
  SessionFacts facts = read_manifest(path);
  files::ProblemFacts& problem = facts.problem;
  return {problem.present,
          facts.sweeps.size(),
          std::move(problem.name),
          problem.scale,
          std::move(problem.mask),
          facts.recipe,
          facts.head,
          facts.K};
}

}  // namespace flashscope
