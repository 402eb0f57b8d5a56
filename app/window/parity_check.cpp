#include "app/window/parity_check.h"

#include "app/window/text.h"

namespace flashscope::window {
namespace {

QString pair_text(const ParityPair& pair) {
  QString words = QString("%1 and %2: O differs by at most %3, LSE by %4, over %5")
                      .arg(text(name(pair.a)), text(name(pair.b)), number(pair.max_O, 3), number(pair.max_LSE, 3),
                           counted(pair.rows, "row"));
  if (pair.one_sided > 0)
    words += QString("; %1 NaN or infinite on one side only").arg(counted(pair.one_sided, "row is", "rows are"));
  if (pair.max_O > 0 || pair.one_sided > 0)
    words += QString(" (worst: head %1, row %2)").arg(grouped(pair.worst_head), grouped(pair.worst_row));
  return words;
}

}  // namespace

ParityCheck::ParityCheck(QObject* parent) : QObject(parent), background_(this) {}

void ParityCheck::refresh(const Document& document) {
  const std::shared_ptr<const Problem>& problem = document.problem();
  if (!problem) return;
  const RunPointer cpu = document.last_run(false), gpu = document.last_run(true);
  if (problem == problem_ && document.recipe() == recipe_ && cpu == cpu_ && gpu == gpu_) return;
  problem_ = problem, recipe_ = document.recipe(), cpu_ = cpu, gpu_ = gpu;
  result_.reset(), failure_.clear();
  background_.cancel();
  if (cpu || gpu)
    background_.start(
        [problem, recipe = recipe_, cpu, gpu](const std::stop_token& stop) {
          return parity(problem, recipe, cpu ? &cpu->report() : nullptr, gpu ? &gpu->report() : nullptr, stop);
        },
        [this](const Parity& found) { result_ = found, emit changed(); },
        [this](const QString& why) { failure_ = why, emit changed(); });
  emit changed();
}

std::int64_t ParityCheck::nan_rows() const {
  return cpu_ ? cpu_->report().nan_row_count : gpu_ ? gpu_->report().nan_row_count : 0;
}

ParityWords parity_words(const ParityCheck& check) {
  ParityWords words;
  if (check.running()) return {"comparing ...", "Stepping to the end of each row block, to compare with the runs"};
  if (!check.failure().isEmpty()) return {"not compared", check.failure()};
  if (!check.result())
    return {"stepped only",
            "No full run of this problem and recipe yet: Ctrl+R makes one, and it is compared with the "
            "steps"};
  const Parity& found = *check.result();
  words.good = found.equal(), words.bad = !words.good;
  const std::int64_t nan_rows = check.nan_rows();
  words.nan = words.good && nan_rows > 0;
  words.badge = text(verdict(found));
  const QString tolerance = number(found.tolerance_O, 2);
  if (found.one_sided() > 0)
    words.badge += QString(": %1 not finite on one side").arg(counted(found.one_sided(), "row"));
  else if (found.max_LSE() > found.tolerance_LSE)
    words.badge += QString(": LSE off by %1 of %2").arg(number(found.max_LSE(), 2), number(found.tolerance_LSE, 2));
  else if (words.nan)
    words.badge += QString(", %1 NaN").arg(counted(nan_rows, "row"));
  else
    words.badge +=
        QString(": %1 %2 %3").arg(number(found.max_O(), 2), QString::fromUtf8(words.good ? "≤" : ">"), tolerance);
  QStringList lines;
  if (words.nan)
    lines << QString("%1 of %2 NaN on every side; distances are those of the other rows")
                 .arg(counted(nan_rows, "row"), counted(found.rows, "is", "are"));
  for (const auto& pair : found.pairs)
    if (pair) lines << pair_text(*pair);
  lines << QString("Tolerance: %1 for O (each may be half of that from float64), %2 for LSE")
               .arg(tolerance, number(found.tolerance_LSE, 2));
  if (found.rows_stepped < found.rows)
    lines << QString("%1 of %2 rows were stepped").arg(grouped(found.rows_stepped), grouped(found.rows));
  if (!found.cpu) lines << "There is no run on the CPU yet";
  if (!found.gpu) lines << "There is no run on a GPU";
  words.details = lines.join('\n');
  return words;
}

}  // namespace flashscope::window
