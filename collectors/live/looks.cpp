// Looks at the stacks of all threads, one after the other, without making the main thread wait for the interpreter.
//
// A thread that wants the interpreter makes the one that has it stop, wait for the other to wake up and look, and wake
// up again itself: a few hundred microseconds, for a look of ten. So a look is asked of the main thread itself
// (Py_AddPendingCall, https://docs.python.org/3/c-api/init.html), which takes it when it comes back from a call that
// gave the interpreter away, as torch's all do. Where that has not happened by the time of the next look, the main
// thread is in most cases outside of Python (it waits, computes, or runs the backward pass), and the interpreter is to
// be had at once.
//
// What belongs to whom: everything but the atomics is touched with the interpreter held, or by the sampling thread
// alone. Between them the order is that of ``wanted``: who takes it back takes the look.

#include "stacks.hpp"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <new>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMostLooks = 4096;
constexpr int kMostTries = 1000;

struct Look {
  std::int64_t ts;
  PyObject* stacks;  // owned; null where it failed
};

struct Reading {
  std::int64_t ts;
  std::vector<std::int64_t> running;   // per clock, -1 where the thread is gone
  std::vector<std::string> schedules;  // per file; empty where it was not read
};

struct State {
  explicit State(pid_t process) : process(process) {}

  const pid_t process;
  std::atomic<bool> wanted{false};     // a look is due that nobody has begun
  std::atomic<bool> queued{false};     // Python has a call of ours in its queue
  std::atomic<long> turn{0};           // of whoever may look; those before end
  std::atomic<bool> changed{false};    // there are other threads than at the look before
  std::atomic<std::int64_t> cost{0};   // ns of CPU that the looks took
  std::mutex sleeping, asking;
  std::condition_variable woken;
  bool held = false;                   // under ``asking``
  bool running = false;                // looks() is under way; with the interpreter
  std::vector<Look> looks;             // with the interpreter
  PyObject* ignored = nullptr;         // borrowed from the arguments of looks(); with the interpreter
  std::uint64_t threads = 0;           // a digest of the threads of the look before; with the interpreter
};

// In a forked child the sampling thread is gone, whatever it held: the child has a state of its own. Never freed, since
// a call in Python's queue may come at any time.
State* state() {
  static std::atomic<State*> current{nullptr};
  State* found = current.load();
  if (found == nullptr || found->process != getpid()) {
    found = new (std::nothrow) State(getpid());
    current.store(found);
  }
  return found;
}

std::int64_t now(clockid_t clock) {
  timespec at;
  if (clock_gettime(clock, &at) != 0) return -1;
  return std::int64_t{at.tv_sec} * 1000000000 + at.tv_nsec;
}

std::uint64_t digest(PyObject* stacks) {
  std::uint64_t sum = 0;
  PyObject *thread, *stack;
  Py_ssize_t position = 0;
  while (PyDict_Next(stacks, &position, &thread, &stack)) {
    std::uint64_t value = PyLong_AsUnsignedLongLongMask(thread) + 0x9e3779b97f4a7c15u;
    sum += (value ^ (value >> 31)) * 0xbf58476d1ce4e5b9u;
  }
  return sum;
}

// Takes one look, with the interpreter held. One that fails leaves its place empty.
void take_look(State* own) {
  std::int64_t began = now(CLOCK_THREAD_CPUTIME_ID), ts = now(CLOCK_REALTIME);
  PyObject* stacks = own->ignored == nullptr ? nullptr : read_stacks(own->ignored);
  if (stacks == nullptr) {
    PyErr_Clear();
  } else {
    std::uint64_t threads = digest(stacks);
    if (threads != own->threads) own->changed = true;
    own->threads = threads;
  }
  own->looks.push_back({ts, stacks});  // room was made before
  own->cost += now(CLOCK_THREAD_CPUTIME_ID) - began;
}

// What the main thread runs between two bytecodes.
int serve(void* context) {
  State* own = static_cast<State*>(context);
  own->queued = false;
  if (own->process == getpid() && own->wanted.exchange(false)) take_look(own);
  return 0;
}

// Sleeps until then, or until the turn is over.
void sleep_until(State* own, long turn, Clock::time_point until) {
  std::unique_lock<std::mutex> lock(own->sleeping);
  own->woken.wait_until(lock, until, [own, turn] { return own->turn != turn; });
}

// Ends the turn, whose ever it is; the number of the next.
long next_turn(State* own) {
  std::lock_guard<std::mutex> lock(own->sleeping);
  own->woken.notify_all();
  return ++own->turn;
}

// Waits for looks of an earlier turn to end, which need the interpreter for it; false where they do not.
bool is_free(State* own) {
  for (int tries = 0; own->running && tries < kMostTries; ++tries) {
    PyThreadState* thread = PyEval_SaveThread();
    usleep(1000);
    PyEval_RestoreThread(thread);
  }
  return !own->running;
}

// Asks the main thread for a look; false where nothing may be queued now, or the call before has not been run yet.
bool ask(State* own) {
  std::lock_guard<std::mutex> lock(own->asking);
  if (own->held || own->queued.exchange(true)) return false;
  own->wanted = true;
  if (Py_AddPendingCall(serve, own) == 0) return true;
  own->queued = own->wanted = false;
  return false;
}

struct Plan {
  Clock::duration period;
  Clock::time_point due, until;
  std::vector<clockid_t> clocks;
  std::vector<int> files;
  long turn, every, number;
};

Reading reading(const Plan& plan) {
  Reading found{now(CLOCK_REALTIME), {}, {}};
  for (clockid_t clock : plan.clocks) found.running.push_back(now(clock));
  if (plan.number % plan.every == 0) {
    for (int file : plan.files) {
      char text[128];
      ssize_t length = pread(file, text, sizeof text, 0);
      found.schedules.emplace_back(text, length > 0 ? static_cast<size_t>(length) : 0);
    }
  }
  return found;
}

// Takes a look in the sampling thread, if the main thread does not do it just then; returns the thread's state anew.
PyThreadState* look_here(State* own, PyThreadState* thread) {
  own->wanted = true;
  PyEval_RestoreThread(thread);
  if (own->wanted.exchange(false)) take_look(own);
  return PyEval_SaveThread();
}

// The sampling thread's work for a while, in which it holds the interpreter only where the main thread does not come to
// take a look itself. To each look belongs a reading, made after it.
std::vector<Reading> sample(State* own, Plan& plan) {
  std::vector<Reading> readings;
  bool asked = false;
  PyThreadState* thread = PyEval_SaveThread();
  while (readings.size() < kMostLooks) {
    sleep_until(own, plan.turn, plan.due);
    if (own->turn != plan.turn) break;
    bool answered = asked && !own->wanted;
    bool here = !answered && (own->wanted || own->queued || !(asked = ask(own)));
    if (here) thread = look_here(own, thread);
    if (here || answered) {
      try {
        readings.push_back(reading(plan));
      } catch (const std::bad_alloc&) {
        break;  // the look that lacks one is dropped
      }
      ++plan.number;
      asked = false;
      if (own->changed || plan.due >= plan.until) break;
      if (answered) asked = ask(own);
    }
    // A late look is not made up for: two in a row would count one moment twice. So after one that was taken here, the
    // main thread is asked at the next.
    plan.due = std::max(plan.due + plan.period, Clock::now());
  }
  PyEval_RestoreThread(thread);
  own->wanted = false;
  return readings;
}

bool integers(PyObject* sequence, std::vector<int>& found) {
  PyObject* items = PySequence_Fast(sequence, "expected a sequence of numbers");
  if (items == nullptr) return false;
  for (Py_ssize_t at = 0; at < PySequence_Fast_GET_SIZE(items) && !PyErr_Occurred(); ++at) {
    found.push_back(static_cast<int>(PyLong_AsLong(PySequence_Fast_GET_ITEM(items, at))));
  }
  Py_DECREF(items);
  return PyErr_Occurred() == nullptr;
}

PyObject* tuple_of(const std::vector<std::int64_t>& values) {
  PyObject* made = PyTuple_New(static_cast<Py_ssize_t>(values.size()));
  for (size_t at = 0; made != nullptr && at < values.size(); ++at) {
    PyObject* value = PyLong_FromLongLong(values[at]);
    if (value == nullptr) Py_CLEAR(made);
    else PyTuple_SET_ITEM(made, static_cast<Py_ssize_t>(at), value);
  }
  return made;
}

PyObject* tuple_of(const std::vector<std::string>& values) {
  PyObject* made = PyTuple_New(static_cast<Py_ssize_t>(values.size()));
  for (size_t at = 0; made != nullptr && at < values.size(); ++at) {
    PyObject* value = PyBytes_FromStringAndSize(values[at].data(), static_cast<Py_ssize_t>(values[at].size()));
    if (value == nullptr) Py_CLEAR(made);
    else PyTuple_SET_ITEM(made, static_cast<Py_ssize_t>(at), value);
  }
  return made;
}

// What looks() returns. The looks are given up.
PyObject* told(State* own, const std::vector<Reading>& readings, long number) {
  std::vector<Look> taken(std::move(own->looks));
  own->looks.clear();
  PyObject* list = PyList_New(0);
  for (size_t at = 0; at < taken.size(); ++at) {
    PyObject* stacks = taken[at].stacks;
    if (stacks == nullptr) continue;
    if (list != nullptr && at < readings.size()) {
      const Reading& read = readings[at];
      PyObject* look = Py_BuildValue(
          "(LNLNN)", static_cast<long long>(taken[at].ts), Py_NewRef(stacks), static_cast<long long>(read.ts),
          tuple_of(read.running), tuple_of(read.schedules));
      if (look == nullptr || PyList_Append(list, look) < 0) Py_CLEAR(list);
      Py_XDECREF(look);
    }
    Py_DECREF(stacks);
  }
  if (list == nullptr) return nullptr;
  return Py_BuildValue("(NlL)", list, number, static_cast<long long>(own->cost.exchange(0)));
}

}  // namespace

const char* const kLooksText =
    "looks(turn, period_s, seconds, clocks, files, every, number, ignored)\n\n"
    "Looks at all threads but the ignored ones each so-many seconds, for about ``seconds``, until there are other\n"
    "threads or until the turn is over. Returns a list, the number that follows, and the ns of CPU that looking took.\n"
    "Each look is when it was taken [ns since 1970], a dict of stacks by threading.get_ident(), when what follows was\n"
    "read, what each CPU clock showed, and, at looks whose number ``every`` divides, what stood in each open file.";

PyObject* looks(PyObject*, PyObject* arguments) {
  double period, seconds;
  PyObject *clocks, *files, *ignored;
  Plan plan;
  if (!PyArg_ParseTuple(arguments, "lddOOllO!", &plan.turn, &period, &seconds, &clocks, &files, &plan.every, &plan.number,
                        &PyFrozenSet_Type, &ignored)) {
    return nullptr;
  }
  State* own = state();
  if (own == nullptr) return PyErr_NoMemory();
  std::vector<int> numbers;
  if (!integers(clocks, numbers) || !integers(files, plan.files)) return nullptr;
  if (plan.every < 1 || !(period > 0) || !(seconds >= 0) || seconds > 3600 || period > 3600) {
    PyErr_SetString(PyExc_ValueError, "looks are taken at positive intervals of at most an hour");
    return nullptr;
  }
  if (own->turn != plan.turn) return Py_BuildValue("([]li)", plan.number, 0);
  if (!is_free(own)) {
    PyErr_SetString(PyExc_RuntimeError, "another thread looks");
    return nullptr;
  }
  plan.clocks.assign(numbers.begin(), numbers.end());
  plan.period = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(period));
  plan.due = Clock::now() + plan.period;
  plan.until = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  own->running = true;
  own->ignored = ignored;
  own->changed = false;
  std::vector<Reading> readings;
  try {
    own->looks.reserve(kMostLooks + 1);
  } catch (const std::bad_alloc&) {
    own->running = false;
    return PyErr_NoMemory();
  }
  // Nothing is caught around what gives the interpreter back: Python may end this thread there, by unwinding it.
  readings = sample(own, plan);
  own->running = false;
  own->ignored = nullptr;
  return told(own, readings, plan.number);
}

PyObject* begin(PyObject*, PyObject*) {
  State* own = state();
  return own == nullptr ? PyErr_NoMemory() : PyLong_FromLong(next_turn(own));
}

PyObject* cancel(PyObject*, PyObject* number) {
  long turn = PyLong_AsLong(number);
  if (turn == -1 && PyErr_Occurred()) return nullptr;
  State* own = state();
  if (own != nullptr && own->turn == turn) next_turn(own);
  Py_RETURN_NONE;
}

PyObject* hold(PyObject*, PyObject*) {
  if (State* own = state()) {
    std::lock_guard<std::mutex> lock(own->asking);
    own->held = true;
  }
  Py_RETURN_NONE;
}

PyObject* release(PyObject*, PyObject*) {
  if (State* own = state()) {
    std::lock_guard<std::mutex> lock(own->asking);
    own->held = false;
  }
  Py_RETURN_NONE;
}
