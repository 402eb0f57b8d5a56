// The structs of a session to JSON and back. Each struct lists its fields once (fields() in session_json.cpp), for both
// directions; a field that is added to a struct and not listed there does not compile.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/files/session_file.h"

namespace flashscope::files {

// All of a session but the arrays: q k v mask bias o lse of the problem, O, LSE and timeline of the reports.
nlohmann::ordered_json session_to_json(const SessionFile& session);

// What the JSON says of the problem; its arrays say the rest.
struct ProblemFacts {
  bool present = false;
  std::string name;
  double scale = 0;
  Mask mask;  // without keep and bias
};
struct SessionFacts {
  ProblemFacts problem;
  Recipe recipe;
  std::int64_t head = 0, K = 0;
  std::string window;
  std::vector<Report> reports;     // without O, LSE and a timeline's spans
  std::vector<SavedReport> saved;  // of each report: the rest
  std::vector<MeasuredSweep> sweeps;
};
// `where` is for messages. Throws InputError with the place: "WHERE: reports[0].gpu.median".
SessionFacts session_from_json(const nlohmann::ordered_json& json, const std::string& where);

// One point of a measured sweep by itself: for processes that pass it on, and the cache.
nlohmann::ordered_json point_to_json(const MeasuredPoint& point);
MeasuredPoint point_from_json(const nlohmann::ordered_json& json, const std::string& where);  // throws InputError

}  // namespace flashscope::files
