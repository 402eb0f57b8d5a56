#include "app/window/session.h"

#include <QSettings>
#include <cstring>

#include "app/window/text.h"
#include "engine/error.h"

namespace flashscope::window {
namespace {

// Whole: the next start may be in another folder.
QString path_text(const std::filesystem::path& path) {
  return path.empty() ? QString() : text(std::filesystem::absolute(path).lexically_normal().string());
}
std::filesystem::path path_value(const QSettings& settings, const char* key) {
  return settings.value(key).toString().toStdString();
}

template <class Enum>
void save_choice(QSettings& settings, const char* key, Enum choice) {
  settings.setValue(key, text(name(choice)));
}
template <class Enum>
void load_choice(const QSettings& settings, const char* key, Enum& choice) {
  if (settings.contains(key)) choice = parse<Enum>(settings.value(key).toString().toStdString());
}

void load_choice(const QSettings& settings, const char* key, DType& choice) {
  if (settings.contains(key)) choice = parse_dtype(settings.value(key).toString().toStdString());
}

void save_files(QSettings& settings, const ProblemFiles& files) {
  settings.setValue("input", path_text(files.input));
  settings.setValue("q", path_text(files.q));
  settings.setValue("k", path_text(files.k));
  settings.setValue("v", path_text(files.v));
  settings.setValue("mask", path_text(files.mask));
  settings.setValue("bias", path_text(files.bias));
  QStringList names;
  for (const auto& [role, array] : files.names) names << text(role) + '=' + text(array);
  settings.setValue("names", names);
  if (files.layout) settings.setValue("layout", *files.layout == Layout::hnd ? "hnd" : "nhd");
  settings.setValue("batch", static_cast<qlonglong>(files.batch));
  if (files.head) settings.setValue("head", static_cast<qlonglong>(*files.head));
  settings.setValue("mask_means", files.mask_means == MaskMeans::keep ? "keep" : "drop");
}

ProblemFiles load_files(const QSettings& settings) {
  ProblemFiles files;
  files.input = path_value(settings, "input");
  files.q = path_value(settings, "q");
  files.k = path_value(settings, "k");
  files.v = path_value(settings, "v");
  files.mask = path_value(settings, "mask");
  files.bias = path_value(settings, "bias");
  for (const QString& pair : settings.value("names").toStringList())
    files.names[pair.section('=', 0, 0).toStdString()] = pair.section('=', 1).toStdString();
  if (settings.contains("layout")) files.layout = settings.value("layout") == "nhd" ? Layout::nhd : Layout::hnd;
  files.batch = settings.value("batch").toLongLong();
  if (settings.contains("head")) files.head = settings.value("head").toLongLong();
  files.mask_means = settings.value("mask_means") == "drop" ? MaskMeans::drop : MaskMeans::keep;
  return files;
}

template <class T>
QVariantList list_of(const std::vector<T>& values) {
  QVariantList list;
  for (const T value : values) list << QVariant::fromValue(value);
  return list;
}
template <class T>
std::vector<T> values_of(const QSettings& settings, const char* key) {
  std::vector<T> values;
  for (const QVariant& value : settings.value(key).toList()) values.push_back(value.value<T>());
  return values;
}
// Ids are many: packed.
QByteArray bytes_of(const std::vector<std::int64_t>& ids) {
  return qCompress(
      QByteArray(reinterpret_cast<const char*>(ids.data()), static_cast<qsizetype>(ids.size() * sizeof(std::int64_t))));
}
std::vector<std::int64_t> ids_of(const QByteArray& packed) {
  const QByteArray bytes = qUncompress(packed);
  std::vector<std::int64_t> ids(static_cast<std::size_t>(bytes.size()) / sizeof(std::int64_t));
  std::memcpy(ids.data(), bytes.constData(), ids.size() * sizeof(std::int64_t));
  return ids;
}

void save_rules(QSettings& settings, const MaskRules& rules) {
  if (rules.none()) return;
  settings.setValue("lengths", list_of(rules.lengths));
  settings.setValue("alibi", list_of(rules.alibi));
  settings.setValue("softcap", rules.softcap);
  if (rules.prefix) settings.setValue("prefix", static_cast<qlonglong>(*rules.prefix));
  if (!rules.documents) return;
  settings.setValue("document_rows", bytes_of(rules.documents->rows));
  settings.setValue("document_keys", bytes_of(rules.documents->keys));
}
MaskRules load_rules(const QSettings& settings) {
  MaskRules rules;
  rules.lengths = values_of<std::int64_t>(settings, "lengths");
  rules.alibi = values_of<double>(settings, "alibi");
  rules.softcap = settings.value("softcap").toDouble();
  if (settings.contains("prefix")) rules.prefix = settings.value("prefix").toLongLong();
  if (settings.contains("document_keys"))
    rules.documents = std::make_shared<const Documents>(make_documents(
        ids_of(settings.value("document_rows").toByteArray()), ids_of(settings.value("document_keys").toByteArray())));
  return rules;
}

void save_recipe(QSettings& settings, const Recipe& recipe) {
  save_choice(settings, "algorithm", recipe.algorithm);
  settings.setValue("Br", static_cast<qlonglong>(recipe.Br));
  settings.setValue("Bc", static_cast<qlonglong>(recipe.Bc));
  if (recipe.sram) settings.setValue("sram", static_cast<qlonglong>(*recipe.sram));
  save_choice(settings, "order", recipe.order);
  save_choice(settings, "skip", recipe.skip);
  save_choice(settings, "guard", recipe.guard);
  save_choice(settings, "empty_row", recipe.empty_row);
  if (recipe.normalise) save_choice(settings, "normalise", *recipe.normalise);
  save_choice(settings, "numerators", recipe.numerators);
  save_choice(settings, "mask_apply", recipe.mask_apply);
  const Numerics& numerics = recipe.numerics;
  save_choice(settings, "scores", numerics.scores);
  save_choice(settings, "P", numerics.P);
  save_choice(settings, "accumulators", numerics.accumulators);
  save_choice(settings, "scale_when", numerics.scale);
  save_choice(settings, "exponential", numerics.exponential);
  settings.setValue("rescale_threshold", numerics.rescale_threshold);
  settings.setValue("defect", text(defect_text(recipe)));
}

Recipe load_recipe(const QSettings& settings) {
  Recipe recipe;
  load_choice(settings, "algorithm", recipe.algorithm);
  recipe.Br = settings.value("Br").toLongLong();
  recipe.Bc = settings.value("Bc").toLongLong();
  if (settings.contains("sram")) recipe.sram = settings.value("sram").toLongLong();
  load_choice(settings, "order", recipe.order);
  load_choice(settings, "skip", recipe.skip);
  load_choice(settings, "guard", recipe.guard);
  load_choice(settings, "empty_row", recipe.empty_row);
  if (settings.contains("normalise")) load_choice(settings, "normalise", recipe.normalise.emplace());
  load_choice(settings, "numerators", recipe.numerators);
  load_choice(settings, "mask_apply", recipe.mask_apply);
  Numerics& numerics = recipe.numerics;
  load_choice(settings, "scores", numerics.scores);
  load_choice(settings, "P", numerics.P);
  load_choice(settings, "accumulators", numerics.accumulators);
  load_choice(settings, "scale_when", numerics.scale);
  load_choice(settings, "exponential", numerics.exponential);
  numerics.rescale_threshold = settings.value("rescale_threshold", 0.0).toDouble();
  if (const std::string defect = settings.value("defect").toString().toStdString(); !defect.empty())
    set_defect(recipe, defect);
  return recipe;
}

}  // namespace

void save_session(QSettings& settings, const Session& session) {
  settings.remove("session");
  settings.beginGroup("session");
  settings.setValue("demo", !session.files);
  if (!session.session_file.empty()) settings.setValue("file", path_text(session.session_file));
  if (session.files) save_files(settings, *session.files);
  settings.setValue("causal", static_cast<int>(session.causal));
  if (session.window) {
    settings.setValue("window_left", static_cast<qlonglong>(session.window->left));
    settings.setValue("window_right", static_cast<qlonglong>(session.window->right));
  }
  save_rules(settings, session.rules);
  settings.setValue("scale", session.scale);
  save_recipe(settings, session.recipe);
  if (session.beside) {
    settings.beginGroup("beside");
    save_recipe(settings, *session.beside);
    settings.endGroup();
  }
  settings.setValue("K", static_cast<qlonglong>(session.K));
  settings.endGroup();
}

std::optional<Session> load_session(QSettings& settings) {
  if (!settings.contains("session/algorithm")) return {};
  Session session;
  bool beside_open = false;
  settings.beginGroup("session");
  try {
    if (!settings.value("demo").toBool()) session.files = load_files(settings);
    session.session_file = settings.value("file").toString().toStdString();
    session.causal = static_cast<Causal>(std::clamp(settings.value("causal").toInt(), 0, 2));
    if (settings.contains("window_left"))
      session.window =
          flashscope::Window{settings.value("window_left").toLongLong(), settings.value("window_right").toLongLong()};
    session.rules = load_rules(settings);
    session.scale = settings.value("scale").toDouble();
    session.recipe = load_recipe(settings);
    if (settings.contains("beside/algorithm")) {
      settings.beginGroup("beside");
      beside_open = true;
      session.beside = load_recipe(settings);
      settings.endGroup();
      beside_open = false;
    }
    session.K = settings.value("K").toLongLong();
  } catch (const InputError&) {
    if (beside_open) settings.endGroup();
    settings.endGroup();
    return {};
  }
  settings.endGroup();
  return session;
}

void save_stops(QSettings& settings, const Stops& stops) { settings.setValue("stops/list", text(as_json(stops))); }

Stops load_stops(QSettings& settings) {
  if (!settings.contains("stops/list")) return first_stops();
  return stops_from_json(settings.value("stops/list").toString().toStdString());
}

}  // namespace flashscope::window
