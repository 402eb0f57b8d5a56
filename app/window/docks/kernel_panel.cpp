#include "app/window/docks/kernel_panel.h"

#include <QComboBox>
#include <QHBoxLayout>
#include <QLabel>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>

#include "app/window/docks/run_words.h"
#include "app/window/text.h"
#include "engine/insight/hardware.h"

namespace flashscope::window {
namespace {

QString microseconds(double seconds) {
  return seconds < 1e-3 ? QString::number(seconds * 1e6, 'f', 1) + QString::fromUtf8(" µs")
                        : QString::number(seconds * 1e3, 'f', 3) + " ms";
}
QString percent(double value) { return QString::number(value, 'f', 1) + " %"; }

// Blocks of threads that are launched: flash1 one a head, flash2 one a row block of each head.
QString blocks_and_sms(const Shape& shape, const Recipe& recipe, std::int64_t sms, const QString& where,
                       const Colours& c) {
  QString html = heading("Blocks of threads", where, c);
  Table table(c, {"", "blocks (formula)", QString("on %1 SMs").arg(grouped(sms))});
  const std::int64_t Tr = (shape.Nq + recipe.Br - 1) / recipe.Br;
  const auto line = [&](Algorithm algorithm, const QString& formula, std::int64_t blocks) {
    const bool idle = blocks < sms;
    const QString fill =
        idle ? grouped(sms - blocks) + " SMs idle"
             : QString::number(static_cast<double>(blocks) / static_cast<double>(sms), 'f', 2) + " a SM";
    const QString label = QString("%1%2%3 <span style='color:%4'>%5</span>")
                              .arg(algorithm == recipe.algorithm ? "<b>" : "", text(name(algorithm)),
                                   algorithm == recipe.algorithm ? "</b>" : "", c.dim.name(), formula);
    table.row({label, grouped(blocks), fill}, idle ? c.rescale : c.good);
  };
  line(Algorithm::flash1, "heads", shape.heads);
  line(Algorithm::flash2, QString("heads x Tr, Br = %1").arg(grouped(recipe.Br)), shape.heads * Tr);
  return html + table.html();
}

QString kernel_facts(const Report& report, const Colours& c) {
  const GpuFigures& gpu = *report.gpu;
  Table table(c, {"", ""});
  table.row({"registers a thread", grouped(gpu.registers)});
  const bool spills = gpu.spill_stores + gpu.spill_loads > 0;
  table.row({"spilled bytes a thread, stored + loaded", QString("%1 + %2").arg(gpu.spill_stores).arg(gpu.spill_loads)},
            spills ? c.rescale : c.text);
  table.row({"shared memory a block", bytes_text(gpu.shared_bytes)});
  table.row({"threads a block", grouped(gpu.threads)});
  table.row({"blocks launched", grouped(gpu.blocks)});
  table.row({"blocks that fit on an SM", grouped(gpu.blocks_per_sm)});
  table.row({"SMs", grouped(gpu.sms)});
  QString html =
      heading("Kernel", text(report.kernel).toHtmlEscaped() + ", as compiled for " + text(gpu.architecture), c);
  if (report.recipe.algorithm == Algorithm::standard)
    html += paragraph("These are of softmax_rows; time and counters are of all three launches.", c.dim);
  return html + table.html();
}

QString time_facts(const Report& report, const Colours& c) {
  const GpuFigures& gpu = *report.gpu;
  const std::optional<Caches> inputs = gpu.input_caches(report.tensor_bytes);
  QString html = heading("Time",
                         QString("measured by events, %1 launches, %2 input sets in turn%3")
                             .arg(gpu.repeats)
                             .arg(gpu.input_sets)
                             .arg(inputs ? ", inputs " + text(name(*inputs)) + " in the L2" : QString()),
                         c);
  Table table(c, {"", ""});
  table.row({"median", microseconds(gpu.median)}, true);
  table.row({"fastest to slowest", microseconds(gpu.fastest) + " to " + microseconds(gpu.slowest)});
  if (gpu.flops > 0 && gpu.median > 0) {
    table.row({"TFLOP/s, the papers' convention", QString::number(gpu.tflops(), 'f', 1)});
    const HardwareSheet* sheet = find_sheet(report.device);
    const Quantity quantity = peak_quantity(report.shape.type);
    if (const std::optional<double> peak = sheet ? sheet->value(quantity) : std::nullopt)
      table.row({QString("of the sheet's %1 TFLOP/s (%2, %3)")
                     .arg(QString::number(*peak / 1e12, 'f', 0), text(sheet->name), text(name(quantity))),
                 percent(100 * gpu.tflops() * 1e12 / *peak)});
    else
      html += paragraph("share of the peak: missing, no sheet of " + text(report.device).toHtmlEscaped(), c.dim);
  }
  return html + table.html();
}

QString counter_facts(const GpuFigures& gpu, const Colours& c) {
  if (!gpu.measured)
    return heading("Counters", "", c) +
           paragraph("missing: " +
                         text(gpu.not_measured.empty() ? "not measured in this run" : gpu.not_measured).toHtmlEscaped(),
                     c.dim);
  Table table(c, {"", "caches cold", "caches warm"});
  const auto row = [&](const char* label, double HardwareFigures::*figure, const auto& shown) {
    table.row(
        {label, shown((*gpu.measured).*figure), gpu.measured_warm ? shown((*gpu.measured_warm).*figure) : dash()});
  };
  const auto count = [](double n) { return grouped(std::llround(n)); };
  row("tensor pipes, of their peak", &HardwareFigures::tensor_percent, percent);
  row("occupancy: warps, of the most that fit", &HardwareFigures::occupancy_percent, percent);
  row("L2 hits", &HardwareFigures::l2_hit_percent, percent);
  row("bank conflicts in shared memory", &HardwareFigures::bank_conflicts, count);
  row("bytes written to DRAM", &HardwareFigures::dram_written, count);
  if (gpu.measured->seconds)
    table.row({"duration under the profiler", microseconds(*gpu.measured->seconds),
               gpu.measured_warm && gpu.measured_warm->seconds ? microseconds(*gpu.measured_warm->seconds) : dash()});
  QString html = heading("Counters", QString("measured, %1 passes").arg(gpu.measured->passes), c) + table.html() +
                 paragraph(kColdAndWarm, c.dim);
  if (gpu.measured->seconds)
    html += paragraph("The profiler runs each launch alone; the median above is of launches in a row.", c.dim);
  if (std::max(gpu.measured->l2_hit_percent, gpu.measured_warm ? gpu.measured_warm->l2_hit_percent : 0) > 100)
    html += paragraph("L2 hits above 100 %: as the hardware's counter gives it.", c.dim);
  if (gpu.measured->dram_written_idle)
    html += paragraph("Written to DRAM without the kernel, by others on the device (measured): " +
                          count(*gpu.measured->dram_written_idle) + " bytes a pass.",
                      c.dim);
  return html;
}

}  // namespace

KernelPanel::KernelPanel(QWidget* parent) : HtmlPanel(parent) {
  auto* row = new QHBoxLayout;
  row->setContentsMargins(8, 4, 8, 0);
  row->addWidget(new QLabel("SMs of"));
  sheets_ = new QComboBox;
  sheets_->setObjectName("sheet");
  sheets_->setToolTip("Whose data sheet says how many SMs there are, where no run on a GPU is shown");
  for (const HardwareSheet& sheet : hardware_sheets()) sheets_->addItem(text(sheet.name));
  set_sheet("H200");
  row->addWidget(sheets_, 1);
  static_cast<QVBoxLayout*>(layout())->insertLayout(0, row);
  connect(sheets_, &QComboBox::currentIndexChanged, this, [this] { emit change([](Document&) {}); });
}

QString KernelPanel::sheet() const { return sheets_->currentText(); }
void KernelPanel::set_sheet(const QString& name) {
  for (int n = 0; n < sheets_->count(); ++n)
    if (sheets_->itemText(n).startsWith(name)) return sheets_->setCurrentIndex(n);
}

QString KernelPanel::html(const Document& document, const Colours& c) {
  if (!document.problem()) return {};
  const RunPointer run = document.shown_run();
  const Report* report = run && run->on_gpu() ? &run->report() : nullptr;
  sheets_->setEnabled(!report);
  if (report) {
    return paragraph(whose(document, *run, c), c.dim) +
           blocks_and_sms(report->shape, report->recipe, report->gpu->sms, "formula; SMs of the device", c) +
           kernel_facts(*report, c) + time_facts(*report, c) + counter_facts(*report->gpu, c);
  }
  const HardwareSheet* sheet = find_sheet(sheets_->currentText().toStdString());
  QString html;
  if (const std::optional<double> sms = sheet ? sheet->value(Quantity::sms) : std::nullopt)
    html = blocks_and_sms(document.problem()->shape(), document.recipe(), std::llround(*sms), "formula; SMs: sheet", c);
  return html + heading("Kernel", "", c) +
         paragraph(run ? "registers, time and counters: missing. The run that is shown was on the CPU."
                       : "registers, time and counters: missing. Nothing was run on a GPU.",
                   c.dim);
}

}  // namespace flashscope::window
