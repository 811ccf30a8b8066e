// A compiler for kernels that takes its time: the first launch of an op with its shapes and types waits for it, and a
// cache on disk makes the second process wait less.
#include <fcntl.h>
#include <unistd.h>

#include <mutex>
#include <sstream>
#include <unordered_set>

#include "clock.h"
#include "op_kernels.h"
#include "trace.h"

namespace sim {
namespace {

std::mutex mutex;
std::unordered_set<std::string> compiled;
std::string folder;

void describe(const c10::IValue& value, std::ostringstream& text) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    if (tensor.defined()) {
      text << ' ' << c10::toString(tensor.scalar_type()) << tensor.sizes();
    }
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) {
      describe(tensor, text);
    }
  }
}

// FNV-1a: the same in every process, unlike std::hash.
uint64_t hash(const std::string& text) {
  uint64_t value = 14695981039346656037ULL;
  for (unsigned char byte : text) {
    value = (value ^ byte) * 1099511628211ULL;
  }
  return value;
}

std::string path_of(const std::string& key) {
  std::ostringstream path;
  path << folder << '/' << std::hex << hash(key);
  return path.str();
}

}  // namespace

void compile_if_new(int device, const std::string* name, Arguments arguments) {
  const int64_t compile_ns = settings(device).compile_ns.load();
  if (compile_ns <= 0) {
    return;
  }
  std::ostringstream text;
  text << *name;
  for (const c10::IValue& argument : arguments) {
    describe(argument, text);
  }
  std::string path;
  {
    std::lock_guard lock(mutex);
    if (!compiled.insert(text.str()).second) {
      return;
    }
    path = folder.empty() ? "" : path_of(text.str());
  }
  const bool cached = !path.empty() && access(path.c_str(), F_OK) == 0;
  RuntimeCall call(cached ? "simLoadKernel" : "simCompileKernel");
  call.set_subject(name);
  sleep_ns(cached ? std::min(compile_ns, settings(device).compiled_load_ns.load()) : compile_ns);
  if (!cached && !path.empty()) {
    // An empty file: that it exists is all there is to know, so two processes cannot get in each other's way.
    const int file = open(path.c_str(), O_CREAT | O_WRONLY, 0644);
    if (file >= 0) {
      close(file);
    }
  }
}

void set_compile_cache(const std::string& path) {
  std::lock_guard lock(mutex);
  folder = path;
}

void forget_compiled() {
  std::lock_guard lock(mutex);
  compiled.clear();
}

}  // namespace sim
