#include "app/command_line/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "app/command_line/interrupt.h"
#include "engine/attention/online_softmax.h"
#include "engine/attention/random_problem.h"
#include "engine/files/loading.h"
#include "engine/files/session_file.h"

namespace flashscope::command_line {
namespace {

constexpr std::int64_t kLargest = std::int64_t{1} << 40;

// "q=query,k=key" -> {q: query, k: key}
std::map<std::string, std::string> parse_names(std::string_view where, std::string_view text) {
  constexpr std::array<std::string_view, 8> roles{"q", "k", "v", "mask", "bias", "scale", "o", "lse"};
  std::map<std::string, std::string> names;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::string_view pair = text.substr(0, comma);
    const std::size_t equals = pair.find('=');
    const std::string_view role = pair.substr(0, std::min(equals, pair.size()));
    if (equals == pair.npos || std::find(roles.begin(), roles.end(), role) == roles.end()) {
      throw InputError(std::string(where), fmt::format("\"{}\"", pair),
                       fmt::format("ROLE=ARRAY, with a role of {}", fmt::join(roles, ", ")));
    }
    names[std::string(role)] = pair.substr(equals + 1);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return names;
}

Window parse_window(std::string_view where, std::string_view text) {
  const std::size_t comma = text.find(',');
  if (comma == text.npos) {
    throw InputError(std::string(where), fmt::format("\"{}\"", text), "L,R: row r sees the keys r - L to r + R");
  }
  return {parse_integer(where, text.substr(0, comma), 0, kLargest),
          parse_integer(where, text.substr(comma + 1), 0, kLargest)};
}

// "5,7,9"
template <class Read>
auto list_of(std::string_view text, Read read) {
  std::vector<decltype(read(text))> values;
  for (;;) {
    const std::size_t comma = text.find(',');
    values.push_back(read(text.substr(0, comma)));
    if (comma == text.npos) return values;
    text.remove_prefix(comma + 1);
  }
}
std::vector<double> numbers(std::string_view where, std::string_view text) {
  return list_of(text, [&](std::string_view word) { return parse_number(where, word); });
}
bool is_list(std::string_view text) { return text.find_first_not_of("0123456789,") == text.npos; }
std::vector<std::int64_t> integers(std::string_view where, const std::string& text) {
  if (!is_list(text)) return read_integers(text);
  return list_of(std::string_view(text),
                 [&](std::string_view word) { return parse_integer(where, word, 0, kLargest); });
}
std::vector<std::int64_t> ids_of_lengths(const std::vector<std::int64_t>& lengths) {
  constexpr std::int64_t kMostKeys = std::int64_t{1} << 28;
  std::vector<std::int64_t> ids;
  for (std::size_t n = 0; n < lengths.size(); ++n) {
    if (static_cast<std::int64_t>(ids.size()) + lengths[n] > kMostKeys)
      throw InputError("--documents", "documents of more than 2^28 keys", "shorter ones");
    ids.insert(ids.end(), static_cast<std::size_t>(lengths[n]), static_cast<std::int64_t>(n));
  }
  return ids;
}

template <class Enum>
void add_choice(Command& command, const std::string& option, const std::string& help, Enum& value) {
  command.choice(option, choices<Enum>(), help, [&value](const std::string& word) { value = parse<Enum>(word); });
}

void add_size(Command& command, const std::string& option, const std::string& takes, const std::string& help,
              std::optional<std::int64_t>& value, std::int64_t largest = kLargest) {
  command.integer(option, takes, help, 1, largest, [&value](std::int64_t n) { value = n; });
}

// Totals are 64-bit: refuses shapes and blocks whose traffic in bytes or whose FLOPs could exceed that.
void check_countable(const Shape& s, const Recipe& recipe) {
  const auto of = [](std::int64_t n) { return static_cast<long double>(n); };
  const long double cells = of(s.Nq) * of(s.Nk), tiles_i = of(s.Nq) / of(recipe.Br) + 1,
                    tiles_j = of(s.Nk) / of(recipe.Bc) + 1;
  const long double largest =
      std::max({2 * cells * of(s.d + s.dv), 8 * 8 * cells, 8 * tiles_j * of(s.Nq) * of(s.d + 2 * s.dv + 4),
                8 * tiles_i * of(s.Nk) * of(s.d + s.dv), 16 * tiles_i * tiles_j}) *
      of(s.heads);
  if (largest >= 0x1p63L) {
    throw InputError("problem",
                     fmt::format("{} heads of {} x {} with Br {}, Bc {}: about {:.1e} to count", s.heads, s.Nq, s.Nk,
                                 recipe.Br, recipe.Bc, static_cast<double>(largest)),
                     "counts below 2^63: a shorter sequence or larger blocks");
  }
}

Tensor one_head(const Tensor& tensor, std::int64_t head) {
  Tensor part = make_tensor(tensor.type, 1, tensor.rows, tensor.cols);
  const std::int64_t n = tensor.rows * tensor.cols;
  if (tensor.type == DType::float64) {
    std::copy_n(tensor.head<double>(head), n, part.f64.begin());
  } else {
    std::copy_n(tensor.head<float>(head), n, part.f32.begin());
  }
  return part;
}

// One array of a mask file: the only one, or the one that is called mask or bias.
files::Source open_mask(const std::filesystem::path& path, std::string_view role) {
  files::Source source;
  source.file = std::make_shared<const TensorFile>(TensorFile::open(path));
  const std::vector<ArrayInfo>& arrays = source.file->arrays();
  const ArrayInfo* found = arrays.size() == 1 ? &arrays.front() : source.file->find(role);
  if (found == nullptr) {
    throw InputError(path.string(), fmt::format("{} arrays", arrays.size()), fmt::format("one array named {}", role));
  }
  source.info = *found;
  return source;
}

Mask read_mask(const MaskOptions& options, const Shape& shape, std::optional<std::int64_t> head, std::int64_t memory,
               const std::stop_token& stop) {
  Mask mask;
  mask.causal = options.causal;
  mask.window = options.window;
  mask.rules = make_rules(options.rules, shape.heads, head, shape.Nq, shape.Nk, options.causal == Causal::bottom_right);
  const files::MaskTarget target{1, shape.heads, shape.Nq, shape.Nk, 0, head};
  const auto read = [&](const std::filesystem::path& path, std::string_view role) {
    const files::MaskPlan plan = files::plan_mask(open_mask(path, role), target);
    if (plan.bytes() > memory) {
      throw InputError(path.string(), fmt::format("a mask of {} bytes in memory", plan.bytes()),
                       fmt::format("at most {} (--memory)", memory));
    }
    if (plan.is_bias()) {
      if (mask.bias) throw InputError(path.string(), "a second additive mask", "one");
      if (role == "mask" && options.mask_means == MaskMeans::drop) {
        throw InputError(path.string(), "a float mask, which is added",
                         "a boolean or integer one for --mask-means drop");
      }
      mask.bias = std::make_shared<const Bias>(files::load_bias(plan, stop, {}));
    } else {
      if (role == "bias") throw InputError(path.string(), "a boolean or integer array", "a float type for --bias");
      mask.keep = std::make_shared<const KeepMask>(files::load_keep(plan, options.mask_means, stop, {}));
    }
  };
  if (!options.mask.empty()) read(options.mask, "mask");
  if (!options.bias.empty()) read(options.bias, "bias");
  return mask;
}

OpenedProblem random_tensors(const ProblemOptions& options, std::optional<std::int64_t> head,
                             const std::stop_token& stop, Progress progress) {
  if (!options.names.empty() || options.layout || options.batch != 0) {
    throw UsageError("--names, --layout and --batch are for files; --random has one batch of q, k, v");
  }
  const Shape shape = shape_of(options.shape);
  const std::int64_t elements = shape.heads * shape.Nq * shape.d + shape.kv_heads * shape.Nk * (shape.d + shape.dv);
  const std::int64_t bytes = elements * (shape.type == DType::float64 ? 8 : 4);
  if (bytes > options.memory) {
    throw InputError("problem", fmt::format("Q, K, V of {} bytes in memory", bytes),
                     fmt::format("at most {} (--memory)", options.memory));
  }
  if (head && *head >= shape.heads) {
    throw InputError("--head", std::to_string(*head), fmt::format("0 to {}", shape.heads - 1));
  }
  OpenedProblem opened;
  opened.first_head = head.value_or(0);
  Mask mask = read_mask(options.mask, shape, head, options.memory, stop);
  std::optional<ProgressLine> line;
  if (!progress) progress = line.emplace("drawing Q, K and V").callback();
  if (!head || shape.heads == 1) {
    opened.problem = random_problem(shape, *options.seed, options.scale, std::move(mask), stop, progress);
  } else {
    const auto whole = random_problem(shape, *options.seed, options.scale, {}, stop, progress);
    const std::int64_t kv = shape.kv_head(*head);
    opened.problem = make_problem(fmt::format("{}, head {}", whole->name, *head), one_head(whole->Q(), *head),
                                  one_head(whole->K(), kv), one_head(whole->V(), kv), options.scale, std::move(mask));
  }
  return opened;
}

OpenedProblem files_tensors(const ProblemOptions& options, std::optional<std::int64_t> head,
                            const std::stop_token& stop) {
  const ProblemFiles wanted = files_of(options, head);
  LoadedProblem loaded = load_problem(wanted, stop);
  OpenedProblem opened{
      std::move(loaded.problem), head.value_or(0), std::move(loaded.found), std::move(loaded.warnings), {}};
  if (!wanted.input.empty() && is_session(wanted.input)) opened.recipe = read_session_outline(wanted.input).recipe;
  return opened;
}

// In what precision the CPU's fold works; a kernel on a GPU has its own and refuses these.
void add_numerics(Command& command, KernelOptions& options) {
  command.group("NUMERICS");
  command.choice("--numerics", {"default", "tensor-core"},
                 "tensor-core: P in the element type, exp2, rescaled beyond 2^8 (default: rounds nothing)",
                 [&options](const std::string& word) { options.tensor_core = word == "tensor-core"; });
  const auto add_type = [&command](const char* option, const char* help, std::optional<DType>& value) {
    command.choice(option, {"float32", "float16", "bfloat16"}, help,
                   [&value](const std::string& word) { value = parse_dtype(word); });
  };
  add_type("--score-type", "scores are rounded to it, raw and scaled (default: float32)", options.scores);
  add_type("--p-type", "P is rounded to it before P V (default: float32)", options.P);
  add_type("--accumulator-type", "O and l are kept in it (default: float32)", options.accumulators);
  command.choice("--scale-when", choices<ScaleWhen>(), "scale the product, or Q before it (default: after)",
                 [&options](const std::string& word) { options.scale = parse<ScaleWhen>(word); });
  command.choice("--exponential", choices<Exponential>(), "exp, or powers of 2 as kernels do it (default: exp)",
                 [&options](const std::string& word) { options.exponential = parse<Exponential>(word); });
  command.option(
      "--rescale-threshold", "X", "m moves only where a score exceeds it by over X powers of 2 (default: 0)",
      [&options](const std::string& word) { options.rescale_threshold = parse_number("--rescale-threshold", word); });
}

Numerics numerics_of(const KernelOptions& options, DType element) {
  Numerics numerics = options.recipe.numerics;  // a session's
  if (options.tensor_core) numerics = *options.tensor_core ? tensor_core_numerics(element) : Numerics{};
  numerics.scores = options.scores.value_or(numerics.scores);
  numerics.P = options.P.value_or(numerics.P);
  numerics.accumulators = options.accumulators.value_or(numerics.accumulators);
  numerics.scale = options.scale.value_or(numerics.scale);
  numerics.exponential = options.exponential.value_or(numerics.exponential);
  numerics.rescale_threshold = options.rescale_threshold.value_or(numerics.rescale_threshold);
  return numerics;
}

}  // namespace

void add_shape(Command& command, ShapeOptions& options) {
  command.group("SHAPE");
  add_size(command, "--n", "N", "query rows Nq", options.n);
  add_size(command, "--nk", "N", "keys Nk (default: n)", options.nk);
  add_size(command, "--d", "D", "columns of Q and K, 1..256", options.d, 256);
  add_size(command, "--dv", "D", "columns of V and O, 1..256 (default: d)", options.dv, 256);
  add_size(command, "--heads", "H", "query heads (default: 1)", options.heads, 1 << 20);
  add_size(command, "--kv-heads", "H", "key/value heads, a divisor of heads (default: heads)", options.kv_heads,
           1 << 20);
  command.choice("--dtype", {"float64", "float32", "float16", "bfloat16"}, "element type (default: float32)",
                 [&options](const std::string& word) { options.type = parse_dtype(word); });
}

void add_mask(Command& command, MaskOptions& options, Recipe& recipe) {
  command.group("MASK");
  command.optional_word(
      "--causal", "[top-left|bottom-right|none]", "top-left",
      "key c visible to row r if c <= r; bottom-right: c <= r + Nk - Nq (default: top-left)",
      [&options](const std::string& word) {
        if (word != "top-left" && word != "bottom-right" && word != "none") {
          throw InputError("--causal", fmt::format("\"{}\"", word), "top-left or bottom-right, or none");
        }
        options.causal = word == "none" ? Causal::none : word == "top-left" ? Causal::top_left : Causal::bottom_right;
      });
  command.option("--window", "L,R", "row r sees the keys r - L to r + R",
                 [&options](const std::string& word) { options.window = parse_window("--window", word); });
  command.path("--mask", "boolean or integer keep mask, or a float one that is added; broadcasts to (heads, Nq, Nk)",
               options.mask);
  command.choice(
      "--mask-means", {"keep", "drop"}, "what a true in --mask means (default: keep)",
      [&options](const std::string& word) { options.mask_means = word == "drop" ? MaskMeans::drop : MaskMeans::keep; });
  command.path("--bias", "float bias, added to the scaled scores; -inf masks", options.bias);
  command.option("--lengths", "L,..|FILE", "keys from L on are padding; one length, or one of each head",
                 [&options](const std::string& word) { options.rules.lengths = integers("--lengths", word); });
  command.option("--documents", "L,..|FILE",
                 "a row sees its own document only: lengths of packed documents, or a file with the id of each key",
                 [&options](const std::string& word) {
                   options.rules.document_ids = integers("--documents", word);
                   if (is_list(word)) options.rules.document_ids = ids_of_lengths(options.rules.document_ids);
                 });
  command.integer("--prefix", "P", "keys before P are seen in spite of --causal (prefix LM)", 0, kLargest,
                  [&options](std::int64_t prefix) { options.rules.prefix = prefix; });
  command.option("--alibi", "SLOPES|published", "bias -slope |r - c|; one slope, or one of each head",
                 [&options](const std::string& word) {
                   options.rules.published_alibi = word == "published";
                   if (word != "published") options.rules.alibi = numbers("--alibi", word);
                 });
  command.option("--softcap", "C", "scores become C tanh(score / C), before masks and biases",
                 [&options](const std::string& word) {
                   options.rules.softcap = parse_number("--softcap", word);
                   if (options.rules.softcap <= 0) throw InputError("--softcap", word, "a number above 0");
                 });
  add_choice(command, "--mask-apply", "masked scores become -inf, or the mask is added (default: select)",
             recipe.mask_apply);
}

void add_problem(Command& command, ProblemOptions& options, Recipe& recipe) {
  command.group("PROBLEM");
  command.integer("--random", "SEED", "standard normal Q, K, V of the SHAPE below", 0,
                  std::numeric_limits<std::int64_t>::max(),
                  [&options](std::int64_t seed) { options.seed = static_cast<std::uint64_t>(seed); });
  command.path("--input", "one .npz, .safetensors or session (.fscope) with q, k, v (and mask, scale, o, lse)",
               options.input);
  command.option("--names", "q=..,k=..,v=..", "which array of --input is which",
                 [&options](const std::string& word) { options.names = parse_names("--names", word); });
  command.path("--q", ".npy of its own, with --k and --v", options.q);
  command.path("--k", ".npy", options.k);
  command.path("--v", ".npy", options.v);
  command.choice("--layout", {"hnd", "nhd"}, "(heads, N, d) or (N, heads, d) (default: as the file says, else hnd)",
                 [&options](const std::string& word) { options.layout = word == "hnd" ? Layout::hnd : Layout::nhd; });
  command.integer("--batch", "B", "which batch of the file (default: 0)", 0, kLargest,
                  [&options](std::int64_t batch) { options.batch = batch; });
  command.integer("--head", "H", "only this query head, from 0", 0, 1 << 20,
                  [&options](std::int64_t head) { options.head = head; });
  command.option("--scale", "X", "of the scores (default: as the file says, else 1/sqrt(d))",
                 [&options](const std::string& word) { options.scale = parse_number("--scale", word); });
  add_memory(command, options.memory);
  add_shape(command, options.shape);
  add_mask(command, options.mask, recipe);
}

void add_kernel(Command& command, KernelOptions& options) {
  Recipe& recipe = options.recipe;
  options.repeat_given = [&command] {
    for (const Command::Given& given : command.given())
      if (given.group == "KERNEL" || given.option == "--mask-apply") given.store();
  };
  command.group("KERNEL");
  add_choice(command, "--algorithm", "flash1: K, V outside; flash2: Q outside (default: flash2)", recipe.algorithm);
  add_size(command, "--br", "B", "rows of a row block (default: 64)", options.Br);
  add_size(command, "--bc", "B", "columns of a column block (default: 64)", options.Bc);
  add_size(command, "--sram", "ELEMENTS", "block sizes by the first paper's rule, for that much SRAM", recipe.sram);
  add_choice(command, "--order", "of the column blocks (default: forward)", recipe.order);
  add_choice(command, "--skip", "tiles without a visible key that are not visited (default: geometry)", recipe.skip);
  add_choice(command, "--guard", "against (-inf) - (-inf) (default: clamp)", recipe.guard);
  add_choice(command, "--empty-row", "O of a row without a visible key (default: zero)", recipe.empty_row);
  command.choice("--normalise", choices<Normalise>(), "divide by l at the end or in each tile (default: flash1 each)",
                 [&recipe](const std::string& word) { recipe.normalise = parse<Normalise>(word); });
  add_choice(command, "--numerators", "exp(S - m_new), or exp(S - tile max) corrected (default: running)",
             recipe.numerators);
  command.option("--defect", "NAME[=VALUE]", "one deliberate mistake, e.g. no-rescale, finite-sentinel=-10000",
                 [&recipe](const std::string& word) { set_defect(recipe, word); });
  add_numerics(command, options);
  command.group("KERNEL");
  command.option("--isa", "NAME", "instruction set, as `flashscope devices` lists them (default: auto, the best)",
                 [](const std::string& word) { use_isa(word); });
  command.choice("--kernel", {"auto", "simple", "mma"}, "which of a GPU's kernels: plain, or on tensor cores",
                 [&options](const std::string& word) {
                   if (word != "auto" && !options.gpu_kernels)
                     throw UsageError("--kernel " + word + ": a GPU's kernel, which only `flashscope run` starts");
                   options.kernel = word == "simple" ? gpu::KernelChoice::simple
                                    : word == "mma"  ? gpu::KernelChoice::mma
                                                     : gpu::KernelChoice::automatic;
                 });
}

void add_memory(Command& command, std::int64_t& bytes) {
  command.option("--memory", "BYTES", "refuse what needs more memory than this (default: 8GiB)",
                 [&bytes](const std::string& word) { bytes = parse_bytes("--memory", word); });
}

Shape shape_of(const ShapeOptions& options) {
  if (!options.n || !options.d) throw UsageError("--n N and --d D are needed");
  Shape shape;
  shape.Nq = *options.n, shape.Nk = options.nk.value_or(*options.n);
  shape.d = *options.d, shape.dv = options.dv.value_or(*options.d);
  shape.heads = options.heads.value_or(1), shape.kv_heads = options.kv_heads.value_or(shape.heads);
  shape.type = options.type.value_or(DType::float32);
  check(shape);
  return shape;
}

Mask mask_of(const MaskOptions& options, const Shape& shape, std::int64_t memory) {
  return read_mask(options, shape, {}, memory, {});
}

void start_from(KernelOptions& options, const std::optional<Recipe>& recipe) {
  if (!recipe) return;
  options.recipe = *recipe;
  if (options.Br || options.Bc) options.recipe.sram.reset();
  options.repeat_given();
}

Recipe recipe_of(const KernelOptions& options, const Shape& shape) {
  Recipe recipe = options.recipe;
  if (recipe.sram) {
    if (options.Br || options.Bc) throw UsageError("--sram chooses the block sizes: not together with --br or --bc");
    const BlockSizes sizes = block_sizes(*recipe.sram, shape.d, shape.dv);
    recipe.Br = sizes.Br, recipe.Bc = sizes.Bc;
  }
  recipe.Br = options.Br.value_or(recipe.Br), recipe.Bc = options.Bc.value_or(recipe.Bc);
  recipe.numerics = numerics_of(options, shape.type);
  check(recipe, shape);
  check_countable(shape, recipe);
  return recipe;
}

ProblemSource source_of(const ProblemOptions& options) {
  const bool arrays = !options.q.empty() || !options.k.empty() || !options.v.empty();
  const int sources = options.seed.has_value() + !options.input.empty() + arrays;
  if (sources == 0) {
    throw UsageError("a problem is needed: --random SEED --n N --d D, or --input FILE, or --q FILE --k FILE --v FILE");
  }
  if (sources > 1) throw UsageError("--random, --input and --q --k --v exclude each other");
  if (arrays && (options.q.empty() || options.k.empty() || options.v.empty())) {
    throw UsageError("--q, --k and --v go together");
  }
  return options.seed ? ProblemSource::random : ProblemSource::files;
}

ProblemFiles files_of(const ProblemOptions& options, std::optional<std::int64_t> head) {
  const ShapeOptions& s = options.shape;
  if (s.n || s.nk || s.d || s.dv || s.heads || s.kv_heads || s.type) {
    throw UsageError("--n, --nk, --d, --dv, --heads, --kv-heads and --dtype are for --random; a file has its own");
  }
  ProblemFiles wanted;
  wanted.input = options.input;
  wanted.q = options.q, wanted.k = options.k, wanted.v = options.v;
  wanted.mask = options.mask.mask, wanted.bias = options.mask.bias;
  wanted.names = options.names;
  wanted.layout = options.layout;
  wanted.batch = options.batch;
  wanted.head = options.head ? options.head : head;
  wanted.scale = options.scale;
  wanted.mask_means = options.mask.mask_means;
  wanted.causal = options.mask.causal;
  wanted.window = options.mask.window;
  wanted.rules = options.mask.rules;
  wanted.memory_limit = options.memory;
  return wanted;
}

OpenedProblem open_problem(const ProblemOptions& options, std::optional<std::int64_t> head, const std::stop_token& stop,
                           const Progress& progress) {
  if (options.head) head = options.head;
  return source_of(options) == ProblemSource::random ? random_tensors(options, head, stop, progress)
                                                     : files_tensors(options, head, stop);
}

void print_notes(std::string_view who, const OpenedProblem& opened, bool found) {
  if (found) {
    for (const std::string& line : opened.found) fmt::print(stderr, "{}: {}\n", who, line);
  }
  for (const std::string& line : opened.warnings) fmt::print(stderr, "{}: warning: {}\n", who, line);
}

}  // namespace flashscope::command_line
