# make run    installs what is missing, builds, runs examples/quick, says where the page is
# make test   installs what is missing, passes every test with the real tools
# make check  what every commit passes: format, vet, staticcheck, layers, race tests, cross-builds
GO ?= go
PLATFORMS = linux/amd64 linux/arm64 freebsd/amd64 freebsd/arm64 openbsd/amd64 netbsd/amd64 dragonfly/amd64 illumos/amd64

.PHONY: build check fmt vet staticcheck race cross
build:
	CGO_ENABLED=0 $(GO) build -trimpath -o bakeoff ./cmd/bakeoff
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags='-s -w' -o bakeoff-agent ./cmd/bakeoff-agent

check: fmt vet staticcheck race cross
fmt:
	@out=$$(gofmt -l .); [ -z "$$out" ] || { echo "gofmt would change: $$out"; exit 1; }
vet:
	$(GO) vet ./...
staticcheck:
	$(GO) tool staticcheck ./...
race:
	$(GO) test -race -short ./...
cross:
	@for p in $(PLATFORMS); do echo "build $$p"; GOOS=$${p%/*} GOARCH=$${p#*/} CGO_ENABLED=0 $(GO) build ./... || exit 1; done
