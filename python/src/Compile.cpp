//===- Compile.cpp - The compiler in Python -------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A thin layer over flashcore-c/Compiler.h; flashcore/compiler.py makes it
// pleasant.
//
//===----------------------------------------------------------------------===//

#include "Parts.h"

#include "flashcore-c/Compiler.h"

#include <map>
#include <string_view>

using namespace flashcore::python;

namespace {
struct Compilation {
  static PyObject *type;
  static constexpr const char *name = "Compilation";

  explicit Compilation(FlashCoreCompilation handle) : handle(handle) {}
  Compilation(Compilation &&other) noexcept
      : handle(std::exchange(other.handle, {nullptr})) {}
  ~Compilation() { flashcoreCompilationDestroy(handle); }

  FlashCoreCompilation handle;
};

/// Destroys its options at the end of a scope.
struct Options {
  FlashCoreCompileOptions handle = {nullptr};
  ~Options() { flashcoreCompileOptionsDestroy(handle); }
};
} // namespace
PyObject *Compilation::type = nullptr;

static FlashCoreCompilation handleOf(PyObject *self) {
  return Boxed<Compilation>::get(self).handle;
}

/// A str of a FlashCoreString, which is destroyed.
static PyObject *takeText(FlashCoreString text) {
  Ref result = toText(flashcoreStringGetData(text));
  flashcoreStringDestroy(text);
  return result.release();
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

static bool setSchedule(FlashCoreCompileOptions options, PyObject *schedule) {
  Ref pairs(PySequence_List(schedule));
  for (Py_ssize_t i = 0; pairs && i < PyList_Size(pairs.get()); ++i) {
    PyObject *pair = PyList_GetItem(pairs.get(), i);
    const char *name = nullptr, *value = nullptr;
    if (!PyArg_ParseTuple(pair, "ss", &name, &value) ||
        raised(flashcoreCompileOptionsSetSchedule(options, name, value)))
      return false;
  }
  return bool(pairs);
}

static bool setOptions(FlashCoreCompileOptions options,
                       PyObject *const *arguments) {
  const char *chips = nullptr, *ptxas = nullptr;
  if (!optionalText(arguments[0], chips) || !optionalText(arguments[2], ptxas))
    return false;
  int keepPhases = PyObject_IsTrue(arguments[3]);
  return keepPhases >= 0 &&
         !(chips && raised(flashcoreCompileOptionsSetChips(options, chips))) &&
         setSchedule(options, arguments[1]) &&
         !raised(flashcoreCompileOptionsSetPtxas(options, ptxas)) &&
         !raised(flashcoreCompileOptionsSetKeepPhases(options, keepPhases));
}

static PyObject *compile(PyObject *, PyObject *const *arguments,
                         Py_ssize_t count) {
  if (!expectArguments("compile", count, 6))
    return nullptr;
  char *module = nullptr;
  Py_ssize_t length = 0;
  const char *name = textOf(arguments[1]);
  Options options;
  if (!name || PyBytes_AsStringAndSize(arguments[0], &module, &length) ||
      raised(flashcoreCompileOptionsCreate(&options.handle)) ||
      !setOptions(options.handle, arguments + 2))
    return nullptr;
  FlashCoreCompilation compilation = {nullptr};
  FlashCoreStatus status;
  {
    WithoutGil withoutGil;
    status = flashcoreCompile(module, static_cast<size_t>(length), name,
                              options.handle, &compilation);
  }
  if (raised(status))
    return nullptr;
  return Boxed<Compilation>::create(Compilation(compilation)).release();
}

static PyObject *writeShape(PyObject *, PyObject *words) {
  const char *text = textOf(words);
  FlashCoreString mlir = {nullptr};
  if (!text || raised(flashcoreWriteShape(text, &mlir)))
    return nullptr;
  return takeText(mlir);
}

/// Words that are none are a ValueError, as wrong arguments are.
static PyObject *describeShape(PyObject *, PyObject *words) {
  const char *text = textOf(words);
  FlashCoreString json = {nullptr};
  if (!text || raised(flashcoreDescribeShape(text, &json), PyExc_ValueError))
    return nullptr;
  return takeText(json);
}

static PyObject *countFlops(PyObject *, PyObject *words) {
  FlashCoreShape shape;
  const char *text = textOf(words);
  if (!text || raised(flashcoreReadShape(text, &shape), PyExc_ValueError))
    return nullptr;
  return PyFloat_FromDouble(flashcoreShapeCountFlops(&shape));
}

static PyObject *findPtxas(PyObject *, PyObject *path) {
  const char *text = textOf(path);
  FlashCoreString found = {nullptr};
  if (!text || raised(flashcoreFindPtxas(text, &found)))
    return nullptr;
  return takeText(found);
}

static PyObject *version(PyObject *, PyObject *) {
  return toText(flashcoreGetVersion()).release();
}

static PyObject *chips(PyObject *, PyObject *) {
  Ref tuple(PyTuple_New(static_cast<Py_ssize_t>(flashcoreGetNumChips())));
  for (size_t i = 0; tuple && i < flashcoreGetNumChips(); ++i)
    PyTuple_SetItem(tuple.get(), static_cast<Py_ssize_t>(i),
                    toText(flashcoreGetChip(i)).release());
  return tuple.release();
}

/// Those that are arguments in Python, as tuples of texts: the columns keyword,
/// tensor, clause, elements, axes, role and use of the table.
static PyObject *operands(PyObject *, PyObject *) {
  static constexpr const char *rows[][7] = {
#define FLASHCORE_OPERAND(NAME, OPERAND, CLAUSE, TENSOR, ELEMENTS, AXES, ROLE, \
                          ACCESS, KEYWORD, USE)                                \
  {KEYWORD, TENSOR, CLAUSE, #ELEMENTS, AXES, #ROLE, #USE},
#include "flashcore/Operands.def"
  };
  Ref list(PyList_New(0));
  for (const auto &row : rows) {
    if (!*row[0])
      continue;
    Ref columns(Py_BuildValue("(sssssss)", row[0], row[1], row[2], row[3],
                              row[4], row[5], row[6]));
    if (!list || !columns || PyList_Append(list.get(), columns.get()))
      return nullptr;
  }
  return PyList_AsTuple(list.get());
}

/// What the table says of two operands that are arguments, as tuples of texts:
/// the kind, both arguments, and what a message says besides.
static PyObject *relations(PyObject *, PyObject *) {
  static const std::map<std::string_view, const char *> keywords = {
#define FLASHCORE_OPERAND(NAME, OPERAND, CLAUSE, TENSOR, ELEMENTS, AXES, ROLE, \
                          ACCESS, KEYWORD, USE)                                \
  {#NAME, KEYWORD},
#include "flashcore/Operands.def"
  };
  static constexpr const char *rows[][4] = {
#define FLASHCORE_OPERANDS_TOGETHER(FIRST, SECOND)                             \
  {"together", #FIRST, #SECOND, ""},
#define FLASHCORE_OPERAND_NEEDS(FIRST, SECOND, HINT)                           \
  {"needs", #FIRST, #SECOND, HINT},
#define FLASHCORE_OPERANDS_APART(FIRST, SECOND, HINT)                          \
  {"apart", #FIRST, #SECOND, HINT},
#define FLASHCORE_OPERANDS_LATER(FIRST, SECOND) {"later", #FIRST, #SECOND, ""},
#include "flashcore/Operands.def"
  };
  Ref list(PyList_New(0));
  for (const auto &row : rows) {
    Ref columns(Py_BuildValue("(ssss)", row[0], keywords.at(row[1]),
                              keywords.at(row[2]), row[3]));
    if (!list || !columns || PyList_Append(list.get(), columns.get()))
      return nullptr;
  }
  return PyList_AsTuple(list.get());
}

/// What `get` makes of 0, 1, ..., up to null without an exception.
template <typename F> static PyObject *toTuple(F get) {
  Ref list(PyList_New(0));
  for (size_t i = 0; list; ++i) {
    Ref item = get(i);
    if (!item)
      return PyErr_Occurred() ? nullptr : PyList_AsTuple(list.get());
    if (PyList_Append(list.get(), item.get()))
      return nullptr;
  }
  return nullptr;
}

static Ref toTextUnlessEmpty(const char *text) {
  return *text ? toText(text) : Ref();
}

static PyObject *chipsFor(PyObject *, PyObject *arguments) {
  const char *device = nullptr;
  long long sharedBytes = 0;
  if (!PyArg_ParseTuple(arguments, "sL", &device, &sharedBytes))
    return nullptr;
  return toTuple([&](size_t rank) {
    return toTextUnlessEmpty(flashcoreGetChipFor(device, sharedBytes, rank));
  });
}

static PyObject *callClass(PyObject *, PyObject *arguments) {
  const char *chip = nullptr;
  long long heads = 0, queries = 0, keys = 0, multiprocessors = 0;
  if (!PyArg_ParseTuple(arguments, "sLLLL", &chip, &heads, &queries, &keys,
                        &multiprocessors))
    return nullptr;
  return toText(
             flashcoreGetCallClass(chip, heads, queries, keys, multiprocessors))
      .release();
}

static PyObject *callSplits(PyObject *, PyObject *arguments) {
  const char *chip = nullptr;
  long long batch = 0, headsQ = 0, headsKV = 0, queries = 0, keys = 0, sms = 0;
  if (!PyArg_ParseTuple(arguments, "sLLLLLL", &chip, &batch, &headsQ, &headsKV,
                        &queries, &keys, &sms))
    return nullptr;
  return PyLong_FromLongLong(
      flashcoreGetCallSplits(chip, batch, headsQ, headsKV, queries, keys, sms));
}

static PyObject *knownSplits(PyObject *, PyObject *chip) {
  const char *name = textOf(chip);
  if (!name)
    return nullptr;
  return toTuple([&](size_t i) {
    int64_t splits = flashcoreGetCallSplitsAt(name, i);
    return Ref(splits ? PyLong_FromLongLong(splits) : nullptr);
  });
}

static PyObject *callClasses(PyObject *, PyObject *chip) {
  const char *name = textOf(chip);
  if (!name)
    return nullptr;
  return toTuple([&](size_t i) {
    return toTextUnlessEmpty(flashcoreGetCallClassAt(name, i));
  });
}

static PyMethodDef functions[] = {
    {"chips_for", chipsFor, METH_VARARGS,
     "chips_for(device, shared): those whose kernels a device runs that gives "
     "a "
     "block so many bytes of shared memory (0: what is known), best first."},
    {"call_class", callClass, METH_VARARGS,
     "call_class(chip, heads, queries, keys, multiprocessors): the "
     "expected-grid "
     "of the schedule that is best for a call, of query heads in all of its "
     "batch."},
    {"call_classes", callClasses, METH_O, "All that it may be for a chip."},
    {"call_splits", callSplits, METH_VARARGS,
     "call_splits(chip, batch, heads_q, heads_kv, queries, keys, "
     "multiprocessors): the key-splits of the schedule that is best for a call "
     "of few queries; 0 where the call is to say it."},
    {"known_splits", knownSplits, METH_O, "All that it may be but 0."},
    {"compile", method(compile), METH_FASTCALL,
     "compile(module, name, chips, schedule, ptxas, keep_phases)"},
    {"write_shape", writeShape, METH_O,
     "The module that the words of --shape stand for."},
    {"describe_shape", describeShape, METH_O,
     "What the words of --shape say, as JSON: the fields of "
     "flashcore.Problem."},
    {"count_flops", countFlops, METH_O,
     "Operations of the products that the words of --shape stand for."},
    {"find_ptxas", findPtxas, METH_O, "The ptxas that a path leads to."},
    {"version", version, METH_NOARGS, "'flashcore 0.1.0, LLVM 22.1.8'."},
    {"chips", chips, METH_NOARGS,
     "The chips that kernels can be made for, oldest first."},
    {"operands", operands, METH_NOARGS,
     "The operands of an attention that are arguments, in the op's order: "
     "(argument, tensor, clause, elements, axes, role, use) each, columns of "
     "flashcore/Operands.def."},
    {"relations", relations, METH_NOARGS,
     "Which operands go together: (kind, argument, argument, hint) each, with "
     "a kind of together, needs, apart or later."},
    {nullptr, nullptr, 0, nullptr}};

//===----------------------------------------------------------------------===//
// Compilation
//===----------------------------------------------------------------------===//

static PyObject *getPtx(PyObject *self, PyObject *arguments) {
  Py_ssize_t attention = 0, chip = 0;
  if (!PyArg_ParseTuple(arguments, "nn", &attention, &chip))
    return nullptr;
  return toText(flashcoreCompilationGetPtx(handleOf(self),
                                           static_cast<size_t>(attention),
                                           static_cast<size_t>(chip)))
      .release();
}

static PyObject *getPhase(PyObject *self, PyObject *arguments) {
  Py_ssize_t chip = 0, phase = 0;
  if (!PyArg_ParseTuple(arguments, "nn", &chip, &phase))
    return nullptr;
  return toText(flashcoreCompilationGetPhase(handleOf(self),
                                             static_cast<size_t>(chip),
                                             static_cast<size_t>(phase)))
      .release();
}

static PyObject *writeBundle(PyObject *self, PyObject *arguments) {
  Py_ssize_t attention = 0;
  PyObject *pathObject = nullptr;
  std::string path;
  if (!PyArg_ParseTuple(arguments, "nO", &attention, &pathObject) ||
      !readPath(pathObject, path))
    return nullptr;
  FlashCoreStatus status;
  {
    WithoutGil withoutGil;
    status = flashcoreCompilationWriteBundle(
        handleOf(self), static_cast<size_t>(attention), path.c_str());
  }
  if (raised(status))
    return nullptr;
  Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"ptx", getPtx, METH_VARARGS, "ptx(attention, chip)"},
    {"phase", getPhase, METH_VARARGS, "phase(chip, phase)"},
    {"write_bundle", writeBundle, METH_VARARGS,
     "write_bundle(attention, path)"},
    {nullptr, nullptr, 0, nullptr}};

template <const char *(*get)(FlashCoreCompilation)>
static PyObject *getText(PyObject *self, void *) {
  return toText(get(handleOf(self))).release();
}

template <size_t (*getCount)(FlashCoreCompilation),
          const char *(*get)(FlashCoreCompilation, size_t)>
static PyObject *getTexts(PyObject *self, void *) {
  size_t count = getCount(handleOf(self));
  Ref tuple(PyTuple_New(static_cast<Py_ssize_t>(count)));
  for (size_t i = 0; tuple && i < count; ++i)
    PyTuple_SetItem(tuple.get(), static_cast<Py_ssize_t>(i),
                    toText(get(handleOf(self), i)).release());
  return tuple.release();
}

static PyGetSetDef members[] = {
    {"warnings", getText<flashcoreCompilationGetWarnings>, nullptr,
     "Warnings and remarks; '' without.", nullptr},
    {"report", getText<flashcoreCompilationGetReport>, nullptr,
     "The JSON of flashcore-compile --json.", nullptr},
    {"explanation", getText<flashcoreCompilationGetExplanation>, nullptr,
     "The text of flashcore-compile --explain.", nullptr},
    {"names",
     getTexts<flashcoreCompilationGetNumAttentions,
              flashcoreCompilationGetName>,
     nullptr, "The attentions' names.", nullptr},
    {"chips",
     getTexts<flashcoreCompilationGetNumChips, flashcoreCompilationGetChip>,
     nullptr, "The chips.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

bool flashcore::python::addCompile(PyObject *module) {
  static PyType_Slot slots[] = {
      {Py_tp_dealloc, slot(Boxed<Compilation>::destroy)},
      {Py_tp_methods, methods},
      {Py_tp_getset, members},
      {Py_tp_doc, slot("What became of a module.")},
      {0, nullptr}};
  return addType<Compilation>(module, "flashcore._core.Compilation", slots) &&
         PyModule_AddFunctions(module, functions) == 0;
}
