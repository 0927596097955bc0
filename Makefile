# make run      install what is missing, build, run examples/quick, print where the page is
# make test     install what is missing, run the tests with the real tools
# make check    what every commit must pass: format, vet, staticcheck, wings, race tests, cross-builds
# make gvisor   build gVisor's runsc, which Debian does not have, for the driver gvisor
# make cluster  start a Slurm with four nodes on this machine, to try run --on slurm
# make test-install  install Debian on ZFS in an emulated machine, and start it (hours)
# make demo-site  measure three examples and publish them as a site in DEMO (half an hour)
# make docs     generate docs/reference from the program's own descriptions
# make install  install programs, manual pages and completions below PREFIX
# make uninstall  remove what make install installed below PREFIX
# make alone builds, wherever the rule of build is in this file.
.DEFAULT_GOAL := build
PREFIX ?= /usr/local
DESTDIR ?=
LAB ?= examples/quick
FLAGS ?=
# What starts make may lack HOME, below which Go keeps its caches, and the folders of
# the administrator's programs (mkfs, zfs-fuse, nginx) in PATH.
ifeq ($(HOME),)
export HOME := $(shell getent passwd "$$(id -u)" | cut -d: -f6)
endif
export PATH := $(PATH):/usr/local/sbin:/usr/sbin:/sbin
PLATFORMS = linux/amd64 linux/arm64 freebsd/amd64 freebsd/arm64 openbsd/amd64 netbsd/amd64 dragonfly/amd64 illumos/amd64

.PHONY: toolchain build run test check static fmt vet staticcheck wings race cross docs install uninstall clean
# GO is the go in PATH. If that is missing or older than go.mod asks for, setup.sh
# downloads the toolchain, and GO is that one.
ifeq ($(origin GO),undefined)
GO = $(shell ./setup.sh print-go)
toolchain:
	@./setup.sh go
else
toolchain:
endif

build test vet staticcheck wings race cross gvisor docs bench-statistics: toolchain
build:
	CGO_ENABLED=0 $(GO) build -trimpath -o bakeoff ./cmd/bakeoff
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags='-s -w' -o bakeoff-agent ./cmd/bakeoff-agent

# Most technologies need root, so run uses sudo. Files that root wrote are then given to
# the calling user.
run:
	./setup.sh run
	@$(MAKE) --no-print-directory build
	@if [ "$$(id -u)" = 0 ]; then ./bakeoff run $(LAB) $(FLAGS); code=$$?; \
	else sudo ./bakeoff run $(LAB) $(FLAGS); code=$$?; [ ! -d runs ] || sudo chown -R "$$(id -u):$$(id -g)" runs; fi; \
	case $$code in 0) ;; 4) echo "Some cells are missing: the page says which, and why." ;; *) exit $$code ;; esac

# The tests run in two lanes, side by side. Packages whose tests can change what the
# whole machine shares (control groups, network namespaces, mounts, loop devices,
# engines) run one after another in lane 1: each waits for a lock, and the next one is
# linked meanwhile. Those are the packages whose tests link one of SHARED: through the
# first, bakeoff changes the machine that it runs on; by the second, tests start the
# whole program. So the list is computed, and no package can be missing from it.
# All others run in lane 2, two at a time, without the capabilities to change the machine:
# a test that does so by other means fails there every time. HARMLESS link the first of SHARED,
# but all that their tests start is servers, emulated machines and fakes, in control groups
# of their own if at all. They take longest, so lane 2 begins with them, in the reverse
# order of their names. APART change networks and mounts, and nothing else that is shared
# but control groups, engines and loop devices of their own: lane 2 runs each in
# a network and a mount namespace of its own. The rest touches nothing but its own files
# and processes. Most tests wait more than they compute. The output of lane 2 is held back,
# as lines of two writers may mix.
# The tests of the workload http stay in lane 1: some give a generator real-time priority.
# Building an image changes the machine while it is built, and downloads packages. So the
# tests of IMAGES, with all capabilities and the network, make those that lane 2 uses before
# it begins. Lane 1 does not wait for them.
# Tests of the whole program stay in lane 1, too: e2e.LeavesNothing looks into the cache of
# images, where others kill builds, and machines that are reached over SSH share a state.
# Those in APART give the program no image, and have a cache and such a state of their own
# (e2e.MainApart).
# The flags are those of build and static, so that every package is compiled once;
# without DWARF, tests are linked faster. check looks for what vet would find. No
# result of an earlier run is used. A package that hangs fails after 25 minutes, in which it
# may have to wait for the one before it.
# A skip is counted and named at the end. With CI set, a skip for something
# that a Debian package would bring is a failure.
SHARED = reach/conn/local|cmd/bakeoff/e2e
HARMLESS = provision/proof|lab/trial|$(FAKED)|$(RUNNERS)|$(APART)
FAKED = provision/driver/(bhyve|vmm)
RUNNERS = measure/execution/all|measure/workload/((cms|external)/runner|http/load)|cmd/bakeoff-agent
APART = $(DRIVERS)|provision/vm/filter|reach/conn/ssh|prepare/install/engine|cmd/bakeoff/e2e/(queue|gates|hosts)
DRIVERS = provision/driver/(chroot|bwrap|oci|nspawn|lxc|jail|zone|qemu|firecracker|docker|podman|machine|vm)
IMAGES = ./provision/proof ./provision/driver/qemu ./provision/driver/vm \
	$(if $(BAKEOFF_TEST_LONG),./cmd/bakeoff/e2e/hosts)
TEST = CGO_ENABLED=0 $(GO) test -trimpath -ldflags=-w -vet=off -count=1
test:
	./setup.sh run test
	@$(MAKE) --no-print-directory build
	@links=$$($(GO) list -test -f '{{.ImportPath}} {{join .Deps " "}}' ./...) || exit 1; \
	links=$$(echo "$$links" | sed -n 's/^\([^ ]*\)\.test /\1 /p'); \
	all=$$(echo "$$links" | cut -d' ' -f1); \
	harmless=$$(echo "$$all" | grep -E '^bakeoff/($(HARMLESS))$$' | sort -r); \
	shared=$$(echo "$$links" | grep -E ' bakeoff/($(SHARED))( |$$)' | cut -d' ' -f1 | grep -vxF "$$harmless"); \
	rest=$$(echo "$$all" | grep -vxF "$$harmless" | grep -vxF "$$shared"); \
	{ held=$$(mktemp) || exit 1; trap 'rm -f "$$held"' EXIT; trap 'kill $$! 2>/dev/null; exit 130' INT TERM; \
	  export BAKEOFF_TEST_PROGRAMS='$(CURDIR)'; \
	  { trap 'kill $$images; exit 130' TERM; \
	    $(TEST) -timeout 30m -run '^TestImages$$' $(IMAGES) & images=$$!; wait $$images; \
	    exec env BAKEOFF_TEST_APART='$(APART)' $(TEST) -json -timeout 25m -p 2 \
	      -exec "'$(CURDIR)/base/suite/apart.sh'" $$harmless $$rest; } >"$$held" 2>&1 & \
	  echo 'lane 1: packages that change the machine, one after another'; \
	  $(TEST) -json -timeout 25m -p 2 -exec "flock -o '$(CURDIR)/Makefile'" $$shared; \
	  wait; echo 'lane 2: packages that leave the machine as it is'; cat "$$held"; \
	} 2>&1 | CGO_ENABLED=0 $(GO) run -trimpath ./cmd/testsummary $${CI:+-refuse 'apt-get install'} \
	  $$harmless $$shared $$rest

check: static race cross
static: fmt vet staticcheck wings
vet staticcheck wings: export CGO_ENABLED = 0
fmt:
	@out=$$(gofmt -l .); [ -z "$$out" ] || { echo "gofmt would change: $$out"; exit 1; }
vet:
	$(GO) vet -trimpath ./...
staticcheck:
	GOFLAGS='$(GOFLAGS) -trimpath' $(GO) tool staticcheck ./...
wings:
	$(GO) test -trimpath .
race:
	@command -v $${CC:-cc} >/dev/null || ./setup.sh check
	$(GO) test -race -short ./...
# Every package is compiled for each system. Only the programs that are installed are linked:
# go build ./... would link two dozen programs, which takes a minute of CPU time a system.
cross:
	@for p in $(PLATFORMS); do echo "build $$p"; \
		export GOOS=$${p%/*} GOARCH=$${p#*/} CGO_ENABLED=0; $(GO) list -trimpath -export ./... >/dev/null && \
			$(GO) build -trimpath -ldflags=-w -o /dev/null ./cmd/bakeoff ./cmd/bakeoff-agent || exit 1; done
	@echo 'vet the agent for windows/amd64'; \
	agent=$$(GOOS=windows GOARCH=amd64 $(GO) list -deps ./cmd/bakeoff-agent | grep '^bakeoff/') && \
		GOOS=windows GOARCH=amd64 CGO_ENABLED=0 $(GO) vet $$agent

.PHONY: crosscheck
# crosscheck finds in seconds what cross finds in minutes, except what only compiler and linker find.
crosscheck: toolchain
	@CGO_ENABLED=0 $(GO) run -trimpath ./cmd/crosscheck $(PLATFORMS) windows/amd64:./cmd/bakeoff-agent

# gvisor builds runsc, which Debian does not have, into bakeoff's cache: a few minutes,
# 30 MB. It needs one of the Go releases whose internals gVisor supports.
GVISOR = v0.0.0-20250205023644-9414b50a5633
GVISOR_GO = go1.24.11
BAKEOFF_CACHE ?= /var/cache/bakeoff
.PHONY: gvisor
gvisor:
	install -d $(BAKEOFF_CACHE)/bin
	CGO_ENABLED=0 GOFLAGS= GOTOOLCHAIN=$(GVISOR_GO) GOBIN=$(BAKEOFF_CACHE)/bin $(GO) install -trimpath \
		-ldflags '-s -w -X gvisor.dev/gvisor/runsc/version.version=$(GVISOR)' \
		gvisor.dev/gvisor/runsc@$(GVISOR)

# test-install installs real systems in guests under emulation, starts them, hibernates one, goes
# back to a snapshot, updates a kernel, and interrupts an installation. The first run builds a
# rescue system and a module of ZFS (half an hour each) into bakeoff's cache, where later runs find
# them. Log lines appear as they come; at the end, each skip has its reason.
.PHONY: test-install
test-install: build
	./setup.sh run test
	@BAKEOFF_TEST_INSTALL=1 BAKEOFF_TEST_PROGRAMS='$(CURDIR)' $(GO) test -json -count=1 -timeout 8h \
		./cmd/bakeoff/e2e/install | $(GO) run ./cmd/testsummary -v $${CI:+-refuse 'apt-get install'} \
		bakeoff/cmd/bakeoff/e2e/install

docs:
	$(GO) test ./lab/manifest -run TestDriversAreWritten -count=1 -update
	$(GO) run ./cmd/bakeoff docs docs/reference

# cluster runs until Ctrl-C. It needs no root, and uses nothing of an installed Slurm but its
# programs.
.PHONY: cluster
cluster: build
	@$(GO) run ./cmd/cluster ./bakeoff

# demo-site publishes runs of three examples with a post about each.
# FLAGS='--profile ci' takes minutes, and decides nothing.
.PHONY: demo-site
DEMO ?= demo-site
demo-site:
	./setup.sh run technologies
	@$(MAKE) --no-print-directory build
	examples/site/build.sh $(DEMO) $(FLAGS)

install: build
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/man/man1 \
		$(DESTDIR)$(PREFIX)/share/bash-completion/completions \
		$(DESTDIR)$(PREFIX)/share/zsh/site-functions $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	install -m 755 bakeoff bakeoff-agent $(DESTDIR)$(PREFIX)/bin/
	./bakeoff man $(DESTDIR)$(PREFIX)/share/man/man1
	./bakeoff completion bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/bakeoff
	./bakeoff completion zsh > $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_bakeoff
	./bakeoff completion fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/bakeoff.fish

# uninstall leaves images, leases and run folders: see docs/start/install.md.
uninstall:
	cd $(DESTDIR)$(PREFIX) && rm -f bin/bakeoff bin/bakeoff-agent share/man/man1/bakeoff.1 share/man/man1/bakeoff-*.1 \
		share/bash-completion/completions/bakeoff share/zsh/site-functions/_bakeoff \
		share/fish/vendor_completions.d/bakeoff.fish

clean:
	rm -f bakeoff bakeoff-agent

# bench-statistics prints the operating characteristics of the verdicts: half an hour on
# two cores; use REPLAYS=1000 for a quick look.
.PHONY: bench-statistics
REPLAYS ?= 20000
bench-statistics:
	$(GO) run ./bench/statistics -replays $(REPLAYS)
