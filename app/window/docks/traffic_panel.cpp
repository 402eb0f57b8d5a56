#include "app/window/docks/traffic_panel.h"

#include <QEvent>
#include <QScrollBar>
#include <QTextBrowser>
#include <QVBoxLayout>

#include "app/window/text.h"
#include "app/window/theme.h"

namespace flashscope::window {
namespace {

// A table of text cells; the first row is its head, the first column its labels.
class Table {
 public:
  Table(const Colours& c, const QStringList& head) : colours_(c) {
    html_ = "<table width='100%' cellspacing='0' cellpadding='3'><tr>";
    for (qsizetype n = 0; n < head.size(); ++n) html_ += cell(head[n], n > 0, c.dim, false);
    html_ += "</tr>";
  }
  Table& row(const QStringList& cells, bool strong = false) {
    html_ += "<tr>";
    for (qsizetype n = 0; n < cells.size(); ++n) html_ += cell(cells[n], n > 0, colours_.text, strong);
    html_ += "</tr>";
    return *this;
  }
  QString html() const { return html_ + "</table>"; }

 private:
  static QString cell(const QString& content, bool right, const QColor& colour, bool strong) {
    return QString("<td align='%1' style='color:%2'>%3%4%5</td>")
        .arg(right ? "right" : "left", colour.name(), strong ? "<b>" : "", content, strong ? "</b>" : "");
  }
  const Colours& colours_;
  QString html_;
};

QString heading(const QString& title, const QString& remark, const Colours& c) {
  return QString("<p style='margin-top:12px;margin-bottom:2px;color:%1'><b>%2</b> <span style='color:%3'>%4</span></p>")
      .arg(c.accent.name(), title, c.dim.name(), remark);
}

QString paragraph(const QString& words, const QColor& colour) {
  return QString("<p style='margin-top:3px;margin-bottom:3px;color:%1'>%2</p>").arg(colour.name(), words);
}

QString share(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? QString::number(100.0 * static_cast<double>(part) / static_cast<double>(whole), 'f', 1) + " %"
                   : QString();
}

const QString kMissing = QString::fromUtf8("—");

QString whole_run(const viz::StageData& stage, const Report* report, const Colours& c) {
  const Moved elements = stage.traffic_total.elements.total(), bytes = stage.traffic_total.bytes.total();
  const bool has_formula = stage.formula.elements.has_value();
  const auto formula = [&](std::int64_t Moved::*part) {
    return has_formula ? grouped((*stage.formula.elements).*part) : kMissing;
  };
  Table table(c, {"", "formula", "counted", "measured"});
  table.row({"read, elements", formula(&Moved::read), grouped(elements.read), kMissing});
  table.row({"written, elements", formula(&Moved::written), grouped(elements.written), kMissing});
  table.row({"total, elements", has_formula ? grouped(stage.formula.elements->total()) : kMissing,
             grouped(elements.total()), kMissing},
            true);
  table.row({"total, bytes", kMissing, grouped(bytes.total()), kMissing}, true);
  QString html = heading("Whole run", "across the HBM boundary, all heads", c) + table.html();
  if (has_formula) {
    const bool equal = *stage.formula.elements == elements;
    html += paragraph(
        (equal ? "formula = counted: " : "formula and count DIFFER: ") + text(stage.formula.text).toHtmlEscaped(),
        equal ? c.good : c.nan);
  } else {
    html += paragraph("no formula: " + text(stage.formula.reason).toHtmlEscaped(), c.dim);
  }
  html += paragraph(
      QString("measured: missing. %1")
          .arg(report
                   ? "The full run was on the CPU, where these bytes are counted; only a GPU's counters measure them."
                   : "Only a GPU's counters measure these bytes, and no GPU run was made."),
      c.dim);
  html += paragraph(
      "Elements are in source units (each element the problem's size, as in the papers' tables); bytes are in kernel "
      "units (m, l, LSE and flash1's running O in float32).",
      c.dim);
  return html;
}

QString comparison(const viz::StageData& stage, const Colours& c) {
  const Saving& saving = stage.saving;
  Table table(c, {"", "elements", "of standard"});
  table.row({"standard (formula, idealised: no SRAM bound)", grouped(saving.standard), ""});
  table.row({"saved by tiling", grouped(saving.by_tiling()), share(saving.by_tiling(), saving.standard)});
  table.row(
      {"saved by tiles not visited", grouped(saving.by_skipping()), share(saving.by_skipping(), saving.standard)});
  table.row({"this run (counted)", grouped(saving.run), share(saving.run, saving.standard)}, true);
  table.row({"I/O minimum (formula: Q, K, V, O once)", grouped(stage.minimum.elements.total()),
             share(stage.minimum.elements.total(), saving.standard)});
  return heading("Against standard attention", "", c) + table.html();
}

QString operands(const viz::StageData& stage, const Colours& c) {
  Table table(c, {"", "read so far", "written so far", "read in all", "written in all"});
  const Traffic &now = stage.traffic_so_far.bytes, &all = stage.traffic_total.bytes;
  for (int n = 0; n < kOperands; ++n) {
    const auto operand = static_cast<Operand>(n);
    if (all[operand].total() == 0) continue;
    table.row({text(name(operand)), grouped(now[operand].read), grouped(now[operand].written),
               grouped(all[operand].read), grouped(all[operand].written)});
  }
  const Moved so_far = now.total(), total = all.total();
  table.row({"total", grouped(so_far.read), grouped(so_far.written), grouped(total.read), grouped(total.written)},
            true);
  QString html = heading("Each operand", "bytes, counted, kernel units", c) + table.html();
  const Moved init = init_elements(stage.schedule->shape(), stage.schedule->recipe());
  if (init.total() > 0)
    html += paragraph(
        "Setting up O, l, m: " + grouped(init.total()) + " elements, outside the totals as in the source (formula).",
        c.dim);
  html += paragraph("Matrix products of the run: " + grouped(matmul_flops(*stage.schedule)) +
                        " FLOP (counted: 2 br bc (d + dv) a tile).",
                    c.text);
  return html;
}

QString chip(const viz::StageData& stage, const Colours& c) {
  Table table(c, {"", "bytes", "where"});
  for (const auto& buffer : stage.on_chip.buffers)
    table.row({text(buffer.name), grouped(buffer.bytes), buffer.registers ? "registers" : "shared memory"});
  table.row({"total", grouped(stage.on_chip.total()), ""}, true);
  QString html = heading("On chip", "one thread block, formula", c) + table.html();
  const Recipe& recipe = stage.schedule->recipe();
  if (recipe.algorithm == Algorithm::standard)
    html += paragraph("standard: idealised, no SRAM budget.", c.dim);
  else if (recipe.sram)
    html += paragraph(
        QString(
            "Budget M = %1 elements; Br = %2, Bc = %3 come from the first paper's rule, whose own sizes can exceed M.")
            .arg(grouped(*recipe.sram), grouped(recipe.Br), grouped(recipe.Bc)),
        c.dim);
  return html;
}

QString memory(const viz::StageData& stage, const Report* report, const Colours& c) {
  Table table(c, {"", "bytes"});
  for (int n = 0; n < kOperands; ++n)
    if (stage.footprint.bytes[n] > 0)
      table.row({text(name(static_cast<Operand>(n))), grouped(stage.footprint.bytes[n])});
  table.row({"total", bytes_text(stage.footprint.total())}, true);
  table.row({"beyond Q, K, V, O", bytes_text(stage.footprint.extra())});
  QString html = heading("Memory in HBM", "footprint, formula, all heads", c) + table.html();
  html += report ? paragraph("CPU run, peak beyond Q, K, V: <b>" + bytes_text(report->peak_bytes) +
                                 "</b> (measured by its allocator).",
                             c.text)
                 : paragraph("measured: missing. Run everything (Go menu) to measure the CPU run's memory.", c.dim);
  return html;
}

QString full_run(const Report& report, const Colours& c) {
  QString html = heading("Full run", text(report.device + ", " + report.kernel), c);
  Table table(c, {"", ""});
  table.row({"time (measured)", QString::number(report.seconds * 1000, 'f', 2) + " ms"});
  table.row({"NaN rows", grouped(report.nan_row_count)});
  table.row({"checksum of O, of |O|", number(report.sum, 9) + ", " + number(report.sum_abs, 9)});
  if (report.error) {
    table.row({"largest error against float64", number(report.error->max)});
    table.row({"tolerance", number(report.error->tolerance)});
    table.row({"rows checked", grouped(report.error->rows_checked) + " of " + grouped(report.error->rows)});
  }
  html += table.html();
  if (report.error)
    html += paragraph(report.error->within() ? "Every checked row is right."
                      : report.error->nan_mismatch > 0
                          ? grouped(report.error->nan_mismatch) + " checked rows are NaN where the reference is not."
                          : QString("Wrong: beyond the tolerance, worst in head %1, row %2.")
                                .arg(grouped(report.error->worst_head), grouped(report.error->worst_row)),
                      report.error->within() ? c.good : c.nan);
  return html;
}

}  // namespace

TrafficPanel::TrafficPanel(QWidget* parent) : Panel(parent) {
  text_ = new QTextBrowser;
  text_->setFrameShape(QFrame::NoFrame);
  text_->setOpenLinks(false);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->addWidget(text_);
}

void TrafficPanel::refresh(const Document& document) {
  const viz::StageData& stage = document.stage();
  if (!stage.schedule) return;
  const Colours c = colours(palette());
  const std::shared_ptr<const Report> report = document.report();
  QString html = paragraph(text(stage.conventions).toHtmlEscaped(), c.dim) + whole_run(stage, report.get(), c) +
                 comparison(stage, c) + operands(stage, c) + chip(stage, c) + memory(stage, report.get(), c);
  if (report) html += full_run(*report, c);
  show_html(html);
}

void TrafficPanel::show_html(const QString& html) {
  if (html == shown_) return;
  shown_ = html;
  const int at = text_->verticalScrollBar()->value();
  text_->setHtml(html);
  text_->verticalScrollBar()->setValue(at);
}

void TrafficPanel::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange) shown_.clear();
  Panel::changeEvent(event);
}

}  // namespace flashscope::window
