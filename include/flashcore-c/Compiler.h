/*===- Compiler.h - C interface of the compiler -------------------*- C -*-===*\
|*                                                                            *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
|*===----------------------------------------------------------------------===*|
|*                                                                            *|
|* From MLIR, or from the words of `flashcore-compile --shape`, to PTX, to    *|
|* bundles (docs/Bundle.md) and to what --explain and --json say. Status.h    *|
|* has the rules of ownership, errors and threads.                            *|
|*                                                                            *|
|* A compilation runs on a thread of its own with 8 MiB of stack, in the      *|
|* locale "C". No signal handler is installed and nothing is written to a     *|
|* standard stream. All text that comes out is UTF-8.                         *|
|*                                                                            *|
|* No MLIR text can end the process. These can:                               *|
|*   - bytecode that MLIR has not written, whose reader trusts it: compile    *|
|*     bytecode of others as text                                             *|
|*   - memory that runs out inside of LLVM                                    *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#ifndef FLASHCORE_C_COMPILER_H
#define FLASHCORE_C_COMPILER_H

#include "flashcore-c/Status.h"

#ifdef __cplusplus
extern "C" {
#endif

FLASHCORE_DEFINE_HANDLE(FlashCoreCompileOptions);
/** What became of a module. Not changed by anything, so for all threads. */
FLASHCORE_DEFINE_HANDLE(FlashCoreCompilation);

/** "flashcore 0.1.0, LLVM 22.1.8". */
FLASHCORE_CAPI_EXPORT const char *flashcoreGetVersion(void);
/** The chips that kernels can be made for, oldest first: "sm_80", ... */
FLASHCORE_CAPI_EXPORT size_t flashcoreGetNumChips(void);
FLASHCORE_CAPI_EXPORT const char *flashcoreGetChip(size_t index);
/** Of these the one whose code is best on a device, which is named as by
 *  flashcoreDeviceGetChip: "sm_90a" for "sm_90", whose code runs nowhere else,
 *  and "sm_90" for "sm_100". Its kernels ask for no more bytes of shared memory
 *  than a block of the device has (flashcoreDeviceGetSharedMemoryPerBlock; 0:
 *  what such devices are known to have): "sm_86" for "sm_87". Of a `rank` above
 *  0 it is the next best, and "" behind the last, or if the device runs none.
 */
FLASHCORE_CAPI_EXPORT const char *
flashcoreGetChipFor(const char *device, int64_t sharedMemoryPerBlock,
                    size_t rank);

/** The schedule's `expected-grid` that is best for a call of these sizes, which
 *  a kernel leaves open, on a GPU of `numSMs`: "quarter", or "any" for large
 *  calls, whose kernel the compiler chooses without being told. `heads` are
 *  query heads of all of the batch. "" for a chip that there is not. */
FLASHCORE_CAPI_EXPORT const char *
flashcoreGetCallClass(const char *chip, int64_t heads, int64_t seqlenQ,
                      int64_t seqlenK, int64_t numSMs);
/** All that it may be for a chip; "" from their number on. Of a chip whose
 *  kernels do not differ by it, "any" alone. */
FLASHCORE_CAPI_EXPORT const char *flashcoreGetCallClassAt(const char *chip,
                                                          size_t index);
/** The schedule's `key-splits` that is best for a call of few queries whose
 *  kernel leaves batch and keys open; 0 for a kernel that is not told, whose
 *  calls say it (split_count = call). 1 for a chip that there is not. */
FLASHCORE_CAPI_EXPORT int64_t flashcoreGetCallSplits(
    const char *chip, int64_t batch, int64_t headsQ, int64_t headsKV,
    int64_t seqlenQ, int64_t seqlenK, int64_t numSMs);
/** All that it may be for a chip but 0; 0 from their number on. */
FLASHCORE_CAPI_EXPORT int64_t flashcoreGetCallSplitsAt(const char *chip,
                                                       size_t index);

/*===----------------------------------------------------------------------===*\
|* Options                                                                    *|
\*===----------------------------------------------------------------------===*/

/** Options with their defaults: the chip of the module's own #nvvm.target, else
 *  sm_89; default schedules; no cubin. */
FLASHCORE_CAPI_EXPORT FlashCoreStatus
flashcoreCompileOptionsCreate(FlashCoreCompileOptions *options);
FLASHCORE_CAPI_EXPORT void
flashcoreCompileOptionsDestroy(FlashCoreCompileOptions options);
/** "sm_89", or several: "sm_80,sm_90". */
FLASHCORE_CAPI_EXPORT FlashCoreStatus flashcoreCompileOptionsSetChips(
    FlashCoreCompileOptions options, const char *chips);
/** One option of the schedule, by its name on the command line of
 *  flashcore-compile without dashes: "block-n" and "64". */
FLASHCORE_CAPI_EXPORT FlashCoreStatus flashcoreCompileOptionsSetSchedule(
    FlashCoreCompileOptions options, const char *name, const char *value);
/** Make cubins with NVIDIA's ptxas at `path`; with "" the one in
 *  $CUDA_HOME/bin, on PATH or beside this library. Null makes none. */
FLASHCORE_CAPI_EXPORT FlashCoreStatus flashcoreCompileOptionsSetPtxas(
    FlashCoreCompileOptions options, const char *path);
/** Keep the IR after each phase. */
FLASHCORE_CAPI_EXPORT FlashCoreStatus flashcoreCompileOptionsSetKeepPhases(
    FlashCoreCompileOptions options, bool keep);

/** The path that flashcoreCompileOptionsSetPtxas takes for `path`; an error
 *  says where it was looked for. */
FLASHCORE_CAPI_EXPORT FlashCoreStatus
flashcoreFindPtxas(const char *path, FlashCoreString *found);

/*===----------------------------------------------------------------------===*\
|* Compiling                                                                  *|
\*===----------------------------------------------------------------------===*/

/** The module that the words of --shape stand for, such as
 *  "b1 h32/8 s4096 d128 bf16 causal"; docs/Running.md lists them. They can say
 *  every operand, attribute and region of an attention; `score=@FILE` and
 *  `mask=@FILE` read a region from a file. */
FLASHCORE_CAPI_EXPORT FlashCoreStatus
flashcoreWriteShape(const char *words, FlashCoreString *mlir);

/** What the words of --shape say, with what they leave out, of those that were
 *  there first; flashcoreDescribeShape has all. */
typedef struct FlashCoreShape {
  /** -1 is a size that is chosen at run time; head dims are always known. */
  int64_t batch, headsQ, headsKV, seqlenQ, seqlenK, headDim, headDimV;
  /** -1 is unbounded. */
  int64_t windowLeft, windowRight;
  /** The shortest decimal number that reads as the f32 of the kernel; 0 for no
   *  cap, for a scale of 1 / sqrt(head_dim), and without a dropout. */
  double softcap, scale, dropout;
  /** "f16" or "bf16". */
  const char *type;
  /** "none", "bottom_right" or "top_left". */
  const char *causal;
  /** "bhsd", "bshd", "packed" or "strided". */
  const char *layout;
  /** Such as "1h1k", and "f16", "bf16" or "f32"; "" without a bias. */
  char biasAxes[5];
  const char *biasType;
  bool hasLse;
  /** Such as "masked", and a type; "" without an output of scores. */
  const char *scoresStage, *scoresType;
  /** Rows that are appended, -1 for any number; 0 without an append. */
  int64_t seqlenNew;
  /** Columns that are turned, and "half" or "interleaved"; 0 and "" without. */
  int64_t rotaryDim;
  const char *rotaryStyle;
  /** Queries and keys of a block of the lists, and their axes, such as "b1"; 0
   *  and "" without lists. */
  int64_t blockQueries, blockKeys;
  char blockAxes[3];
} FlashCoreShape;

/** Reads the same words. The texts of `shape` live as long as the library. */
FLASHCORE_CAPI_EXPORT FlashCoreStatus flashcoreReadShape(const char *words,
                                                         FlashCoreShape *shape);

/** All that the same words say, as a JSON object in one line: the fields above
 * by the names "batch", "heads_q", "causal" and so on, null where they are open
 * or none, with "operands" and "regions", words that have no name of their own,
 * and "sizes", those of further axes by name, "?" where they are open. */
FLASHCORE_CAPI_EXPORT FlashCoreStatus
flashcoreDescribeShape(const char *words, FlashCoreString *json);

/** Floating-point operations of the two products, over the keys that each query
 *  sees: by the convention of the field, half of all for a causal square. 0
 *  where a size is not known. */
FLASHCORE_CAPI_EXPORT double
flashcoreShapeCountFlops(const FlashCoreShape *shape);

/** Compiles each attention of a module, `length` bytes of MLIR text or
 *  bytecode, for each chip. An error is "NAME:LINE:COLUMN: error: expects ...",
 *  a line each, where it has a place in the module. It is a
 *  FlashCoreStatusUnsupported if all that is wrong is what no phase lowers yet
 *  (docs/Support.md). Null `options` are the defaults. */
FLASHCORE_CAPI_EXPORT FlashCoreStatus flashcoreCompile(
    const char *module, size_t length, const char *name,
    FlashCoreCompileOptions options, FlashCoreCompilation *compilation);
FLASHCORE_CAPI_EXPORT void
flashcoreCompilationDestroy(FlashCoreCompilation compilation);

/** Warnings and remarks, in the form of errors; "" without. */
FLASHCORE_CAPI_EXPORT const char *
flashcoreCompilationGetWarnings(FlashCoreCompilation compilation);
/** The document of `flashcore-compile --json`: of each attention and chip the
 *  problem, the schedule, a reason for each choice, what open sizes would
 *  change, and registers, spills and shared memory where there is a cubin. */
FLASHCORE_CAPI_EXPORT const char *
flashcoreCompilationGetReport(FlashCoreCompilation compilation);
/** The text of `flashcore-compile --explain`. */
FLASHCORE_CAPI_EXPORT const char *
flashcoreCompilationGetExplanation(FlashCoreCompilation compilation);

FLASHCORE_CAPI_EXPORT size_t
flashcoreCompilationGetNumAttentions(FlashCoreCompilation compilation);
/** The name of its function, with .0, .1, ... where that has several. */
FLASHCORE_CAPI_EXPORT const char *
flashcoreCompilationGetName(FlashCoreCompilation compilation, size_t attention);
FLASHCORE_CAPI_EXPORT size_t
flashcoreCompilationGetNumChips(FlashCoreCompilation compilation);
FLASHCORE_CAPI_EXPORT const char *
flashcoreCompilationGetChip(FlashCoreCompilation compilation, size_t chip);
FLASHCORE_CAPI_EXPORT const char *
flashcoreCompilationGetPtx(FlashCoreCompilation compilation, size_t attention,
                           size_t chip);
/** What is kept of phases: 0 is the input, 1 to 7 the phases of
 *  docs/Pipeline.md; "" if nothing was kept. */
FLASHCORE_CAPI_EXPORT const char *
flashcoreCompilationGetPhase(FlashCoreCompilation compilation, size_t chip,
                             size_t phase);
/** Writes the bundle of one attention; replaces one that is there, and nothing
 *  else. Readers see the old one or the new one. */
FLASHCORE_CAPI_EXPORT FlashCoreStatus flashcoreCompilationWriteBundle(
    FlashCoreCompilation compilation, size_t attention, const char *path);

#ifdef __cplusplus
}
#endif

#endif /* FLASHCORE_C_COMPILER_H */
