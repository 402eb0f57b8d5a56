#include "app/window/docks/traffic_panel.h"

#include <cmath>

#include "app/window/docks/run_words.h"
#include "app/window/text.h"
#include "engine/attention/closed_form.h"
#include "engine/insight/traffic_table.h"

namespace flashscope::window {
namespace {

QString share(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? QString::number(100.0 * static_cast<double>(part) / static_cast<double>(whole), 'f', 1) + " %"
                   : QString();
}

QString bytes_cell(double bytes) { return grouped(static_cast<std::int64_t>(std::llround(bytes))); }

// "+40,192 (+0.16 %)"; "equal".
QString difference_text(const Difference& found) {
  if (found.bytes == 0) return "equal";
  const QString sign = found.bytes > 0 ? "+" : "";
  QString words = sign + bytes_cell(found.bytes);
  if (found.percent) {
    const double percent = *found.percent;
    words += QString(" (%1%2&nbsp;%)").arg(sign, QString::number(percent, 'f', std::abs(percent) < 0.1 ? 3 : 2));
  }
  return words;
}

// semantics.md: equal within 0.05 % for whole tiles with 16-byte rows, within 2 % otherwise.
QColor difference_colour(const TrafficLine& line, const Difference& found, const Colours& c) {
  if (line.against.empty() || !found.percent) return c.dim;
  const double percent = std::abs(*found.percent);
  return percent <= 0.05 ? c.good : percent <= 2 ? c.text : c.rescale;
}

QString direction(const std::vector<TrafficLine>& lines, double TrafficBytes::*part, const QString& title,
                  const Colours& c) {
  Table table(c, {title, "bytes", "against formula"});
  for (const TrafficLine& line : lines) {
    QString label = QString("<span style='color:%1'>%2</span> %3")
                        .arg(c.dim.name(), text(name(line.origin)), text(line.source).toHtmlEscaped());
    if (!line.caches.empty())
      label += QString(" <span style='color:%1'>%2</span>").arg(c.dim.name(), text(line.caches));
    if (!line.bytes) {
      table.row({label, dash(), "missing"}, c.dim);
    } else if (line.against.empty()) {
      table.row({label, bytes_cell((*line.bytes).*part), ""}, c.dim);
    } else {
      const Difference found = difference((*line.bytes).*part, line.baseline.*part);
      table.row({label, bytes_cell((*line.bytes).*part),
                 difference_text(found) + (line.against == "formula" ? "" : "<sup>*</sup>")},
                difference_colour(line, found, c));
    }
  }
  return table.html();
}

QString whole_run(const Document& document, const Run* run, const Colours& c) {
  const viz::StageData& stage = document.stage();
  const Report* report = run ? &run->report() : nullptr;
  // A chosen run has figures of its own; else they are the stage's.
  const bool own = run && run == document.runs().chosen().get();
  const Shape shape = own ? report->shape : stage.schedule->shape();
  const Recipe& recipe = own ? report->recipe : stage.schedule->recipe();
  const ElementsAndBytes& moved = own ? report->traffic : stage.traffic_total;
  const Mask* mask = !own ? &stage.schedule->mask() : run->problem() ? &run->problem()->mask : nullptr;
  const std::vector<TrafficLine> lines = traffic_table(shape, mask, recipe, moved.bytes, report);

  QString html = heading("Whole run", "bytes across the HBM boundary, all heads", c);
  if (run) html += paragraph(whose(document, *run, c), c.dim);
  html += direction(lines, &TrafficBytes::read, "READ", c) + direction(lines, &TrafficBytes::written, "WRITTEN", c);
  QStringList reasons;
  for (const TrafficLine& line : lines)
    if (!line.missing.empty()) {
      const QString reason = text(line.missing).toHtmlEscaped();
      const QString what = text(line.caches.empty() ? line.source : line.source + " " + line.caches);
      // One line for those that miss for the same reason.
      const QString tail = " missing: " + reason;
      if (!reasons.empty() && reasons.back().endsWith(tail))
        reasons.back().insert(reasons.back().size() - tail.size(), ", " + what);
      else
        reasons << what + tail;
    }
  for (const TrafficLine& line : lines)
    if (line.bytes && !line.against.empty() && line.against != "formula")
      reasons << "* against " + text(line.against) + ": what the L2 holds does not cross DRAM again";
  if (run && run->on_gpu() && report->gpu->measured) reasons << kColdAndWarm;
  if (!reasons.empty()) html += paragraph(reasons.join("<br>"), c.dim);

  const Moved elements = moved.elements.total();
  Table sums(c, {"total", "formula", "counted"});
  std::optional<ClosedForm> closed;
  if (mask && has_closed_form(*mask, recipe)) closed = closed_form(shape, *mask, recipe);
  sums.row({"elements", closed ? grouped(closed->elements.total().total()) : dash(), grouped(elements.total())});
  sums.row({"bytes", closed ? grouped(closed->bytes.total().total()) : dash(), grouped(moved.bytes.total().total())},
           true);
  html += sums.html();
  if (closed) {
    const bool equal = closed->elements.total() == elements && closed->bytes.total() == moved.bytes.total();
    html += paragraph((equal ? "formula = counted" : "formula and count DIFFER") +
                          (own ? QString() : ": " + text(stage.formula.text).toHtmlEscaped()),
                      equal ? c.good : c.bad);
  }
  html += paragraph(
      "Elements are in source units (each element the problem's size, as in the papers' tables); bytes are in kernel "
      "units (m, l, LSE and flash1's running O in float32).",
      c.dim);
  return html;
}

QString comparison(const viz::StageData& stage, const Colours& c) {
  const Saving& saving = stage.saving;
  const Traffic& moved = stage.traffic_total.elements;
  const std::int64_t mask = moved[Operand::mask].total() + moved[Operand::bias].total();
  const std::int64_t skipped = saving.by_skipping() + mask;  // its own reads are no loss by skipping
  Table table(c, {"", "elements", "of standard"});
  table.row({"standard (formula, idealised: no SRAM bound)", grouped(saving.standard), ""});
  table.row({"saved by tiling", grouped(saving.by_tiling()), share(saving.by_tiling(), saving.standard)});
  table.row({"saved by tiles not visited", grouped(skipped), share(skipped, saving.standard)});
  if (mask > 0) table.row({"read more: the file's mask", grouped(mask), share(mask, saving.standard)});
  table.row({"what is on the stage (counted)", grouped(saving.run), share(saving.run, saving.standard)}, true);
  table.row({"I/O minimum (formula: Q, K, V, O once)", grouped(stage.minimum.elements.total()),
             share(stage.minimum.elements.total(), saving.standard)});
  return heading("Against standard attention", "of what is on the stage", c) + table.html();
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
  QString html = heading("Each operand", "on the stage; bytes, counted, kernel units", c) + table.html();
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
  std::int64_t total = 0;
  for (const auto& buffer : stage.on_chip.buffers) {
    table.row({text(buffer.name), grouped(buffer.bytes), buffer.registers ? "registers" : "shared memory"});
    total += buffer.bytes;
  }
  table.row({"total", grouped(total), ""}, true);
  QString html = heading("On chip", "on the stage; one thread block, formula", c) + table.html();
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

QString full_run(const Report& report, const Colours& c) {
  QString html = heading("Full run", text(report.device + ", " + report.kernel), c);
  Table table(c, {"", ""});
  table.row({"time (measured)", QString::number(report.seconds * 1000, 'f', 2) + " ms"});
  table.row({"NaN rows", grouped(report.nan_row_count)});
  table.row({"checksum of O, of |O|", number(report.sum, 9) + ", " + number(report.sum_abs, 9)});
  if (report.error) {
    const bool others = report.error->nan_mismatch > 0 || (report.error->nan && report.error->nan->both > 0);
    table.row({others ? "largest error against float64 of the other rows" : "largest error against float64",
               number(report.error->max)});
    table.row({"tolerance", number(report.error->tolerance)});
    table.row({"rows checked", grouped(report.error->rows_checked) + " of " + grouped(report.error->rows)});
  }
  html += table.html();
  const RunVerdict verdict = verdict_of(report);
  if (report.error) html += paragraph(verdict.full, verdict.kind == RunVerdict::Kind::right ? c.good : c.nan);
  return html;
}

}  // namespace

QString TrafficPanel::html(const Document& document, const Colours& c) {
  const viz::StageData& stage = document.stage();
  if (!stage.schedule) return {};
  const RunPointer run = document.shown_run();
  QString html = paragraph(text(stage.conventions).toHtmlEscaped(), c.dim) + whole_run(document, run.get(), c) +
                 comparison(stage, c) + operands(stage, c) + chip(stage, c);
  if (run) html += full_run(run->report(), c);
  return html;
}

}  // namespace flashscope::window
