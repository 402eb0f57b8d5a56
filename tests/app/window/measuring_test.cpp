// A sweep that is being measured beside everything else that the window does.
#include <QAbstractButton>
#include <QFile>
#include <QMessageBox>
#include <chrono>
#include <thread>

#include "engine/error.h"
#include "tests/app/window/explorer_harness.h"

namespace flashscope::window {
namespace {

const Shape kSmall{.heads = 2, .kv_heads = 2, .Nq = 512, .Nk = 512, .d = 32, .dv = 32, .type = DType::bfloat16};

class MeasuringTest : public MeasuredTest {
 protected:
  void start_measuring() {
    open();
    type("N", "512");
    choose("type", 3);
    measure_with_the_stand_in();
    button("measure")->click();
    ASSERT_EQ(explorer().measuring().state(), Measuring::State::running);
  }
  bool has_points(std::size_t most) {
    return wait_until([&] { return explorer().measuring().measured() >= most; });
  }
  QComboBox* sweeps() { return explorer().findChild<QComboBox*>("sweeps"); }
  Measuring::State state() { return explorer().measuring().state(); }
};

TEST_F(MeasuringTest, TheGpuIsTheCountersAlone) {
  start_measuring();
  EXPECT_TRUE(document().gpu_held());
  EXPECT_FALSE(button("measure")->isVisible());
  window_->apply([](Document& d) { d.run_full({true, 0}); });
  EXPECT_FALSE(document().runs_on_gpu());
  EXPECT_TRUE(window_->message().contains("a sweep is measured on the GPU")) << window_->message().toStdString();
  EXPECT_TRUE(window_->message().contains("pause or cancel it in the explorer"));
  button("pause")->click();
  EXPECT_TRUE(wait_until([this] { return !document().gpu_held(); }));  // once its process is gone
  button("pause")->click();
  EXPECT_TRUE(document().gpu_held());
  button("cancel")->click();
  EXPECT_TRUE(wait_until([this] { return !document().gpu_held(); }));
  EXPECT_EQ(state(), Measuring::State::idle);
}

TEST_F(MeasuringTest, AFullRunOnTheGpuIsNotMeasuredBeside) {
  start_measuring();
  button("pause")->click();
  ASSERT_TRUE(wait_until([this] { return !document().gpu_held(); }));
  setenv("FLASHSCOPE_GPU_CHILD", FLASHSCOPE_TEST_CHILD, 1);
  window_->apply([](Document& d) { d.run_full({true, 0}); });
  ASSERT_TRUE(document().runs_on_gpu());
  EXPECT_FALSE(button("pause")->isEnabled());  // it says Resume
  EXPECT_TRUE(explorer().findChild<QLabel*>("measuring")->toolTip().contains("a full run is on the GPU"));
  button("cancel")->click();
  EXPECT_FALSE(button("measure")->isEnabled());
  ASSERT_TRUE(settle());
  unsetenv("FLASHSCOPE_GPU_CHILD");
  EXPECT_FALSE(document().runs_on_gpu());
  EXPECT_TRUE(document().last_run(true)) << window_->message().toStdString();
  EXPECT_TRUE(button("measure")->isEnabled());
}

TEST_F(MeasuringTest, TheStageKeepsItsPictureMeanwhile) {
  const std::uint64_t drawn = stage().drawn_version();
  document().hold_gpu(true);
  window_->apply([](Document& d) { d.seek(40); });
  ASSERT_TRUE(wait_until([this] { return document().stage().state->K == 40 && window_->idle(); }));
  for (int n = 0; n < 20; ++n) {
    stage().update();
    QCoreApplication::processEvents();
  }
  EXPECT_EQ(stage().drawn_version(), drawn);
  document().hold_gpu(false);
  EXPECT_TRUE(settle());  // by itself
}

TEST_F(MeasuringTest, PointsAreNoCommandsOfThePerson) {
  open();
  Recipe recipe = document().recipe();
  recipe.Br = 48;
  start_measuring();
  window_->notice("for the person");
  const std::size_t known = explorer().measuring().measured();
  ASSERT_TRUE(has_points(known + 3));
  EXPECT_TRUE(window_->message().contains("for the person")) << window_->message().toStdString();
  // What waits for a plan is done although points come.
  bool done = false;
  window_->apply([&](Document& d) { d.set_recipe(recipe); });
  window_->apply_when_planned([&](Document&) { done = true; });
  emit explorer().measured(
      std::make_shared<const MeasuredSweep>(sweep_of({measured_point(asked_point(kSmall, 64, 64))})));
  EXPECT_TRUE(wait_until([&] { return done; }));
  button("cancel")->click();
}

TEST_F(MeasuringTest, IsNotLostWithoutAQuestion) {
  start_measuring();
  EXPECT_FALSE(document().would_lose());
  ASSERT_TRUE(has_points(2));
  button("cancel")->click();
  ASSERT_TRUE(measured());
  EXPECT_TRUE(document().would_lose());
  EXPECT_TRUE(window_->isWindowModified());
  EXPECT_FALSE(window_->close());
  auto* question = find<QMessageBox>("would_lose");
  ASSERT_TRUE(question);
  EXPECT_EQ(question->text(), "A sweep was measured on a GPU and is in no session file.");
  question->button(QMessageBox::Cancel)->click();
  ASSERT_TRUE(wait_until([this] { return !find<QMessageBox>("would_lose"); }));
  window_->save_session_file(folder_.filePath("mine.fscope").toStdString());
  ASSERT_TRUE(wait_until([this] { return !document().would_lose(); }));
  ASSERT_TRUE(settle());
  EXPECT_FALSE(window_->isWindowModified());
  emit explorer().measuring().changed();  // nothing new
  EXPECT_FALSE(document().would_lose());
}

TEST_F(MeasuringTest, TheBoxNamesWhatIsShown) {
  open_sweep({measured_point(asked_point(kMeasured, 128, 64)), measured_point(asked_point(kMeasured, 64, 64))});
  start_measuring();
  ASSERT_TRUE(has_points(3));
  ASSERT_EQ(sweeps()->count(), 2);
  EXPECT_EQ(sweeps()->currentIndex(), 1);
  emit sweeps()->activated(0);  // the person wants to see the other one, and goes on seeing it
  EXPECT_EQ(sweeps()->currentIndex(), 0);
  const std::size_t known = explorer().measuring().measured();
  ASSERT_TRUE(has_points(known + 2));
  EXPECT_EQ(sweeps()->currentIndex(), 0);
  EXPECT_EQ(explorer().controls()->state().problem.shape, kMeasured);
  emit sweeps()->activated(1);
  EXPECT_EQ(sweeps()->currentIndex(), 1);
  button("cancel")->click();
}

TEST_F(MeasuringTest, AClickOpensTheRecipeThatWasMeasured) {
  MeasuredPoint asked = asked_point(kSmall, 64, 64, Causal::top_left);
  asked.recipe.order = Order::reverse, asked.recipe.skip = Skip::none, asked.recipe.guard = Guard::none;
  std::vector<MeasuredPoint> points;
  for (const std::int64_t Br : {32, 64, 128})
    for (const std::int64_t Bc : {32, 64, 128}) {
      asked.recipe.Br = Br, asked.recipe.Bc = Bc;
      points.push_back(measured_point(asked));
    }
  open_sweep(points);
  ASSERT_TRUE(shown());
  ASSERT_TRUE(map().gauge);
  QCustomPlot* plot = explorer().map()->plot();
  plot->replot();
  const QPointF at(plot->xAxis->coordToPixel(64), plot->yAxis->coordToPixel(32));
  QTest::mouseClick(plot, Qt::LeftButton, {}, at.toPoint());
  ASSERT_TRUE(wait_until([this] { return document().problem()->shape() == kSmall; }));
  ASSERT_TRUE(settle());
  asked.recipe.Br = 32, asked.recipe.Bc = 64;
  EXPECT_EQ(document().recipe(), asked.recipe);
  EXPECT_EQ(document().problem()->mask.causal, Causal::top_left);
  EXPECT_TRUE(window_->message().contains("flash2, Br 32, Bc 64")) << window_->message().toStdString();
}

TEST_F(MeasuringTest, TheGpuThatIsChosenMeasures) {
  ASSERT_TRUE(wait_until([this] { return window_->gpus_known(); }));
  gpu::GpuStatus two;
  for (const char* name : {"NVIDIA A100 80GB PCIe", "NVIDIA H200"}) {
    gpu::GpuDevice& device = two.devices.emplace_back();
    device.index = static_cast<int>(two.devices.size()) - 1, device.name = name, device.architecture = "sm_80";
    device.driver_version = 13000, device.limits.l2_bytes = (40 + 20 * device.index) << 20;
  }
  try {
    measured_on(two, 0);
  } catch (const gpu::Missing& missing) {
    GTEST_SKIP() << missing.what();  // NVRTC
  }
  EXPECT_THROW(measured_on(two, 2), InputError);
  const QString starts = folder_.filePath("starts");
  setenv("FLASHSCOPE_TEST_STARTS", starts.toUtf8(), 1);
  MeasureOptions options;
  options.program = FLASHSCOPE_TEST_CHILD;
  options.cache = folder_.filePath("cache").toStdString();
  explorer().measure_on({}, options);
  explorer().take_gpus(two);
  open();
  type("N", "512");
  choose("type", 3);
  const auto measures_on = [&](int index, const std::string& device) {
    explorer().choose_device(index);  // as the menu does
    ASSERT_TRUE(wait_until([&] { return button("measure")->isEnabled(); }))
        << button("measure")->toolTip().toStdString();
    button("measure")->click();
    ASSERT_EQ(explorer().measuring().state(), Measuring::State::running);
    EXPECT_EQ(explorer().measuring().sweep()->on.device, device);
    ASSERT_TRUE(has_points(1));
    button("cancel")->click();
    ASSERT_TRUE(wait_until([this] { return !document().gpu_held(); }));
  };
  measures_on(1, "NVIDIA H200");
  EXPECT_EQ(explorer().measuring().sweep()->on.l2_bytes, 60 << 20);
  measures_on(0, "NVIDIA A100 80GB PCIe");
  EXPECT_EQ(explorer().controls()->state().device->name, "NVIDIA A100 80GB PCIe");  // its limits, on the map
  unsetenv("FLASHSCOPE_TEST_STARTS");
  QFile file(starts);
  ASSERT_TRUE(file.open(QIODevice::ReadOnly));
  QStringList devices;  // that the processes were told to measure on
  for (const QString& line : QString::fromUtf8(file.readAll()).split('\n', Qt::SkipEmptyParts))
    if (const QString device = line.section(' ', 1); devices.isEmpty() || devices.last() != device) devices << device;
  EXPECT_EQ(devices.join(", "), "1, 0");
}

TEST_F(MeasuringTest, TheSheetIsThatOfTheDeviceThatMeasured) {
  open_sweep({measured_point(asked_point(kMeasured, 128, 64)), measured_point(asked_point(kMeasured, 64, 64))});
  ASSERT_TRUE(shown());
  choose("device", 12);
  ASSERT_EQ(map().device->name, "T4");
  choose_sweep();
  EXPECT_TRUE(map().device->name.ends_with("H200")) << map().device->name;
}

// The end of what was before a pause arrives after it.
TEST(Measuring, AnEndThatComesLateDoesNotEndWhatFollows) {
  MeasuredPoint point = measured_point(asked_point(kSmall, 64, 64));
  Measuring measuring;
  const auto until = [&](auto reached) { return QTest::qWaitFor(reached, 30'000); };
  measuring.start(sweep_of({point}), false, {});  // all of it is known: the thread ends at once
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  measuring.pause();
  ASSERT_TRUE(until([&] { return !measuring.on_gpu(); }));
  EXPECT_EQ(measuring.state(), Measuring::State::paused);
  measuring.resume();
  ASSERT_TRUE(until([&] { return !measuring.on_gpu(); }));
  EXPECT_EQ(measuring.state(), Measuring::State::idle);
  EXPECT_EQ(measuring.measured(), 1u);
}

}  // namespace
}  // namespace flashscope::window
