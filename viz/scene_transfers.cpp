// What moves between HBM and chip in this step: exactly the ledger's transfers, from the tile where it
// lies to the buffer where it goes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "viz/scene_parts.h"
#include "viz/words.h"

namespace flashscope::viz {
namespace {

ChipBuffer slot_of(Operand operand) {
  switch (operand) {
    case Operand::Q:
      return ChipBuffer::Q;
    case Operand::K:
      return ChipBuffer::K;
    case Operand::V:
      return ChipBuffer::V;
    case Operand::O:
      return ChipBuffer::O;
    case Operand::m:
      return ChipBuffer::m;
    case Operand::l:
      return ChipBuffer::l;
    case Operand::LSE:
      return ChipBuffer::LSE;
    case Operand::S:
    case Operand::mask:
    case Operand::bias:
      return ChipBuffer::S;
    case Operand::P:
      return ChipBuffer::P;
  }
  return ChipBuffer::Q;
}

void curve(std::vector<Point>& points, Point from, Point to) {
  constexpr int kParts = 14;
  const float middle = (from.x + to.x) / 2;
  for (int n = 0; n <= kParts; ++n) {
    const float t = static_cast<float>(n) / kParts, s = 1 - t;
    const float a = s * s * s, b = 3 * s * s * t, d = 3 * s * t * t, e = t * t * t;
    points.push_back({a * from.x + b * middle + d * middle + e * to.x, a * from.y + b * from.y + d * to.y + e * to.y});
  }
}

Point along(const std::vector<Point>& points, double share) {
  double length = 0;
  const auto part = [&](std::size_t n) {
    return std::hypot(points[n].x - points[n - 1].x, points[n].y - points[n - 1].y);
  };
  for (std::size_t n = 1; n < points.size(); ++n) length += part(n);
  double left = length * std::clamp(share, 0.0, 1.0);
  for (std::size_t n = 1; n < points.size(); ++n) {
    const double here = part(n);
    if (left <= here || n + 1 == points.size()) {
      const auto t = static_cast<float>(here > 0 ? std::min(left / here, 1.0) : 0);
      return {points[n - 1].x + t * (points[n].x - points[n - 1].x),
              points[n - 1].y + t * (points[n].y - points[n - 1].y)};
    }
    left -= here;
  }
  return points.front();
}

struct Route {
  const Transfer* transfer;
  Point tile;  // right edge of the tile in HBM
  Rect slot;   // the buffer on the chip
  float wish;  // height at which it would like to cross
};

}  // namespace

void draw_transfers(Painter& p, const SceneContext& c, const Rect& crossing) {
  if (!c.ready()) return;
  const Theme& t = p.colours;
  if (c.data.transfers.empty()) {
    if (!c.state().step) return;
    const float y = crossing.y + crossing.h / 2 - 30;
    const char* lines[] = {"no HBM", "traffic in", "this step"};
    for (int n = 0; n < 3; ++n)
      p.text({crossing.x + 4, y + 20 * static_cast<float>(n), crossing.w - 8, 20}, p.body(t.dim, Align::centre),
             lines[n]);
    return;
  }

  std::vector<Route> routes;
  for (const Transfer& transfer : c.data.transfers) {
    Rect slot = p.scene.chip[static_cast<int>(slot_of(transfer.operand))];
    if (slot.empty()) slot = p.scene.score;  // its buffer does not exist by name at this step: P and S share a place
    if (transfer.operand == Operand::LSE && p.scene.chip[static_cast<int>(ChipBuffer::LSE)].empty())
      slot = p.scene.chip[static_cast<int>(ChipBuffer::alpha)];
    Point tile{crossing.x * p.unit, slot.y + slot.h / 2};  // a mask has no place of its own in HBM
    for (const TensorPlace& place : p.scene.hbm)
      if (place.operand == transfer.operand && place.rows > 0) {
        const float middle = static_cast<float>(transfer.row0) + static_cast<float>(transfer.rows) / 2;
        tile = {place.rect.right(),
                place.rect.y + place.rect.h * std::clamp(middle / static_cast<float>(place.rows), 0.f, 1.f)};
      }
    routes.push_back({&transfer, tile, slot, 0.35f * tile.y + 0.65f * slot.centre().y});
  }
  std::stable_sort(routes.begin(), routes.end(), [](const Route& x, const Route& y) { return x.wish < y.wish; });

  // Lanes across: as wished, but far enough apart for their labels.
  const Rect across = p.pixels(crossing);
  const float lane_h = std::min(46 * p.unit, across.h / static_cast<float>(routes.size()));
  std::vector<float> lanes;
  for (std::size_t n = 0; n < routes.size(); ++n) {
    const auto before = static_cast<float>(n), after = static_cast<float>(routes.size() - 1 - n);
    float y =
        std::clamp(routes[n].wish, across.y + lane_h * (before + 0.5f), across.bottom() - lane_h * (after + 0.5f));
    if (n > 0) y = std::max(y, lanes.back() + lane_h);
    lanes.push_back(y);
  }

  const Rect scores = p.scene.score;
  const float above = p.scene.chip[static_cast<int>(ChipBuffer::K)].y - 5 * p.unit;
  for (std::size_t n = 0; n < routes.size(); ++n) {
    const Route& route = routes[n];
    const Operand operand = route.transfer->operand;
    Colour colour = operand == Operand::Q ? t.query : operand == Operand::K || operand == Operand::V ? t.key : t.amber;
    const float lane = lanes[n], inside = across.right() + 7 * p.unit;
    std::vector<Point> points{route.tile};
    curve(points, {across.x, route.tile.y}, {across.x + across.w * 0.3f, lane});
    const Point leaves{across.x + across.w * 0.7f, lane};
    if (operand == Operand::Q || operand == Operand::K) {  // straight in from the left, beside K's name
      const float y = route.slot.y + route.slot.h * (operand == Operand::K ? 0.2f : 0.5f);
      curve(points, leaves, {inside, y});
      points.push_back({route.slot.x - 2 * p.unit, y});
    } else if (operand == Operand::V) {  // over K
      curve(points, leaves, {inside, above});
      points.push_back({route.slot.centre().x, above});
      points.push_back({route.slot.centre().x, route.slot.y + 10 * p.unit});
    } else {  // under Q
      const float under = scores.bottom() + (2.5f + 2 * static_cast<float>(std::min<std::size_t>(n, 4))) * p.unit;
      curve(points, leaves, {inside, under});
      points.push_back({route.slot.centre().x, under});
      points.push_back({route.slot.centre().x, route.slot.bottom() - 10 * p.unit});
    }
    if (!route.transfer->read) std::reverse(points.begin(), points.end());
    p.push(Path{points, with_alpha(colour, 0.9), std::max(1.5f, 2 * p.unit), true, false});

    const Rect label{crossing.x + 8, lane / p.unit - 20, crossing.w - 16, 40};
    p.box(label, t.raised, colour, 6, 1);
    p.text({label.x + 3, label.y + 2, label.w - 6, 19}, {kBody, Face::bold, colour, Align::centre, false},
           tile_name(*c.data.schedule, *route.transfer));
    p.text({label.x + 3, label.y + 19, label.w - 6, 19}, p.body(t.ink, Align::centre), bytes(route.transfer->bytes));
    if (c.input.transfer >= 0)
      for (int packet = 0; packet < 3; ++packet) {
        const double at = c.input.transfer * 1.15 - 0.075 * packet;
        if (at < 0 || at > 1) continue;
        const Point where = along(points, at);
        const float half = 5 * p.unit;
        p.push(Box{{where.x - half, where.y - half, 2 * half, 2 * half}, colour, t.ink, 1, 2 * p.unit, false});
      }
  }
}

}  // namespace flashscope::viz
