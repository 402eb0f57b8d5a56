#include "app/window/explorer/explorer_window.h"

#include <QApplication>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QPushButton>
#include <QSplitter>
#include <QTabWidget>
#include <QTableWidget>
#include <QTimer>
#include <QVBoxLayout>
#include <cmath>
#include <utility>

#include "app/window/explorer/chart_view.h"
#include "app/window/explorer/explorer_controls.h"
#include "app/window/text.h"
#include "engine/insight/measured_chart.h"
#include "viz/scene.h"

namespace flashscope::window {
namespace {

constexpr const char* kMeasuredAdvice = "measured";
constexpr int kControls = 320;  // pixels wide, so that no box is cut

QTableWidget* make_table(const QStringList& columns, const char* object_name) {
  auto* table = new QTableWidget(0, static_cast<int>(columns.size()));
  table->setObjectName(object_name);
  table->setHorizontalHeaderLabels(columns);
  table->setEditTriggers(QAbstractItemView::NoEditTriggers);
  table->setSelectionBehavior(QAbstractItemView::SelectRows);
  table->verticalHeader()->hide();
  table->horizontalHeader()->setStretchLastSection(true);
  table->setWordWrap(true);
  return table;
}

void set_row(QTableWidget* table, int row, const QStringList& cells) {
  for (int n = 0; n < cells.size(); ++n) {
    auto* item = new QTableWidgetItem(cells[n]);
    item->setToolTip(cells[n]);
    table->setItem(row, n, item);
  }
}

QString figure_text(Quantity quantity, double value) {
  if (unit(quantity) == "bytes") return short_bytes(static_cast<std::int64_t>(value));
  if (unit(quantity) == "bytes/s")
    return value >= 1e12 ? QString("%1 TB/s").arg(value / 1e12) : QString("%1 GB/s").arg(value / 1e9);
  if (unit(quantity) == "FLOP/s") return QString("%1 TFLOP/s").arg(value / 1e12);
  return grouped(static_cast<std::int64_t>(value));
}

// Without the points that are still to be measured.
std::shared_ptr<const MeasuredSweep> measured_part(const std::shared_ptr<const MeasuredSweep>& sweep) {
  auto part = std::make_shared<MeasuredSweep>(*sweep);
  std::erase_if(part->points, [](const MeasuredPoint& point) { return !point.done(); });
  return part;
}

}  // namespace

ExplorerWindow::ExplorerWindow(QWidget* parent)
    : QWidget(parent, Qt::Window), measuring_(this), work_(this), looking_(this) {
  setObjectName("explorer");
  setWindowTitle("Explorer - flashscope");
  controls_ = new ExplorerControls;
  tabs_ = new QTabWidget;
  tabs_->setDocumentMode(true);
  tabs_->setUsesScrollButtons(true);
  message_ = new QLabel;
  message_->setWordWrap(true);
  message_->hide();

  map_ = new MapView, formula_map_ = new MapView;
  auto* maps = new QSplitter;
  maps->setChildrenCollapsible(false);
  for (MapView* map : {formula_map_, map_}) {
    maps->addWidget(map);
    connect(map, &MapView::chosen, this, [this](std::int64_t Br, std::int64_t Bc) {
      open_recipe(Br, Bc, controls_->state().gauge ? Of::measured : Of::formula);  // both maps show the explored recipe
    });
  }
  formula_map_->hide();
  connect(maps, &QSplitter::splitterMoved, this, &ExplorerWindow::align_maps);
  pages_.emplace_back(Page::map, maps);
  tabs_->addTab(maps, "Map");
  tabs_->setTabToolTip(0, "Br x Bc");
  add_chart(Page::n, "N", "Traffic against the sequence length");
  add_chart(Page::budget, "M", "Traffic against the on-chip budget; break-even");
  add_chart(Page::d, "d", "Traffic against the head dimension");
  add_chart(Page::roofline, "Roofline", "Balance point, and each algorithm at its intensity");
  add_chart(Page::orders, "Orders", "The loop orders at the same footprint");
  add_chart(Page::unfused, "Unfused", "Standard attention with passes of their own");
  add_chart(Page::saving, "Saving", "Tiling and tiles that are not visited");
  add_chart(Page::footprint, "Footprint", "What must be held in HBM");

  auto* advice_page = new QWidget;
  auto* advice_layout = new QVBoxLayout(advice_page);
  advice_ = make_table(
      {"", "Br", "Bc", "traffic [formula]", "time [measured]", "shared memory a block", "blocks", "why"}, "advice");
  advice_note_ = new QLabel;
  advice_note_->setObjectName("advice_note");
  advice_note_->setWordWrap(true);
  auto* open = new QPushButton("Open in the stepper");
  connect(open, &QPushButton::clicked, this, [this] {
    const int row = advice_->currentRow();
    if (row < 0) return;
    open_recipe(advice_->item(row, 1)->text().toLongLong(), advice_->item(row, 2)->text().toLongLong(),
                advice_->item(row, 0)->text().startsWith(kMeasuredAdvice) ? Of::measured : Of::formula);
  });
  connect(advice_, &QTableWidget::cellDoubleClicked, open, &QPushButton::click);
  advice_layout->addWidget(advice_, 1);
  advice_layout->addWidget(open, 0, Qt::AlignLeft);
  advice_layout->addWidget(advice_note_);
  pages_.emplace_back(Page::advice, advice_page);
  tabs_->addTab(advice_page, "Advice");
  hardware_ = make_table({"", "value", "source"}, "hardware");
  pages_.emplace_back(Page::hardware, hardware_);
  tabs_->addTab(hardware_, "Hardware");

  bar_ = new MeasureBar;
  connect(bar_, &MeasureBar::start, this, &ExplorerWindow::start_measuring);
  connect(bar_, &MeasureBar::pause, &measuring_, &Measuring::pause);
  connect(bar_, &MeasureBar::resume, &measuring_, &Measuring::resume);
  connect(bar_, &MeasureBar::cancel, &measuring_, &Measuring::cancel);
  connect(bar_, &MeasureBar::chosen, this, [this](int n) {
    if (n >= 0 && n < static_cast<int>(sweeps_.size())) explore(sweeps_[static_cast<std::size_t>(n)]);
  });
  connect(&measuring_, &Measuring::changed, this, &ExplorerWindow::on_measuring);

  auto* right = new QWidget;
  auto* pages = new QVBoxLayout(right);
  pages->setContentsMargins(0, 0, 0, 0);
  pages->addWidget(bar_);
  pages->addWidget(tabs_, 1);
  splitter_ = new QSplitter;
  splitter_->addWidget(controls_);
  splitter_->addWidget(right);
  splitter_->setStretchFactor(1, 1);
  splitter_->setCollapsible(1, false);
  controls_->setMinimumWidth(kControls);
  right->setMinimumWidth(2 * kControls);  // whatever page is open: the tabs stay where they are
  splitter_->setSizes({kControls, 900});
  auto* layout = new QVBoxLayout(this);
  layout->addWidget(message_);
  layout->addWidget(splitter_, 1);
  layout->setSizeConstraint(QLayout::SetNoConstraint);  // text of a large window would keep it large
  setMinimumSize(760, 480);
  resize(1180, 680);
  connect(controls_, &ExplorerControls::edited, this, &ExplorerWindow::update_page);
  connect(tabs_, &QTabWidget::currentChanged, this, [this] {
    show_measuring();
    update_page();
  });
  show_measuring();
}

void ExplorerWindow::add_chart(Page page, const QString& title, const QString& tip) {
  auto* view = new ChartView;
  pages_.emplace_back(page, view);
  tabs_->setTabToolTip(tabs_->addTab(view, title), tip);
}

void ExplorerWindow::showEvent(QShowEvent* event) {
  QWidget::showEvent(event);
  look_at_device();
  update_page();
}

void ExplorerWindow::resizeEvent(QResizeEvent* event) {
  QWidget::resizeEvent(event);
  scale_text();
  align_maps();
}

// As the stage: what is readable at 1280 x 720 stays so from afar, where the window fills a larger screen.
void ExplorerWindow::scale_text() {
  const float scale = std::max(1.f, viz::unit_of(static_cast<float>(width()), static_cast<float>(height()), 1));
  const float before = std::exchange(scale_, scale);
  if (scale == before) return;
  // Below the application's style sheet a font of this window would not reach what is in it.
  const double points = QApplication::font().pointSizeF() * static_cast<double>(scale);
  setStyleSheet(scale > 1 ? QString("* { font-size: %1pt; }").arg(points) : QString());
  const int all = width(), controls = splitter_->sizes().front();  // 0: not laid out yet
  const int wider = qRound(static_cast<float>(controls > 0 ? controls : kControls) * scale / before);
  controls_->setMinimumWidth(qRound(kControls * scale));
  splitter_->setSizes({wider, all - wider});
  show_measuring();
  update_page();  // tables fit their rows and columns
}

void ExplorerWindow::align_maps() {
  // Words are laid out in their new width first.
  QTimer::singleShot(0, this, [this] { map_->align(formula_map_->isVisible() ? formula_map_ : nullptr); });
}

void ExplorerWindow::take_gpus(const gpu::GpuStatus& status) {
  gpus_ = status;
  if (!status.devices.empty() && !std::exchange(listed_, true))
    for (const gpu::GpuDevice& device : status.devices)
      controls_->add_device(sheet_of_device({device.name, device.major, device.minor, device.limits.sms,
                                             device.limits.shared_bytes_per_block, device.limits.shared_bytes_per_sm,
                                             device.limits.l2_bytes, device.memory_bytes}));
  looked_ = false;
  if (isVisible()) look_at_device();
}

void ExplorerWindow::choose_device(int device) {
  if (std::exchange(measure_options_.device, device) == device || given_) return;
  on_.reset(), no_gpu_ = kLooking;
  looked_ = false;
  if (isVisible()) look_at_device();
  show_measuring();
}

void ExplorerWindow::look_at_device() {
  struct Found {
    std::optional<MeasuredOn> on;
    std::string missing;
  };
  if (!gpus_ || given_ || std::exchange(looked_, true)) return;
  looking_.start(
      [status = *gpus_, device = measure_options_.device](const std::stop_token&) {
        Found found;
        try {
          found.on = measured_on(status, device);
        } catch (const std::exception& missing) {
          found.missing = missing.what();
        }
        return found;
      },
      [this](const Found& found) {
        if (given_) return;
        on_ = found.on, no_gpu_ = found.missing;
        if (measure_options_.cache.empty()) measure_options_.cache = measured_cache();
        show_measuring();
      },
      [](const QString&) {});
}

void ExplorerWindow::refresh(const Document& document) {
  if (!document.problem()) return;
  if (std::exchange(run_on_gpu_, document.runs_on_gpu()) != run_on_gpu_) show_measuring();
  const bool moved = document.recipe() != stepper_;
  stepper_ = document.recipe();
  stepped_ = document.problem();
  const bool ran = document.runs().all() != runs_;
  runs_ = document.runs().all();
  if (document.sweeps() != sweeps_) {
    sweeps_ = document.sweeps();
    if (chosen_) {  // as it is now
      const auto found =
          std::find_if(sweeps_.begin(), sweeps_.end(), [this](const Sweep& one) { return same_sweep(*one, *chosen_); });
      chosen_ = found == sweeps_.end() ? Sweep() : *found;
    }
    const Sweep& measured = measuring_.sweep();
    const bool own = measured && !sweeps_.empty() && same_sweep(*sweeps_.back(), *measured);
    if (!sweeps_.empty() && !own) return explore(sweeps_.back());  // out of a session
    show_measuring();
    update_page();
  }
  controls_->follow(document.problem()->shape(), document.problem()->mask, document.recipe());
  if (moved || ran) update_page();  // its mark in the map; the roofline's points
}

void ExplorerWindow::explore(const Sweep& sweep) {
  chosen_ = sweep;
  const Page page = page_of(*sweep);
  if (page == Page::map && !controls_->state().gauge) controls_->choose_gauge(Gauge::l2_sm);
  controls_->choose_device(sweep->on.device);
  controls_->explore(typical_point(*sweep));
  go_to(page);
  show_measuring();
}

void ExplorerWindow::go_to(Page page) {
  for (const auto& [kind, widget] : pages_)
    if (kind == page) tabs_->setCurrentWidget(widget);
}

// The explored problem and recipe into the stepper: a problem of random tensors is made again in that shape, the
// tensors of a file stay what they are. What was measured is of the explored recipe with all its conventions; of the
// formula's, the stepper's own are kept.
void ExplorerWindow::open_recipe(std::int64_t Br, std::int64_t Bc, Of of) {
  controls_->choose_blocks(Br, Bc);
  const CurveProblem explored = controls_->state().problem;
  Recipe recipe = of == Of::measured ? explored.recipe : stepper_;
  recipe.Br = Br, recipe.Bc = Bc, recipe.sram.reset();
  if (recipe.algorithm != explored.recipe.algorithm) {
    recipe.algorithm = explored.recipe.algorithm;
    recipe.normalise.reset();
  }
  if (controls_->follows() || !stepped_ || (stepped_->shape() == explored.shape && stepped_->mask == explored.mask)) {
    emit change([recipe](Document& document) { document.set_recipe(recipe); });
    return;
  }
  emit opened(explored.shape, explored.mask, recipe);
}

// ---- measuring

void ExplorerWindow::measure_on(const std::optional<MeasuredOn>& on, const MeasureOptions& options) {
  measure_options_ = options;
  if (on) on_ = on, given_ = true, no_gpu_.clear();
  show_measuring();
}

ExplorerWindow::Sweep ExplorerWindow::shown_sweep() const {
  if (chosen_) return chosen_;
  if (measuring_.state() != Measuring::State::idle) return measuring_.sweep();
  return sweeps_.empty() ? Sweep() : sweeps_.back();
}

void ExplorerWindow::start_measuring() {
  if (!on_ || run_on_gpu_) return;
  controls_->choose_device(on_->device);
  const CurveProblem& problem = controls_->state().problem;
  chosen_.reset();
  if (const std::optional<Along> along = along_of(page()))
    return measuring_.start(begin_sweep(*on_, measure_options_, points_along(*along, problem)), false,
                            measure_options_);
  MeasuredPoint like;
  like.shape = problem.shape, like.mask = problem.mask, like.recipe = problem.recipe;
  if (!controls_->state().gauge) controls_->choose_gauge(Gauge::l2_sm);
  measuring_.start(begin_plane(*on_, measure_options_, like), true, measure_options_);
}

void ExplorerWindow::on_measuring() {
  emit measures(measuring_.on_gpu());
  if (measuring_.measured() > 0) emit measured(measured_part(measuring_.sweep()));
  show_measuring();
  update_page();
}

void ExplorerWindow::show_measuring() {
  const CurveProblem& problem = controls_->state().problem;
  MeasuredPoint like;
  like.shape = problem.shape, like.mask = problem.mask, like.recipe = problem.recipe;
  const std::optional<Along> along = along_of(page());
  std::string why = !on_          ? no_gpu_
                    : run_on_gpu_ ? "a full run is on the GPU, and its counters would see this sweep too"
                                  : why_not_measurable(like);
  if (why.empty() && !along && problem.recipe.algorithm == Algorithm::standard)
    why = "standard attention has no block sizes to choose";
  const QString what = !along               ? "Measure block sizes"
                       : *along == Along::N ? "Measure lengths"
                       : *along == Along::d ? "Measure d"
                                            : "Measure budgets";
  bar_->show_state(measuring_, what, text(why));
  bar_->show_sweeps(sweeps_, shown_sweep());
}

Page ExplorerWindow::page() const {
  const auto found = std::find_if(pages_.begin(), pages_.end(),
                                  [this](const auto& page) { return page.second == tabs_->currentWidget(); });
  return found == pages_.end() ? Page::map : found->first;
}

void ExplorerWindow::update_page() {
  if (!isVisible()) return;
  if (work_.running()) {
    again_ = true;
    return;
  }
  again_ = false;
  const Page page = this->page();
  if (page == Page::hardware) return show_hardware();
  const Asked asked{page, controls_->state(), known_, shown_sweep(), sweeps_, runs_, stepper_};
  work_.start([asked](const std::stop_token& stop) { return compute_page(asked, stop); },
              [this, page](PageResult result) {
                take(page, std::move(result));
                if (again_) update_page();
              },
              [this](const QString& why) {
                message_->setText(why);
                message_->show();
                if (again_) update_page();
              });
}

void ExplorerWindow::take(Page page, PageResult result) {
  message_->hide();
  if (const auto* words = std::get_if<std::string>(&result)) {
    message_->setText(text(*words));
    message_->show();
  }
  if (auto* maps = std::get_if<MapPage>(&result)) {
    known_ = maps->map.problem;
    map_->show_map(std::move(maps->map));
    formula_map_->setVisible(maps->formula.has_value());
    if (maps->formula) formula_map_->show_map(std::move(*maps->formula));
    align_maps();
  }
  if (auto* chart = std::get_if<Chart>(&result)) {
    for (const auto& [kind, widget] : pages_)
      if (kind == page) static_cast<ChartView*>(widget)->show_chart(std::move(*chart));
  }
  if (const auto* advice = std::get_if<AdvicePage>(&result)) show_advice(*advice);
}

void ExplorerWindow::show_advice(const AdvicePage& advice) {
  const AdviceList& list = advice.formula;
  advice_->setRowCount(0);
  const auto time_of = [&](const Recipe& recipe) -> QString {
    if (advice.sweep)
      for (const MeasuredPoint& point : advice.sweep->points)
        if (point.gpu && point.recipe.Br == recipe.Br && point.recipe.Bc == recipe.Bc)
          return text(value_text(point.gpu->median, gauge_axis(Gauge::seconds)));
    return "not measured";
  };
  const auto add = [&](const QString& what, const Advice& one) {
    const int row = advice_->rowCount();
    advice_->insertRow(row);
    set_row(
        advice_, row,
        {what, QString::number(one.recipe.Br), QString::number(one.recipe.Bc),
         short_bytes(one.cost.form.bytes.total().total()), time_of(one.recipe),
         short_bytes(one.demand.shared_bytes) + " [formula]", grouped(one.cost.blocks) + " [formula]", text(one.why)});
  };
  for (const MeasuredAdvice& one : advice.measured.best) {
    const MeasuredPoint& point = advice.sweep->points[one.point];
    const int row = advice_->rowCount();
    advice_->insertRow(row);
    const auto bytes = formula_bytes(point);
    set_row(advice_, row,
            {QString(kMeasuredAdvice) + (row == 0 ? " best" : " next"), QString::number(point.recipe.Br),
             QString::number(point.recipe.Bc), bytes ? short_bytes(static_cast<std::int64_t>(*bytes)) : "none",
             time_of(point.recipe), short_bytes(point.gpu->shared_bytes) + " [compiled]",
             grouped(point.gpu->blocks) + " [launched]", text(one.why)});
  }
  for (std::size_t n = 0; n < list.best.size(); ++n) add(n == 0 ? "least traffic" : "next", list.best[n]);
  for (std::size_t n = 0; n < list.fills.size(); ++n) add(n == 0 ? "fills it" : "nearly", list.fills[n]);
  for (int column = 0; column + 1 < advice_->columnCount(); ++column) advice_->resizeColumnToContents(column);
  advice_->resizeRowsToContents();
  if (advice_->rowCount() > 0) advice_->setCurrentCell(0, 0);
  QString note = (list.best.empty() ? "Nothing fits; judged " : "Least traffic (not the fastest): judged ") +
                 text(list.note) + ".";
  if (!advice.measured.best.empty()) note = "Measured: judged " + text(advice.measured.note) + ".\n" + note;
  advice_note_->setText(note);
}

void ExplorerWindow::show_hardware() {
  message_->hide();
  hardware_->setRowCount(0);
  const std::optional<HardwareSheet>& device = controls_->state().device;
  if (!device) {
    message_->setText("No device is chosen: nothing is infeasible, and there is no roofline.");
    message_->show();
    return;
  }
  const auto add = [this](const QStringList& cells) {
    hardware_->insertRow(hardware_->rowCount());
    set_row(hardware_, hardware_->rowCount() - 1, cells);
  };
  add({"device", text(device->name), ""});
  add({"compute capability", text(device->compute_capability), ""});
  for (int n = 0; n < kQuantities; ++n) {
    const auto quantity = static_cast<Quantity>(n);
    const std::optional<Figure>& figure = (*device)[quantity];
    add({text(name(quantity)), figure ? figure_text(quantity, figure->value) : "absent",
         figure ? text(figure->source) : "no source gives it"});
  }
  const DType type = controls_->state().problem.shape.type;
  const std::optional<double> ridge = balance(*device, type);
  add({"balance point, " + text(name(peak_quantity(type))),
       ridge ? QString("%1 FLOP/byte").arg(*ridge, 0, 'f', 1) : "absent", "peak / bandwidth"});
  hardware_->resizeColumnToContents(0);
  hardware_->resizeColumnToContents(1);
  hardware_->resizeRowsToContents();
}

}  // namespace flashscope::window
