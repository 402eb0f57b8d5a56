#include "app/window/run_window.h"

#include <QApplication>
#include <QSurfaceFormat>

#include "app/window/main_window.h"
#include "app/window/theme.h"

namespace flashscope {

int run_window(int& argc, char** argv, const WindowStart& start) {
  QSurfaceFormat format;
  format.setRenderableType(QSurfaceFormat::OpenGL);
  format.setProfile(QSurfaceFormat::CoreProfile);
  format.setVersion(4, 3);
  QSurfaceFormat::setDefaultFormat(format);
  QApplication application(argc, argv);
  QApplication::setOrganizationName("flashscope");
  QApplication::setApplicationName("flashscope");
  QApplication::setApplicationVersion(FLASHSCOPE_VERSION);
  QApplication::setWindowIcon(window::program_icon());
  window::MainWindow main_window(start);
  main_window.show();
  return QApplication::exec();
}

}  // namespace flashscope
