#include "viz/stage.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "viz/heat_map_pass.h"
#include "viz/overlay.h"
#include "viz/scene.h"
#include "viz/tile_map_pass.h"
#include "viz/words.h"

namespace flashscope::viz {
namespace {

constexpr double kTransferSeconds = 0.6, kFlashSeconds = 1.2;
constexpr float kClickSlop = 4;  // pixels that a click may move

}  // namespace

struct Stage::Impl {
  Overlay overlay;
  HeatMapPass heat_maps;
  TileMapPass tile_map;
  Luts luts;

  Camera camera, map_camera;
  Point pointer;
  bool inside = false;
  enum class Press { none, place, strip, score, map } press = Press::none;
  Point pressed_at, last;
  bool moved = false;
  std::int64_t hovered_row = -1;

  std::uint64_t version = 0;
  bool seen = false;
  std::array<Range, kChipBuffers> ranges{};
  std::int64_t K = -1;
  double changed_at = -1e9;

  void take(const StageData& data, const StageOptions& options, double time) {
    if (!seen || version != data.version) ranges = finite_ranges(data);
    const std::int64_t now = data.state ? data.state->K : -1;
    if (seen && now != K && options.animate) changed_at = time;
    if (!options.animate) changed_at = -1e9;
    K = now, version = data.version, seen = true;
  }

  SceneInput input(const StageInput& stage, const StageOptions& options) const {
    SceneInput in;
    in.width = static_cast<float>(stage.width), in.height = static_cast<float>(stage.height), in.scale = stage.scale;
    in.pointer_inside = inside, in.pointer = pointer, in.camera = camera, in.map_camera = map_camera,
    in.ranges = ranges;
    const double since = (stage.time - changed_at) * std::max(0.05f, options.animation_speed);
    if (since >= 0 && since < kTransferSeconds) in.transfer = since / kTransferSeconds;
    if (since >= 0 && since < kFlashSeconds) in.flash = 1 - since / kFlashSeconds;
    return in;
  }

  void click(const StageData& data, const Place& place, std::vector<StageCommand>& commands) {
    const TraceState& s = place.side && data.beside ? *data.beside->state : *data.state;
    const Recipe& recipe = data.schedule->recipe();
    switch (place.target) {
      case Target::chip_cell: {
        const auto buffer = static_cast<ChipBuffer>(place.what);
        if (buffer == ChipBuffer::K || buffer == ChipBuffer::V) return;
        const std::int64_t row = s.row0 + place.row;
        const bool pinned = std::find(data.pinned_rows.begin(), data.pinned_rows.end(), row) != data.pinned_rows.end();
        commands.emplace_back(command::PinRow{row, !pinned});
        if (buffer == ChipBuffer::Q || buffer == ChipBuffer::o_norm) return;
        const bool keys = buffer == ChipBuffer::S || buffer == ChipBuffer::P;
        commands.emplace_back(command::PickCell{label(buffer), s.head, row, keys ? s.col0 + place.col : place.col});
        return;
      }
      case Target::hbm_tile: {
        const auto operand = static_cast<Operand>(place.what);
        const bool keys = operand == Operand::K || operand == Operand::V;
        const std::int64_t i = keys ? std::max<std::int64_t>(s.i, 0) : place.row / recipe.Br;
        const std::int64_t j = keys ? place.row / recipe.Bc : std::max<std::int64_t>(s.j, 0);
        commands.emplace_back(command::SeekTile{i, j});
        return;
      }
      case Target::map_tile:
        commands.emplace_back(command::SeekTile{place.row, place.col});
        return;
      case Target::stage:
        commands.emplace_back(command::Seek{place.K});
        return;
      case Target::map_colour:
        commands.emplace_back(command::SetMapColour{static_cast<MapColour>(place.what)});
        return;
      case Target::convention:
        commands.emplace_back(command::ToggleConvention{convention_name(place.what)});
        return;
      case Target::strip:
      case Target::none:
        return;
    }
  }

  void seek_on_strip(const Scene& scene, Point at, std::vector<StageCommand>& commands) {
    for (const Hit& hit : scene.hits) {
      if (hit.target != Target::strip) continue;
      const double share = std::clamp((at.x - hit.rect.x) / hit.rect.w, 0.f, 1.f);
      const auto to = std::llround(hit.col0 + share * hit.cols);
      auto* last_seek = commands.empty() ? nullptr : std::get_if<command::Seek>(&commands.back());
      if (last_seek)
        last_seek->K = to;  // only the last place of a drag matters
      else
        commands.emplace_back(command::Seek{to});
    }
  }

  void handle(const InputEvent& event, const StageData& data, const Scene& scene, std::vector<StageCommand>& commands) {
    const Point at{event.x, event.y};
    const Rect& score = scene.score_beside.contains(at.x, at.y) ? scene.score_beside : scene.score;
    const bool on_score = score.contains(at.x, at.y), on_map = scene.map.contains(at.x, at.y);
    switch (event.kind) {
      case InputEvent::Kind::leave:
        inside = false;
        return;
      case InputEvent::Kind::move:
        inside = true, pointer = at;
        if (press == Press::none) return;
        moved |= std::hypot(at.x - pressed_at.x, at.y - pressed_at.y) > kClickSlop;
        if (press == Press::strip) seek_on_strip(scene, at, commands);
        if (press == Press::score && moved) pan(camera, (last.x - at.x) / score.w, (last.y - at.y) / score.h);
        if (press == Press::map && moved) pan(map_camera, (last.x - at.x) / scene.map.w, (last.y - at.y) / scene.map.h);
        last = at;
        return;
      case InputEvent::Kind::press: {
        inside = true, pointer = at;
        const Place place = place_at(scene, at);
        if (event.button == 1 && place.target != Target::none) {
          const std::string text = read_out(data, {}, place);
          if (!text.empty()) commands.emplace_back(command::Copy{text});
        }
        if (event.button != 0) return;
        if (event.double_click && (on_score || on_map)) {
          (on_score ? camera : map_camera) = {};
          press = Press::none;
          return;
        }
        pressed_at = last = at, moved = false;
        press = place.target == Target::strip ? Press::strip
                : on_score                    ? Press::score
                : on_map                      ? Press::map
                                              : Press::place;
        if (press == Press::strip) seek_on_strip(scene, at, commands);
        return;
      }
      case InputEvent::Kind::release:
        pointer = at;
        if (event.button != 0) return;
        if (press != Press::none && press != Press::strip && !moved && data.state && data.schedule)
          click(data, place_at(scene, at), commands);
        press = Press::none;
        return;
      case InputEvent::Kind::wheel:
        inside = true, pointer = at;
        if (on_score && data.state)
          zoom(camera, (at.x - score.x) / score.w, (at.y - score.y) / score.h, std::pow(0.8, event.wheel),
               static_cast<double>(data.state->rows), static_cast<double>(data.state->cols));
        if (on_map && data.schedule)
          zoom(map_camera, (at.x - scene.map.x) / scene.map.w, (at.y - scene.map.y) / scene.map.h,
               std::pow(0.8, event.wheel), static_cast<double>(data.schedule->Tr()),
               static_cast<double>(data.schedule->Tc()));
        return;
      case InputEvent::Kind::key_press:
      case InputEvent::Kind::key_release:
      case InputEvent::Kind::text:
        return;
    }
  }
};

Stage::Stage() : impl_(new Impl) {}
Stage::~Stage() = default;

StageResult Stage::draw(const StageData& data, const StageOptions& options, const StageInput& input) {
  StageResult result;
  impl_->take(data, options, input.time);
  Scene scene = make_scene(data, options, impl_->input(input, options));
  for (const InputEvent& event : input.events) {
    const Camera before = impl_->camera, map_before = impl_->map_camera;
    impl_->handle(event, data, scene, result.commands);
    if (impl_->camera != before || impl_->map_camera != map_before)  // what lies where has changed
      scene = make_scene(data, options, impl_->input(input, options));
  }
  if (!input.events.empty()) scene = make_scene(data, options, impl_->input(input, options));

  const std::int64_t row = row_of(data, scene.pointed);
  if (row != impl_->hovered_row) {
    impl_->hovered_row = row;
    result.commands.emplace_back(command::HoverRow{row});
  }

  const auto width = static_cast<float>(input.width), height = static_cast<float>(input.height);
  glBindFramebuffer(GL_FRAMEBUFFER, input.framebuffer);
  glViewport(0, 0, input.width, input.height);
  glDisable(GL_SCISSOR_TEST);
  const Theme& colours = theme(options.dark);
  glClearColor(colours.background.r / 255.f, colours.background.g / 255.f, colours.background.b / 255.f, 1);
  glClear(GL_COLOR_BUFFER_BIT);
  impl_->luts.update(options.dark);
  std::size_t slot = 0;
  impl_->overlay.draw(scene, data.strip.get(), options.dark, width, height, [&](const Item& item) {
    glDisable(GL_SCISSOR_TEST);
    if (const auto* map = std::get_if<HeatMap>(&item))
      impl_->heat_maps.draw(slot++, *map, map->side && data.beside ? *data.beside : data, colours, impl_->luts, width,
                            height);
    if (const auto* map = std::get_if<TileMap>(&item))
      impl_->tile_map.draw(*map, data, options, colours, impl_->luts, width, height);
    glActiveTexture(GL_TEXTURE0);  // where ImGui binds its font
  });

  const SceneInput now = impl_->input(input, options);
  result.wants_frame =
      (now.transfer >= 0 && !data.transfers.empty()) ||
      (now.flash > 0 && data.state && data.state->step && data.state->step->stage == flashscope::Stage::rescale);
  result.tooltip = scene.tooltip;
  const Target target = scene.pointed.target;
  result.pointing_hand = target != Target::none;
  return result;
}

}  // namespace flashscope::viz
