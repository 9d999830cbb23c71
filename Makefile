# tkc's build (GNU make). `make help` says what there is to make.
#
# Sources are found by folder: a new .c file needs no line here. Objects lie in build/obj/CONFIG, products of the usual
# configuration in build/, of others in build/CONFIG/. Two libraries come out: libtk.a (the runtime and the PTX
# emulator: no LLVM) and libtkc.a (language, compiler, interpreter, and the JIT that joins the two).

CC       = gcc
CONFIG  ?= opt
WERROR  ?=
PREFIX  ?= /usr/local
LLVM_CONFIG ?= llvm-config-22
LIBCLC  ?= /usr/lib/clc/nvptx64--.bc
CLANG_FORMAT ?= clang-format-14
VERSION := 0.1

# BUILD=build/other builds into a folder of its own.
BUILD ?= build
O := $(BUILD)/obj/$(CONFIG)
P := $(BUILD)$(if $(filter-out opt,$(CONFIG)),/$(CONFIG))
G := $(BUILD)/gen

CONFIG_FLAGS_opt  := -O2 -g
CONFIG_FLAGS_strict := -O2
CONFIG_FLAGS_asan := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wconversion $(if $(WERROR),-Werror)
CFLAGS   := -std=c11 -pthread $(CONFIG_FLAGS_$(CONFIG)) -ffunction-sections -fdata-sections
CPPFLAGS := -D_POSIX_C_SOURCE=200809L -I.
LDFLAGS  := -pthread -no-pie $(filter -fsanitize=%,$(CONFIG_FLAGS_$(CONFIG)))
$(if $(CONFIG_FLAGS_$(CONFIG)),,$(error CONFIG is opt, asan or strict, not '$(CONFIG)'))

# ---- LLVM: static, so that the command starts in milliseconds; the dead parts are dropped by the linker.
LLVM_PARTS   := nvptxcodegen passes bitreader linker
llvm          = $(or $(shell $(LLVM_CONFIG) $(1) 2>/dev/null),$(error $(LLVM_CONFIG) does not work: tools/setup.sh installs LLVM 22, or set LLVM_CONFIG=))
LLVM_INCLUDE  = -isystem $(call llvm,--includedir)
LLVM_LIBS     = -L$(call llvm,--libdir) $(call llvm,--link-static --libs $(LLVM_PARTS)) \
                -static-libstdc++ -static-libgcc -Wl,-Bstatic -lstdc++ -lz -lzstd -Wl,-Bdynamic
LLVM_SHARED   = -L$(call llvm,--libdir) -Wl,-rpath,$(call llvm,--libdir) -lLLVM-22
LIBS         := -lcjson -Wl,-Bstatic -lxxhash -Wl,-Bdynamic -ldl -lm

# ---- what is built from what
TK_SRC    := $(filter-out runtime/jit.c,$(wildcard runtime/*.c runtime/emu/*.c))
TKC_SRC   := $(wildcard lang/*.c compiler/*.c compiler/*/*.c runtime/jit.c)
RE_SRC    := $(wildcard lang/*.re compiler/*/*.re)
STD_TK    := $(sort $(wildcard lang/std/*.tk))
GEN_SRC   := $(addprefix $(G)/,$(notdir $(RE_SRC:.re=.c))) $(G)/std_tk.c $(G)/clc.c
TOOL_SRC  := $(filter-out tools/clc_subset.c,$(wildcard tools/*.c))
EXAMPLE_C := $(wildcard examples/*.c)
ALL_C     := $(TK_SRC) $(TKC_SRC) $(wildcard tools/*.c tests/*.c tests/*/*.c) $(EXAMPLE_C)
ALL_H     := $(wildcard lang/*.h compiler/*.h compiler/*/*.h runtime/*.h runtime/emu/*.h tools/*.h tests/*.h tests/*/*.h)
obj        = $(patsubst %.c,$(O)/%.o,$(1))
LIBTK     := $(P)/libtk.a
LIBTKC    := $(P)/libtkc.a
OURS       = -Wl,--start-group $(LIBTKC) $(LIBTK) -Wl,--end-group

.PHONY: all programs demo test check asan format format-check warnings layers dist install update clean help fuzzers objects FORCE
.DELETE_ON_ERROR:
.SECONDARY:

all: ## tkc, the two libraries and the example programs (the default)
all: $(LIBTK) $(LIBTKC) $(if $(wildcard tools/tkc.c),$(P)/tkc) $(EXAMPLE_C:%.c=$(P)/%)

$(LIBTK): $(call obj,$(TK_SRC))
$(LIBTKC): $(call obj,$(TKC_SRC) $(GEN_SRC))
$(LIBTK) $(LIBTKC): $(O)/sources
$(P)/%.a:
	@mkdir -p $(@D); rm -f $@
	$(call run,AR) $(AR) rcs $@ $(filter %.o,$^)

$(P)/tkc: $(call obj,$(TOOL_SRC)) $(LIBTKC) $(LIBTK)
	$(LINK) -Wl,--gc-sections,-rpath,'$$ORIGIN/../lib' $(filter %.o,$^) $(OURS) $(LLVM_LIBS) $(LIBS) -o $@

# The examples are compiled as a stranger would, with the public headers alone. What they do not use is not linked.
$(EXAMPLE_C:%.c=$(P)/%): $(P)/examples/%: $(O)/examples/%.o $(LIBTKC) $(LIBTK)
	@mkdir -p $(@D)
	$(LINK) -Wl,--gc-sections $< $(OURS) $(LLVM_LIBS) $(LIBS) -o $@
$(O)/examples/%.o: CPPFLAGS := -D_POSIX_C_SOURCE=200809L -Iruntime -Icompiler

# ---- objects and generated sources (V=1 shows the commands)
Q    := $(if $(V),,y)
run   = $(if $(Q),@echo "  $(1) $@";)
LINK  = $(call run,LD) $(CC) $(LDFLAGS)
# Rebuilt when the flags change; archives and programs also when a source comes or goes.
keep  = @mkdir -p $(@D); echo '$(1)' | cmp -s - $@ || echo '$(1)' > $@
BUILD_FLAGS := $(CC) $(CPPFLAGS) $(CFLAGS) $(WARNINGS)
$(O)/flags: FORCE
	$(call keep,$(BUILD_FLAGS))
$(O)/sources: FORCE
	$(call keep,$(sort $(ALL_C) $(GEN_SRC)))
FORCE:

$(O)/%.o: %.c $(O)/flags
	@mkdir -p $(@D)
	$(call run,CC) $(CC) $(CPPFLAGS) $(CFLAGS) $(WARNINGS) -MMD -MP -c $< -o $@
$(O)/compiler/llvm/%.o $(O)/tools/clc_subset.o: CPPFLAGS += $(LLVM_INCLUDE)

vpath %.re $(sort $(dir $(RE_SRC)))
$(G)/%.c: %.re
	@mkdir -p $(@D)
	$(call run,RE2C) re2c -W -Werror -i -b $< -o $@
$(G)/std_tk.c: $(STD_TK) tools/embed.sh $(wildcard lang/std)
	@mkdir -p $(@D)
	$(call run,EMBED) tools/embed.sh std $(STD_TK) > $@
$(G)/clc_subset: tools/clc_subset.c compiler/llvm/clc.def
	@mkdir -p $(@D)
	$(call run,LD) $(CC) $(CPPFLAGS) -std=c11 -O1 $(WARNINGS) $(LLVM_INCLUDE) $< $(LLVM_SHARED) -o $@
$(G)/clc.bc: $(G)/clc_subset $(LIBCLC)
	$(call run,CLC) $< $(LIBCLC) $@
$(G)/clc.c: $(G)/clc.bc tools/embed.sh
	$(call run,EMBED) tools/embed.sh bytes ll_clc_bitcode $< > $@

# ---- tests. A test that includes the driver or the emitter, itself or through a header of the tests, goes into `full`,
# which links LLVM; all others go into `unit`, which starts four times as fast (Criterion starts the program once per
# test). --gc-sections would drop every test.
TEST_SRC  := $(wildcard tests/*.c tests/unit/*.c)
WITH_LLVM := compiler/tkc\.h|compiler/llvm/
WITH_LLVM := $(WITH_LLVM)$(addprefix |,$(shell grep -lE 'include "($(WITH_LLVM))' tests/*.h tests/*/*.h))
FULL_SRC  := $(shell grep -lE 'include "($(subst $() ,,$(WITH_LLVM)))' $(TEST_SRC) /dev/null)
UNIT_SRC  := $(filter-out $(FULL_SRC),$(TEST_SRC))
GOLDENS   := $(sort $(wildcard tests/golden/*/*.tir tests/golden/*/*.tk tests/error/*.tk tests/run/*.tk))
DIAGS     := $(sort $(wildcard lang/*diags.def compiler/*diags.def compiler/*/*diags.def))
HARNESS   := $(O)/tests/libharness.a
FUZZERS   := $(patsubst tests/fuzz/%.c,$(P)/tests/%,$(wildcard tests/fuzz/fuzz_*.c))
TESTS     := $(if $(UNIT_SRC),$(P)/tests/unit) $(if $(FULL_SRC),$(P)/tests/full)

$(HARNESS): $(call obj,$(wildcard tests/harness/*.c) tools/argument.c tools/array.c tools/cli.c) $(O)/sources
$(O)/tests/%.a:
	@mkdir -p $(@D); rm -f $@
	$(call run,AR) $(AR) rcs $@ $(filter %.o,$^)
$(P)/tests/unit: $(call obj,$(UNIT_SRC)) $(HARNESS) $(LIBTKC) $(LIBTK)
	@mkdir -p $(@D)
	$(LINK) $(filter %.o,$^) $(HARNESS) $(OURS) -lcriterion $(LIBS) -o $@
$(P)/tests/full: $(call obj,$(FULL_SRC)) $(HARNESS) $(LIBTKC) $(LIBTK)
	@mkdir -p $(@D)
	$(LINK) $(filter %.o,$^) $(HARNESS) $(OURS) -lcriterion $(LLVM_LIBS) $(LIBS) -o $@
$(FUZZERS): $(P)/tests/%: $(O)/tests/fuzz/%.o $(HARNESS) $(LIBTKC) $(LIBTK)
	@mkdir -p $(@D)
	$(LINK) -Wl,--gc-sections $< $(HARNESS) $(OURS) $(LLVM_LIBS) $(LIBS) -o $@

BENCHES   := $(patsubst tests/bench/%.c,$(P)/tests/%,$(wildcard tests/bench/*.c))
$(BENCHES): $(P)/tests/%: $(O)/tests/bench/%.o $(LIBTK)
	@mkdir -p $(@D)
	$(LINK) $< $(LIBTK) $(LIBS) -o $@

# The test files as a list of macros: each becomes a Criterion test with its own name.
$(O)/tests/cases.inc: tests/cases.sh $(GOLDENS) $(DIAGS) $(TEST_SRC) FORCE
	@mkdir -p $(@D); tests/cases.sh '$(GOLDENS)' '$(DIAGS)' '$(filter tests/unit/%,$(TEST_SRC))' > $@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@
$(call obj,$(wildcard tests/*.c)): $(O)/tests/cases.inc
$(call obj,$(wildcard tests/*.c)): CPPFLAGS += -DTEST_CASES='"$(O)/tests/cases.inc"'

programs: all $(TESTS) $(BENCHES)
fuzzers: $(FUZZERS)

test: programs ## build and run every test; the last line counts them
	@$(MAKE) --no-print-directory CONFIG=asan fuzzers
	+tools/test.sh $(P) $(BUILD)/asan
asan: $(GEN_SRC) ## everything and all tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@$(MAKE) --no-print-directory CONFIG=asan programs fuzzers
	+tools/test.sh $(BUILD)/asan $(BUILD)/asan
check: layers format-check warnings test ## what a change must pass: test, include rule, format, no warnings
layers: ## who may include whom
	tools/layers.sh
format: ## rewrite every .c and .h in the project's format
	$(CLANG_FORMAT) -i $(ALL_C) $(ALL_H)
format-check:
	$(CLANG_FORMAT) --dry-run --Werror $(ALL_C) $(ALL_H)
warnings: $(GEN_SRC) ## every source compiled with warnings as errors
	@$(MAKE) --no-print-directory CONFIG=strict WERROR=1 objects
objects: $(call obj,$(ALL_C) $(GEN_SRC))
update: programs ## rewrite the expected part of the golden files; review the diff
	-UPDATE=1 tools/test.sh $(P) $(BUILD)/asan golden
	@git --no-pager diff --stat tests/golden

# ---- using it
demo: all ## compile examples/vector_add.tk to PTX and run it on the best device
	tools/demo.sh $(P)/tkc
install: all ## libraries, headers, pkg-config files and tkc under PREFIX=/usr/local
	tools/install.sh $(P) '$(DESTDIR)' '$(PREFIX)' '$(VERSION)' '-L$(call llvm,--libdir) -lLLVM-22'
dist: all ## a folder that works on another x86-64 Linux without LLVM
	tools/dist.sh $(P)
clean: ## remove everything that was built
	rm -rf $(BUILD) dist
help: ## this text
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' Makefile
	@echo "  WERROR=1 warnings are errors   V=1 show commands   CONFIG=asan   LLVM_CONFIG=   BUILD=build/other   PREFIX="

-include $(shell find $(O) -name '*.d' 2>/dev/null)
