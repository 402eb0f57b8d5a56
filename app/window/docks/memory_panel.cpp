#include "app/window/docks/memory_panel.h"

#include <QLabel>
#include <QPainter>
#include <QRegularExpression>
#include <QScrollArea>
#include <QVBoxLayout>
#include <algorithm>
#include <array>
#include <cmath>

#include "app/window/docks/run_words.h"
#include "app/window/text.h"
#include "app/window/theme.h"

namespace flashscope::window {
namespace {

constexpr int kMargin = 10, kTitle = 20, kBar = 19, kGap = 8, kAxis = 22;

RunPointer run_of(const Document& document, Algorithm algorithm) {
  RunPointer chosen = document.runs().chosen();
  if (chosen && chosen->report().recipe.algorithm == algorithm) return chosen;
  RunPointer best;
  for (const RunPointer& run : document.runs().all()) {
    if (!run->problem() || !same_problem(*run->problem(), *document.problem())) continue;
    if (run->report().recipe.algorithm == algorithm && (!best || run->on_gpu() || !best->on_gpu())) best = run;
  }
  return best;
}

MemoryGroup measured(const Run& run) {
  const Report& report = run.report();
  const Recipe& recipe = report.recipe;
  MemoryGroup group;
  group.title = run_brief(report);
  group.source = "measured, " + text(report.device);
  if (report.gpu) {
    const int sets = group.sets = report.gpu->input_sets;
    group.bars.push_back({sets > 1 ? QString("Q, K, V x %1").arg(sets) : QString("Q, K, V"),
                          static_cast<double>(report.gpu->peak_tensor_bytes), Label::measured});
    group.beyond = static_cast<double>(report.gpu->peak_run_bytes);
    group.bars.push_back({"beyond, peak", group.beyond, Label::measured});
    if (recipe.algorithm == Algorithm::standard) {
      group.workspace = static_cast<double>(kProductsWorkspaceBytes);
      group.bars.push_back({"of it cuBLAS", group.workspace, Label::formula});
    }
    group.measuring = static_cast<double>(report.gpu->peak_statistics_bytes);
  } else {
    group.bars.push_back({"Q, K, V", static_cast<double>(report.tensor_bytes), Label::formula});
    group.beyond = static_cast<double>(report.peak_bytes);
    group.bars.push_back({"beyond, peak", group.beyond, Label::measured});
  }
  return group;
}

MemoryGroup by_formula(const Shape& shape, Algorithm algorithm) {
  const Footprint print = footprint(shape, algorithm);
  const auto of = [&](Operand operand) { return print.bytes[static_cast<std::size_t>(operand)]; };
  const std::int64_t inputs = of(Operand::Q) + of(Operand::K) + of(Operand::V);
  MemoryGroup group;
  group.title = text(name(algorithm)), group.source = "formula: not run";
  group.beyond = static_cast<double>(print.total() - inputs);
  QStringList kept;
  for (int n = 0; n < kOperands; ++n)
    if (n > static_cast<int>(Operand::V) && print.bytes[static_cast<std::size_t>(n)] > 0)
      kept << text(name(static_cast<Operand>(n)));
  group.bars = {{"Q, K, V", static_cast<double>(inputs), Label::formula},
                {kept.join(", "), group.beyond, Label::formula}};
  return group;
}

}  // namespace

std::vector<MemoryGroup> memory_groups(const Document& document) {
  if (!document.problem()) return {};
  std::array<Algorithm, 3> order{document.recipe().algorithm};
  std::size_t n = 1;
  for (const Algorithm algorithm : {Algorithm::standard, Algorithm::flash2, Algorithm::flash1})
    if (algorithm != order[0]) order[n++] = algorithm;
  std::vector<MemoryGroup> groups;
  for (const Algorithm algorithm : order) {
    const RunPointer run = run_of(document, algorithm);
    groups.push_back(run ? measured(*run) : by_formula(document.problem()->shape(), algorithm));
  }
  return groups;
}

MemoryView::MemoryView(QWidget* parent) : QWidget(parent) {
  setObjectName("memory_view");
  setAccessibleName("Memory of the algorithms");
}

void MemoryView::show_groups(const std::vector<MemoryGroup>& groups) {
  groups_ = groups;
  int height = 2 * kMargin + kAxis;
  QStringList told;
  for (const MemoryGroup& group : groups) {
    height += kTitle + kGap + kBar * static_cast<int>(group.bars.size());
    for (const MemoryBar& bar : group.bars)
      told << QString("%1: %2 %3 bytes, %4")
                  .arg(group.title, bar.what, grouped(static_cast<std::int64_t>(bar.bytes)), text(name(bar.origin)));
  }
  setMinimumHeight(height);
  setAccessibleDescription(told.join("\n"));
  update();
}

void MemoryView::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  const Colours c = colours(palette());
  painter.fillRect(rect(), c.base);
  if (groups_.empty()) return;
  const QFontMetrics metrics(font());
  double most = 1024, least = 1e300;
  int label = 0;
  for (const MemoryGroup& group : groups_)
    for (const MemoryBar& bar : group.bars) {
      most = std::max(most, bar.bytes);
      if (bar.bytes > 0) least = std::min(least, bar.bytes);
      label = std::max(label, metrics.horizontalAdvance(bar.what));
    }
  // Whole decades of 2, from well below the smallest bar.
  const double low = std::floor(std::log2(std::min(least, most))) - 3, high = std::ceil(std::log2(most));
  const int left = kMargin + std::min(label, width() / 3) + 8, right = width() - kMargin;
  const auto x = [&](double bytes) {
    return left + (right - left) * std::clamp((std::log2(std::max(bytes, 1.0)) - low) / (high - low), 0.0, 1.0);
  };
  int bottom = kMargin;
  for (const MemoryGroup& group : groups_) bottom += kTitle + kGap + kBar * static_cast<int>(group.bars.size());

  const int step = std::max(1, static_cast<int>(std::ceil((high - low) * 64 / std::max(1, right - left))));
  painter.setPen(c.border);
  for (int at = static_cast<int>(low); at <= static_cast<int>(high); ++at) {
    if (at % step != 0) continue;
    const double at_x = x(std::exp2(at));
    painter.setPen(c.raised);
    painter.drawLine(QPointF(at_x, kMargin), QPointF(at_x, bottom));
    painter.setPen(c.dim);
    QString words = short_bytes(std::int64_t{1} << at);
    words.remove(".00").remove(".0");
    const int half = metrics.horizontalAdvance(words) / 2;
    painter.drawText(QPointF(std::clamp(at_x - half, 0.0, width() - 2.0 * half), bottom + metrics.ascent() + 4), words);
  }

  int y = kMargin;
  for (const MemoryGroup& group : groups_) {
    QFont bold = font();
    bold.setBold(true);
    painter.setFont(bold);
    painter.setPen(c.text);
    painter.drawText(kMargin, y + metrics.ascent() + 1, group.title);
    const int after = kMargin + QFontMetrics(bold).horizontalAdvance(group.title) + 10;
    painter.setFont(font());
    painter.setPen(c.dim);
    painter.drawText(after, y + metrics.ascent() + 1, metrics.elidedText(group.source, Qt::ElideRight, right - after));
    y += kTitle;
    for (const MemoryBar& bar : group.bars) {
      painter.setPen(c.text);
      painter.drawText(QRect(kMargin, y, left - kMargin - 8, kBar), Qt::AlignRight | Qt::AlignVCenter,
                       metrics.elidedText(bar.what, Qt::ElideRight, left - kMargin - 8));
      const QRectF box(left, y + 2, std::max(2.0, x(bar.bytes) - left), kBar - 4);
      const bool inputs = bar.what.startsWith("Q, K, V");
      const QColor ink = inputs ? c.accent : c.rescale;
      if (bar.origin == Label::formula) {
        painter.fillRect(box, QBrush(ink, Qt::BDiagPattern));
        painter.setPen(ink);
        painter.drawRect(box);
      } else {
        painter.fillRect(box, ink);
      }
      const QString value = short_bytes(static_cast<std::int64_t>(bar.bytes));
      const int wide = metrics.horizontalAdvance(value);
      const bool beside = box.right() + 6 + wide <= right;
      const QRectF place(beside ? box.right() + 6 : box.right() - wide - 10, y, wide + 8, kBar);
      if (!beside) painter.fillRect(place.adjusted(0, 3, 0, -3), c.base);
      painter.setPen(c.text);
      painter.drawText(place, Qt::AlignCenter, value);
      y += kBar;
    }
    y += kGap;
  }
}

MemoryPanel::MemoryPanel(QWidget* parent) : Panel(parent) {
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 4, 0, 0);
  layout->setSpacing(4);
  note_ = new QLabel;
  note_->setObjectName("memory_note");
  note_->setWordWrap(true);
  note_->setContentsMargins(8, 0, 8, 0);
  layout->addWidget(note_);
  view_ = new MemoryView;
  auto* scroll = new QScrollArea;
  scroll->setFrameShape(QFrame::NoFrame);
  scroll->setWidgetResizable(true);
  scroll->setWidget(view_);
  layout->addWidget(scroll, 1);
}

void MemoryPanel::refresh(const Document& document) {
  const std::vector<MemoryGroup> groups = memory_groups(document);
  if (groups.empty()) return;
  view_->show_groups(groups);
  // Standard against the tiled one that is open (or flash2), of one sort: both by formula or both measured.
  const auto named = [&](std::string_view algorithm) {
    return *std::find_if(groups.begin(), groups.end(),
                         [&](const MemoryGroup& group) { return group.title.startsWith(text(algorithm)); });
  };
  const MemoryGroup standard = named("standard");
  const MemoryGroup tiled =
      named(document.recipe().algorithm == Algorithm::standard ? std::string_view("flash2")
                                                               : name(document.recipe().algorithm));
  QStringList words;
  const double tensors = standard.beyond - standard.workspace;
  if (standard.source == tiled.source && tiled.beyond > 0)
    words << QString("Beyond Q, K, V standard takes <b>%1 x</b> what %2 takes (%3%4).")
                 .arg(number(tensors / tiled.beyond, 3), tiled.title.section(' ', 0, 0),
                      standard.source.section(QRegularExpression("[,:]"), 0, 0),
                      standard.workspace > 0 ? ", without cuBLAS's workspace" : "");
  words << "Logarithmic scale. Hatched: formula; solid: measured by the allocator.";
  if (standard.workspace > 0)
    words << QString(
                 "cuBLAS's workspace (%1, as it was given to it) is in the measured peak of standard; it is no "
                 "tensor of the algorithm.")
                 .arg(short_bytes(static_cast<std::int64_t>(standard.workspace)));
  else
    words << QString("On a GPU standard takes %1 of cuBLAS's workspace besides.")
                 .arg(short_bytes(kProductsWorkspaceBytes));
  if (std::any_of(groups.begin(), groups.end(), [](const MemoryGroup& group) { return group.sets > 1; }))
    words << "Q, K, V x N: timing takes N sets of inputs in turn.";
  double measuring = 0;
  for (const MemoryGroup& group : groups) measuring = std::max(measuring, group.measuring);
  if (measuring > 0)
    words << QString("Measuring took up to %1 besides (what empties the L2, counts, spans): no part of a run.")
                 .arg(short_bytes(static_cast<std::int64_t>(measuring)));
  note_->setText(words.join("<br>"));
}

}  // namespace flashscope::window
