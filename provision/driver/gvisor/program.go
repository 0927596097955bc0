package gvisor

import (
	"context"
	"path"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lazy"
	"bakeoff/reach/conn"
)

// program is the runsc of a host.
type program struct {
	path    string
	version string // as it says; one built from the module may not know
	sha256  string // where it does not; it takes as long as half a creation
}

// defaultCache is bakeoff's cache for root, which this driver needs.
const defaultCache = "/var/cache/bakeoff"

// find looks for runsc in PATH, then in the cache. If it is in neither, the
// error is of kind fault.NotFound, and its fix is the command that builds
// runsc.
func find(ctx context.Context, host conn.Conn) (program, error) {
	cache := defaultCache
	if out, err := conn.Output(ctx, host, "printenv", "BAKEOFF_CACHE"); err == nil {
		if dir := strings.TrimSpace(string(out)); path.IsAbs(dir) {
			cache = dir
		}
	}
	own := path.Join(cache, "bin", runtime)
	for _, at := range []string{runtime, own} {
		out, err := conn.Output(ctx, host, at, "--version")
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return program{}, fault.Op(at, err)
		}
		p := program{path: at, version: parseVersion(string(out))}
		if p.version == unknown {
			p.sha256, err = digest(ctx, host, at)
		}
		return p, err
	}
	return program{}, fault.WithFix(fault.New(fault.NotFound, "runsc is not in PATH and not at %s", own),
		install(path.Dir(own)))
}

// install is the command that builds runsc into a directory.
func install(bin string) string {
	return "CGO_ENABLED=0 GOFLAGS= GOTOOLCHAIN=" + Toolchain + " GOBIN=" + bin + " go install -trimpath " +
		"-ldflags '-s -w -X gvisor.dev/gvisor/runsc/version.version=" + Version + "' gvisor.dev/gvisor/runsc@" + Version
}

// unknown is the version of a runsc that was built without a version.
const unknown = "unknown: built without one"

// parseVersion parses the first line of `runsc --version`: "runsc version
// release-20250203.0". Without a version at build time it has VERSION_MISSING.
func parseVersion(out string) string {
	line, _, _ := strings.Cut(out, "\n")
	v := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "runsc version"))
	if v == "" || v == "VERSION_MISSING" {
		return unknown
	}
	return v
}

var validDigest = lazy.Compile(`^[0-9a-f]{64}$`)

// digest is the hash of the program. It identifies a version that does not know
// its own name.
func digest(ctx context.Context, host conn.Conn, at string) (string, error) {
	if !path.IsAbs(at) {
		out, err := conn.Output(ctx, host, "which", at)
		if err != nil {
			return "", err
		}
		at = strings.TrimSpace(string(out))
	}
	out, err := conn.Output(ctx, host, "sha256sum", "--", at)
	if err != nil {
		return "", err
	}
	sum, _, _ := strings.Cut(string(out), " ")
	if !validDigest.MatchString(sum) {
		return "", fault.New(fault.Lab, "sha256sum says %q", out)
	}
	return sum, nil
}
