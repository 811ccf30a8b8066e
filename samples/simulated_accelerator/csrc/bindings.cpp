// What Python can set and ask. The names are those of ../__init__.py, which documents them.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "collectives.h"
#include "device.h"
#include "engine_log.h"
#include "op_kernels.h"

namespace py = pybind11;

namespace sim {
namespace {

std::atomic<int64_t>* number_named(int device, const std::string& name) {
  Settings& all = settings(device);
  const std::map<std::string, std::atomic<int64_t>*> numbers{
      {"launch_latency_ns", &all.launch_latency_ns},
      {"launch_limit", &all.launch_limit},
      {"lookahead_ns", &all.lookahead_ns},
      {"compile_ns", &all.compile_ns},
      {"compiled_load_ns", &all.compiled_load_ns},
      {"malloc_ns", &all.malloc_ns},
      {"free_ns", &all.free_ns},
      {"memory_capacity", &all.memory_capacity},
  };
  return numbers.at(name);
}

template <class Value, class Field>
py::array_t<Value> column(const std::vector<LogEntry>& entries, Field field) {
  py::array_t<Value> values(static_cast<py::ssize_t>(entries.size()));
  Value* out = values.mutable_data();
  for (const LogEntry& entry : entries) {
    *out++ = static_cast<Value>(entry.*field);
  }
  return values;
}

py::dict log_columns() {
  const std::vector<LogEntry> entries = read_log();
  py::dict columns;
  columns["start_ns"] = column<int64_t>(entries, &LogEntry::start_ns);
  columns["end_ns"] = column<int64_t>(entries, &LogEntry::end_ns);
  columns["launch_ns"] = column<int64_t>(entries, &LogEntry::launch_ns);
  columns["arrival_ns"] = column<int64_t>(entries, &LogEntry::arrival_ns);
  columns["stream_ready_ns"] = column<int64_t>(entries, &LogEntry::stream_ready_ns);
  columns["event_ready_ns"] = column<int64_t>(entries, &LogEntry::event_ready_ns);
  columns["peers_ready_ns"] = column<int64_t>(entries, &LogEntry::peers_ready_ns);
  columns["compute_ns"] = column<int64_t>(entries, &LogEntry::compute_ns);
  columns["late_ns"] = column<int64_t>(entries, &LogEntry::late_ns);
  columns["bytes"] = column<int64_t>(entries, &LogEntry::bytes);
  columns["flops"] = column<int64_t>(entries, &LogEntry::flops);
  columns["correlation"] = column<int64_t>(entries, &LogEntry::correlation);
  columns["stream"] = column<int32_t>(entries, &LogEntry::stream);
  columns["device"] = column<int8_t>(entries, &LogEntry::device);
  columns["queue"] = column<int8_t>(entries, &LogEntry::queue);
  columns["kind"] = column<int8_t>(entries, &LogEntry::kind);
  py::list names;
  std::map<const std::string*, int32_t> codes;
  py::array_t<int32_t> name(static_cast<py::ssize_t>(entries.size()));
  int32_t* out = name.mutable_data();
  for (const LogEntry& entry : entries) {
    auto [found, fresh] = codes.emplace(entry.name, static_cast<int32_t>(codes.size()));
    if (fresh) {
      names.append(*entry.name);
    }
    *out++ = found->second;
  }
  columns["name"] = name;
  columns["names"] = names;
  return columns;
}

void bind_settings(py::module_& module) {
  module.def("get_number", [](int device, const std::string& name) { return number_named(device, name)->load(); });
  module.def("set_number",
             [](int device, const std::string& name, int64_t value) { number_named(device, name)->store(value); });
  module.def("get_speed", [](int device, const std::string& queue) {
    const QueueSpeed& speed = settings(device).queues[static_cast<int>(queue_named(queue))];
    return py::make_tuple(speed.work_per_s.load(), speed.overhead_ns.load());
  });
  module.def("set_speed", [](int device, const std::string& queue, double work_per_s, int64_t overhead_ns) {
    QueueSpeed& speed = settings(device).queues[static_cast<int>(queue_named(queue))];
    speed.work_per_s = work_per_s;
    speed.overhead_ns = overhead_ns;
  });
  module.def("set_compile_cache", &set_compile_cache);
  module.def("forget_compiled", &forget_compiled);
  module.attr("DEVICES") = kDevices;
  module.attr("QUEUES") = std::vector<std::string>(kQueueNames.begin(), kQueueNames.end());
  module.attr("KINDS") = std::vector<std::string>(kOperationKindNames.begin(), kOperationKindNames.end());
}

void bind_device(py::module_& module) {
  module.def("register", [] {
    register_device();
    register_ops();
  });
  module.def("current_device", &current_device);
  module.def("set_device", &set_current_device);
  module.def("in_bad_fork", &in_bad_fork);
  module.def("default_generator", &default_generator);
  module.def("manual_seed", [](int device, uint64_t seed) {
    at::Generator generator = default_generator(device);
    std::lock_guard lock(generator.mutex());
    generator.set_current_seed(seed);
  });
  module.def("synchronize_all", [] {
    py::gil_scoped_release released;
    for (int device = 0; device < kDevices; ++device) {
      wait_for(device_moment(device));
    }
  });
  module.def("clear_error", &clear_device_error);
  module.def("shut_down", [] {
    py::gil_scoped_release released;
    shut_down();
  });
}

}  // namespace
}  // namespace sim

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  using namespace sim;
  bind_settings(module);
  bind_device(module);
  bind_collectives(module);
  module.def("fallback_counts", &fallback_counts);
  module.def("reset_fallback_counts", &reset_fallback_counts);
  module.def("set_kernel_enabled", &set_kernel_enabled);
  module.def("kernel_names", &kernel_names);
  module.def("log_columns", &log_columns);
  module.def("reset_log", &reset_log);
  module.def("set_log_capacity", &set_log_capacity);
  module.def("dropped_log_entries", &dropped_log_entries);
}
